//! What diagnostics show of a connected Envoy: names and versions, never contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::ResourceType;
use crate::connection::{Connection, Protocol};
use crate::cursor::Cursor;
use crate::due::Held;
use crate::fleets::StreamState;

/// One connected Envoy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvoyView {
    /// Its fleet, `namespace/name` of its Gateway.
    pub fleet: Arc<str>,
    /// Its `node.id`.
    pub node: Arc<str>,
    /// Its build: version and flags of the bootstrap, empty where it told none.
    pub build: Arc<str>,
    /// The variant of the protocol it speaks.
    pub protocol: Protocol,
    /// The number of its stream since the server started.
    pub stream: u64,
    /// Where it stands, by type: `CDS`, `EDS`, `SDS`, `LDS`, `RDS`. Types it didn't ask for are left out.
    pub types: BTreeMap<&'static str, TypeView>,
}

/// Where an Envoy stands with one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeView {
    /// It asked for everything.
    pub wildcard: bool,
    /// So many resources it asked for by name.
    pub names: usize,
    /// So many resources it has as it should.
    pub synced: usize,
    /// So many were sent and not answered yet, or are another version than they should be.
    pub stale: usize,
    /// So many are still to be sent for the first time.
    pub not_sent: usize,
    /// Those it refused, with the refused version.
    pub refused: BTreeMap<Arc<str>, String>,
    /// So many responses wait for its answer.
    pub unanswered: usize,
}

/// Whether an Envoy has a resource, in the words of CSDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Synced,
    Stale,
    NotSent,
    Refused,
}

/// One resource an Envoy asked for.
pub(crate) struct ResourceView {
    pub(crate) kind: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) version: String,
    pub(crate) status: Status,
}

impl EnvoyView {
    pub(crate) fn of(stream: &StreamState) -> Self {
        let connection = stream.connection();
        let types = ResourceType::ALL
            .into_iter()
            .filter(|kind| connection.cursor(*kind).asked)
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
                Status::Synced => view.synced += 1,
                Status::Stale => view.stale += 1,
                Status::NotSent => view.not_sent += 1,
                Status::Refused => {
                    view.refused.insert(resource.name, resource.version);
                }
            }
        }
        view
    }
}

/// Every resource the client asked for that there is, by type and name.
pub(crate) fn resources(connection: &Connection) -> Vec<ResourceView> {
    ResourceType::ALL.into_iter().flat_map(|kind| resources_of(connection.cursor(kind))).collect()
}

fn resources_of(cursor: &Cursor) -> impl Iterator<Item = ResourceView> {
    let flying: BTreeSet<&str> =
        cursor.flights.iter().flat_map(|flight| flight.items.iter().map(|item| &*item.name)).collect();
    let wanted = cursor.seen.iter().filter(|(name, _)| cursor.wants(name));
    wanted.map(move |(name, resource)| {
        let status = if cursor.parked.get(name).is_some() {
            Status::Refused
        } else if let Some(due) = cursor.changes.get(name) {
            if matches!(due.held, Held::Has { .. }) { Status::Stale } else { Status::NotSent }
        } else if flying.contains(&**name) {
            Status::Stale
        } else {
            Status::Synced
        };
        ResourceView { kind: cursor.kind, name: name.clone(), version: resource.version.to_string(), status }
    })
}
