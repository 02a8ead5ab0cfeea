//! Diagnostic view of a connected Envoy: names and versions, and the resources that it has acknowledged, which callers
//! show without credentials.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::connection::Protocol;
use crate::cursor::Cursor;
use crate::due::LastSent;
use crate::fleets::StreamState;
use crate::history::StreamHistory;
use crate::{Resource, ResourceType};

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
    /// The address; unset on a unix socket.
    pub address: Option<IpAddr>,
    /// Whether the Envoy proved its Gateway by a certificate or a token. If not, the socket admits every client.
    #[serde(rename = "isProven")]
    pub is_proven: bool,
    /// When it connected and answered.
    pub history: StreamHistory,
    /// State by type: `CDS`, `EDS`, `SDS`, `LDS`, `RDS`. Types without a subscription are left out.
    pub types: BTreeMap<&'static str, TypeView>,
}

/// State of an Envoy for one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceStatus {
    /// The Envoy has acknowledged it.
    Synced,
    /// It was sent and not answered yet, or the Envoy has another version of it.
    Stale,
    /// It is still to be sent for the first time.
    NotSent,
    /// The Envoy has refused it.
    Refused,
}

/// A resource to which an Envoy subscribed.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvoyResource {
    /// The type.
    pub kind: ResourceType,
    /// The name.
    pub name: Arc<str>,
    /// The version that the Envoy should have.
    pub version: String,
    /// The status of that version.
    pub status: ResourceStatus,
    /// The resource that the Envoy has acknowledged; unset if it has none, or acknowledged it on an earlier connection.
    pub acknowledged: Option<Arc<Resource>>,
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
            address: stream.client.address,
            is_proven: stream.client.is_proven,
            history: stream.history().clone(),
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

/// Returns every existing resource of a type with a subscription of the client.
pub(crate) fn resources_of(cursor: &Cursor) -> impl Iterator<Item = EnvoyResource> {
    let wanted = cursor.seen.iter().filter(|(name, _)| cursor.wants(name));
    wanted.map(move |(name, resource)| {
        let status = if cursor.parked.get(name).is_some() {
            ResourceStatus::Refused
        } else if let Some(due) = cursor.changes.get(name) {
            if matches!(due.held, LastSent::Has { .. }) { ResourceStatus::Stale } else { ResourceStatus::NotSent }
        } else if cursor.flights.has(name) {
            ResourceStatus::Stale
        } else {
            ResourceStatus::Synced
        };
        let acknowledged = match status {
            ResourceStatus::Synced => Some(resource.clone()),
            _ => cursor.accepted.get(name).cloned(),
        };
        let version = resource.version.to_string();
        EnvoyResource { kind: cursor.kind, name: name.clone(), version, status, acknowledged }
    })
}
