//! What benchmarks of translation share: events from JSON, what is published, how much of it is new, the message of the
//! floor.

use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use holdfast_api::apis::{Decoded, decode};
use holdfast_engine::engine::{Action, Event};
use holdfast_xds::{ResourceType, Snapshot};

/// The event of an object's JSON.
pub(crate) fn event(json: &[u8]) -> Event {
    match decode(serde_json::from_slice(json).unwrap(), None) {
        Decoded::Object(object, faults) => Event::Applied(object, faults),
        other => panic!("{other:?}"),
    }
}

/// What is published last.
pub(crate) fn published(actions: Vec<Action>) -> Option<Snapshot> {
    actions.into_iter().rev().find_map(|action| match action {
        Action::Publish { offers, .. } => Some(offers.everyone),
        _ => None,
    })
}

/// Bytes of the resources that are new: as they are pushed, with what surrounds them, and of their bodies alone.
pub(crate) fn new_bytes(old: &Snapshot, new: &Snapshot) -> (usize, usize) {
    let resources = ResourceType::ALL.into_iter().flat_map(|kind| new.of(kind).iter().map(move |entry| (kind, entry)));
    let changed = resources.filter(|(kind, (name, resource))| old.get(*kind, name) != Some(*resource));
    changed.fold((0, 0), |(pushed, bodies), (_, (name, resource))| {
        (pushed + resource.body.len() + name.len() + 32, bodies + resource.body.len())
    })
}

/// The message that the floor encodes: a route to one cluster.
pub(crate) fn message(name: &str, path: PathSpecifier) -> envoy::Route {
    envoy::Route {
        name: name.into(),
        r#match: Some(envoy::RouteMatch { path_specifier: Some(path), ..Default::default() }),
        action: Some(envoy::route::Action::Route(envoy::RouteAction {
            cluster_specifier: Some(envoy::route_action::ClusterSpecifier::Cluster("service/team/backend-1/80".into())),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// A share of times that took no longer, in microseconds.
pub(crate) fn percentile(times: &mut [Duration], share: usize) -> f64 {
    times.sort_unstable();
    times[times.len() * share / 100].as_nanos() as f64 / 1000.0
}

/// What an edit without effect costs.
pub(crate) fn silence(silent: bool) -> &'static str {
    if silent { "0 bytes" } else { "PUSHED" }
}
