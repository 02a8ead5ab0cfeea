//! Words for the unit tests of this crate: snapshots of routes, and identities of Envoys.

use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins};

use crate::fleets::StreamClient;
use crate::silence::ClientActivity;
use crate::{EnvoyId, Resource, ResourceType, Snapshot};

/// Returns the identity of an Envoy that is written as `infra/public envoy-1` or `infra/public envoy-1 1.40.0`.
pub(crate) fn envoy(text: &str) -> EnvoyId {
    let mut words = text.split(' ').map(Arc::from);
    let mut word = || words.next().unwrap_or_default();
    EnvoyId { fleet: word(), node: word(), build: word() }
}

/// Returns a client of a unix socket.
pub(crate) fn client(activity: ClientActivity) -> StreamClient {
    StreamClient { activity, address: None, is_proven: false, connected: 0 }
}

/// Returns a snapshot of routes that are written as `a=1 b=2`, each with its content.
pub(crate) fn routes(text: &str) -> Snapshot {
    routes_of(text, Origins::default())
}

/// Returns a snapshot of routes that were made from an object of this name.
pub(crate) fn routes_from(object: &str, text: &str) -> Snapshot {
    routes_of(text, Origins::one(ObjectKey::new("g", "Kind", "ns", object)))
}

fn routes_of(text: &str, origins: Origins) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (name, content) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        let resource = Resource::new(name, content.as_bytes().to_vec(), origins.clone());
        snapshot.insert(ResourceType::Route, Arc::new(resource));
    }
    snapshot
}
