//! Diagnostic view of a connected Envoy: names and versions, never contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::ResourceType;
use crate::connection::{Connection, Protocol};
use crate::cursor::Cursor;
use crate::due::LastSent;
use crate::fleets::StreamState;

/// One connected Envoy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvoyView {
    /// The fleet, `namespace/name` of its Gateway.
    pub fleet: Arc<str>,
    /// The `node.id`.
    pub node: Arc<str>,
    /// The build: version and flags of the bootstrap, empty where the Envoy reported none.
    pub build: Arc<str>,
    /// The variant of the protocol.
    pub protocol: Protocol,
    /// The number of the stream since the server started.
    pub stream: u64,
    /// State by type: `CDS`, `EDS`, `SDS`, `LDS`, `RDS`. Types without a subscription are left out.
    pub types: BTreeMap<&'static str, TypeView>,
}

/// State of an Envoy for one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeView {
    /// Whether the Envoy subscribed to all resources.
    pub wildcard: bool,
    /// Number of resources to which the Envoy subscribed by name.
    pub names: usize,
    /// Number of resources that are up to date.
    pub synced: usize,
    /// Number of resources that were sent and not answered yet, or have an outdated version.
    pub stale: usize,
    /// Number of resources that are still to be sent for the first time.
    pub not_sent: usize,
    /// Refused resources, with the refused version.
    pub refused: BTreeMap<Arc<str>, String>,
    /// Number of unanswered responses.
    pub unanswered: usize,
}

/// The status of a resource at an Envoy, in the terms of CSDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceStatus {
    Synced,
    Stale,
    NotSent,
    Refused,
}

/// A resource to which an Envoy subscribed.
pub(crate) struct ResourceView {
    pub(crate) kind: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) version: String,
    pub(crate) status: ResourceStatus,
}

impl EnvoyView {
    pub(crate) fn of(stream: &StreamState) -> Self {
        let connection = stream.connection();
        let types = ResourceType::ALL
            .into_iter()
            .filter(|kind| connection.cursor(*kind).subscribed)
            .map(|kind| (kind.short_name(), TypeView::of(connection.cursor(kind))))
            .collect();
        Self {
            fleet: stream.envoy.fleet.clone(),
            node: stream.envoy.node.clone(),
            build: stream.envoy.build.clone(),
            protocol: stream.protocol,
            stream: stream.number,
            types,
        }
    }
}

impl TypeView {
    fn of(cursor: &Cursor) -> Self {
        let mut view = Self {
            wildcard: cursor.wildcard,
            names: cursor.names.len(),
            synced: 0,
            stale: 0,
            not_sent: 0,
            refused: BTreeMap::new(),
            unanswered: cursor.flights.len(),
        };
        for resource in resources_of(cursor) {
            match resource.status {
                ResourceStatus::Synced => view.synced += 1,
                ResourceStatus::Stale => view.stale += 1,
                ResourceStatus::NotSent => view.not_sent += 1,
                ResourceStatus::Refused => {
                    view.refused.insert(resource.name, resource.version);
                }
            }
        }
        view
    }
}

/// Returns every existing resource with a subscription of the client, by type and name.
pub(crate) fn resources(connection: &Connection) -> Vec<ResourceView> {
    ResourceType::ALL.into_iter().flat_map(|kind| resources_of(connection.cursor(kind))).collect()
}

fn resources_of(cursor: &Cursor) -> impl Iterator<Item = ResourceView> {
    let flying: BTreeSet<&str> =
        cursor.flights.iter().flat_map(|flight| flight.items.iter().map(|item| &*item.name)).collect();
    let wanted = cursor.seen.iter().filter(|(name, _)| cursor.wants(name));
    wanted.map(move |(name, resource)| {
        let status = if cursor.parked.get(name).is_some() {
            ResourceStatus::Refused
        } else if let Some(due) = cursor.changes.get(name) {
            if matches!(due.held, LastSent::Has { .. }) { ResourceStatus::Stale } else { ResourceStatus::NotSent }
        } else if flying.contains(&**name) {
            ResourceStatus::Stale
        } else {
            ResourceStatus::Synced
        };
        ResourceView { kind: cursor.kind, name: name.clone(), version: resource.version.to_string(), status }
    })
}
