//! Kubernetes mode: the objects of an API server, listed, watched, and converted to events; and everything that is
//! written there: statuses, Events, the Lease, data planes, and the state that replicas share.
//!
//! The path of an object: [`watch`] lists and watches its kind and decodes it on arrival, [`watching`] decides whether
//! the change is plausible, and [`forwarder`] forwards it once all was listed. Nothing here decides what is served.
//!
//! Flags belong to the program; this crate has the options that they set.

pub mod client;
pub mod denials;
mod forwarder;
pub mod leader;
pub mod leadership;
pub mod listing;
pub mod planes;
mod pulse;
pub mod recorder;
mod rest;
pub mod rights;
pub mod secrets;
mod series;
mod served;
pub mod sources;
pub mod statuses;
pub mod token_keys;
mod watch;
pub mod watching;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::{KINDS, ResourceScope};
use holdfast_api::watch_problem::WatchProblem;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use kube::Client;
use prometheus::IntGaugeVec;
use tokio::sync::mpsc;

use self::denials::Denials;
use self::forwarder::Forwarder;
use self::sources::Sources;
use self::watch::WatchTarget;
use self::watching::{DeletionGuard, Watching};

/// Maximum number of watch events that wait; beyond it the watches wait too.
const WATCH_EVENTS_MAX: usize = 4096;

/// The inputs and outputs of watching, beside the API server.
pub struct Means {
    /// Objects that an earlier run knew.
    pub remembered: BTreeSet<ObjectKey>,
    /// Missing permissions of other components than watches.
    pub denials: Denials,
    /// The metric of problems, by kind and reason.
    pub gauge: IntGaugeVec,
    /// The state of the inputs.
    pub sources: Arc<Sources>,
}

/// What the watches have reported since the last reading.
#[derive(Debug)]
pub struct WatchReading {
    /// The changes.
    pub events: Vec<Event>,
    /// All problems of watches, and missing permissions.
    pub problems: Vec<WatchProblem>,
    /// The number of objects.
    pub objects: usize,
}

/// Watches every kind, in these namespaces or in all, until the receiver of readings is closed.
pub fn start<R: From<WatchReading> + Send + 'static>(
    client: &Client,
    namespaces: &[String],
    guard: DeletionGuard,
    means: Means,
    readings: mpsc::Sender<R>,
) {
    let watches = watches(namespaces);
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
