//! Input in Kubernetes mode: the objects of an API server, listed, watched, and converted to events.
//!
//! The path of an object: [`watch`] lists and watches its kind and decodes it on arrival, [`holdfast_engine::watching`]
//! decides whether the change is plausible, and [`forwarder`] forwards it once all was listed. Nothing here decides
//! what is served.

pub mod arguments;
pub mod client;
pub(crate) mod denials;
pub mod forwarder;
pub(crate) mod leader;
pub(crate) mod listing;
pub mod planes;
mod pulse;
pub(crate) mod recorder;
mod rest;
pub mod rights;
pub(crate) mod secrets;
mod series;
mod served;
pub(crate) mod statuses;
pub mod token_keys;
mod watch;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::{KINDS, ResourceScope};
use holdfast_engine::watching::{DeletionGuard, Watching};
use holdfast_graph::ObjectKey;
use kube::Client;
use prometheus::IntGaugeVec;
use tokio::sync::mpsc;

use self::arguments::KubernetesArgs;
use self::denials::Denials;
use self::forwarder::Forwarder;
use self::watch::WatchTarget;
use super::manifests::ManifestReading;
use super::serve::sources::Sources;

/// Maximum number of watch events that wait; beyond it the watches wait too.
const WATCH_EVENTS_MAX: usize = 4096;

/// The inputs and outputs of watching, beside the API server.
pub(crate) struct Means {
    /// Objects that an earlier run knew.
    pub(crate) remembered: BTreeSet<ObjectKey>,
    /// Missing permissions of other components than watches.
    pub(crate) denials: Denials,
    /// The metric of problems, by kind and reason.
    pub(crate) gauge: IntGaugeVec,
    /// The state of the inputs.
    pub(crate) sources: Arc<Sources>,
}

/// Watches every kind, until the receiver of readings is closed.
pub(crate) fn start(client: &Client, args: &KubernetesArgs, means: Means, readings: mpsc::Sender<ManifestReading>) {
    let watches = watches(&args.watch_namespaces);
    let guard = DeletionGuard::new(args.mass_delete_guard.is_on());
    let mut watching = Watching::new(watches.iter().map(WatchTarget::name), guard);
    let Means { remembered, denials, gauge, sources } = means;
    for (index, watch) in watches.iter().enumerate() {
        watching.remember(index, remembered.iter().filter(|key| watch.is_of(key)).cloned());
    }
    let (watch_events_in, watch_events) = mpsc::channel(WATCH_EVENTS_MAX);
    let confirm_senders = watches
        .into_iter()
        .enumerate()
        .map(|(index, watch)| watch.start(index, client.clone(), watch_events_in.clone()));
    let confirm_senders = confirm_senders.collect();
    tokio::spawn(pulse::watch(client.clone(), sources.clone()));
    tokio::spawn(
        Forwarder::new(watching, confirm_senders, denials, gauge, sources.clone()).run(watch_events, readings),
    );
}

/// A watch for every kind; for namespaced kinds one for each named namespace, if any are named.
fn watches(namespaces: &[String]) -> Vec<WatchTarget> {
    let mut watches = Vec::new();
    for kind in KINDS {
        if kind.scope == ResourceScope::Cluster || namespaces.is_empty() {
            watches.push(WatchTarget { kind, namespace: None });
        } else {
            let of = |namespace: &String| WatchTarget { kind, namespace: Some(Arc::from(namespace.as_str())) };
            watches.extend(namespaces.iter().map(of));
        }
    }
    watches
}
