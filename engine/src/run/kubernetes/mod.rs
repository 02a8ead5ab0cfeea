//! Kubernetes mode's input: the objects of an API server, listed, watched, and turned into events.
//!
//! The way of an object: [`watch`] lists and watches its kind and decodes it on arrival, [`crate::watching`] decides
//! what is believed, and [`clerk`] passes that on once everything was listed. Nothing here decides what is served.

pub mod arguments;
pub mod clerk;
pub mod client;
pub(crate) mod leader;
pub mod planes;
pub(crate) mod recorder;
pub mod rights;
pub(crate) mod secrets;
mod series;
mod served;
pub(crate) mod statuses;
pub mod token_keys;
mod watch;

use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;

use self::arguments::KubernetesArgs;
use self::watch::Watch;
use super::manifests::Reading;
use crate::apis::{KINDS, Scope};
use crate::watching::{Guard, Watching};

/// How many words of watches may wait; a watch whose word finds no place waits too.
const WORDS_MAX: usize = 4096;

/// Watches every kind, until nobody takes the readings any longer.
pub fn start(client: &Client, args: &KubernetesArgs, readings: mpsc::Sender<Reading>) {
    let watches = watches(&args.watch_namespaces);
    let guard = Guard::new(args.mass_delete_guard.is_on());
    let watching = Watching::new(watches.iter().map(Watch::name), guard);
    let (words_in, words) = mpsc::channel(WORDS_MAX);
    let asks =
        watches.into_iter().enumerate().map(|(index, watch)| watch.start(index, client.clone(), words_in.clone()));
    let asks = asks.collect();
    tokio::spawn(clerk::run(watching, words, asks, readings));
}

/// Every kind; namespaced ones in each of the namespaces, where some are named.
fn watches(namespaces: &[String]) -> Vec<Watch> {
    let mut watches = Vec::new();
    for kind in KINDS {
        if kind.scope == Scope::Cluster || namespaces.is_empty() {
            watches.push(Watch { kind, namespace: None });
        } else {
            let of = |namespace: &String| Watch { kind, namespace: Some(Arc::from(namespace.as_str())) };
            watches.extend(namespaces.iter().map(of));
        }
    }
    watches
}
