//! State-of-the-world variant of xDS: each request lists every subscribed name, and only the newest response of a type
//! is answered.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#state-of-the-world>
//!
//! A response with clusters or listeners has all of them, and a missing one is removed. For the other types, it has the
//! changed ones. In both cases its version is a hash over the names and versions of all resources that the client has
//! afterwards, so that an Envoy that reconnects with the version of its current resources is sent nothing. (An Envoy
//! that unsubscribes from a name keeps its version until the next response. If it reconnects on another stream before
//! that, and subscribes to this name again, it seems to have the resource. The incremental variant has no such gap.)

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;

use crate::cursor::Cursor;
use crate::delta::WILDCARD;
use crate::due::LastSent;
use crate::flight::UnansweredResponse;
use crate::limits::RESPONSE_BYTES_MAX;
use crate::response::{Form, Response};
use crate::{Resource, Version};

/// Applies the subscriptions of a request.
pub(crate) fn apply_subscriptions(cursor: &mut Cursor, request: &DiscoveryRequest, now: u64) {
    let is_first = !cursor.subscribed;
    cursor.subscribed = true;
    let listed = &request.resource_names;
    // No names mean all resources, until names were listed once.
    let is_legacy_wildcard = listed.is_empty() && cursor.has_wildcard() && (is_first || cursor.wildcard);
    let wildcard = is_legacy_wildcard || listed.iter().any(|name| name == WILDCARD);
    let names: BTreeSet<&str> = listed.iter().map(String::as_str).filter(|name| *name != WILDCARD).collect();
    if is_first {
        cursor.owed = cursor.has_wildcard();
        cursor.resume = Some(request.version_info.clone()).filter(|version| !version.is_empty());
    }
    if wildcard {
        cursor.subscribe_all([], now);
    }
    drop_names(cursor, &names, now);
    for name in names {
        if !cursor.names.contains(name) {
            let is_new = !cursor.wants(name);
            // The absence of a name is reported by a response without it.
            cursor.owed |= is_new && cursor.has_wildcard();
            if is_new {
                cursor.subscribe(name, LastSent::Nothing, now);
            } else {
                let name = cursor.intern(name);
                cursor.names.insert(name);
            }
        }
    }
    if !wildcard {
        cursor.unsubscribe_all();
    }
    if cursor.published {
        cursor.settle_if_resumed();
    }
}

fn drop_names(cursor: &mut Cursor, listed: &BTreeSet<&str>, now: u64) {
    let dropped: Vec<Arc<str>> = cursor.names.iter().filter(|name| !listed.contains(&***name)).cloned().collect();
    for name in dropped {
        let due = cursor.lift(&name, now);
        cursor.names.remove(&name);
        cursor.place(name, due);
    }
}

impl Cursor {
    /// Sends nothing to a client that reconnects with the version of its current resources.
    pub(crate) fn settle_if_resumed(&mut self) {
        let Some(version) = self.resume.take() else { return };
        let target = self.seen.iter().filter(|(name, _)| self.wants(name));
        // The version of a type is that of the last accepted response, and covers all of its resources.
        if version == version_of(target.map(|(name, resource)| (&**name, Some(resource.version)))) {
            for (name, _) in self.changes.drain() {
                self.accepted.lose(name);
            }
            self.owed = false;
            self.meet_all();
        }
    }
}

/// Returns the next response, with removals that were due at `removals_until`.
pub(crate) fn next(cursor: &mut Cursor, nonce: u64, removals_until: Option<u64>) -> Option<Response> {
    if !cursor.flights.is_empty() {
        return None;
    }
    let mut flight = UnansweredResponse::new(nonce);
    if let Some(until) = removals_until {
        while let Some((item, since)) = cursor.take_removal(until) {
            flight.removal(item, since);
        }
    }
    let changed = take_changes(cursor, &mut flight);
    if flight.items.is_empty() && !cursor.owed {
        return None;
    }
    cursor.owed = false;
    let (resources, version) = if cursor.must_be_complete() {
        let all = all(cursor);
        let version = version_of(all.iter().map(|resource| (&*resource.name, Some(resource.version))));
        (all, version)
    } else {
        (changed, version_afterwards(cursor))
    };
    cursor.flights.push(flight);
    Some(Response { kind: cursor.kind, are_hosts: false, nonce, resources, form: Form::Sotw { version } })
}

fn take_changes(cursor: &mut Cursor, flight: &mut UnansweredResponse) -> Vec<Arc<Resource>> {
    let mut company = usize::MAX;
    let mut bytes = 0;
    let mut taken = Vec::new();
    while let Some((name, due)) = cursor.changes.first() {
        let more = name.len() + cursor.seen.get(name).map_or(0, |resource| resource.body.len());
        company = company.min(due.company);
        let is_full = taken.len() >= company || (!cursor.must_be_complete() && bytes + more > RESPONSE_BYTES_MAX);
        if !taken.is_empty() && is_full {
            break;
        }
        let Some((item, resource, since)) = cursor.take_change() else { break };
        bytes += more;
        taken.extend(resource);
        flight.change(item, since);
    }
    taken
}

/// Returns all resources that the client should have after this response: names that are still due keep the resource
/// that was sent before.
fn all(cursor: &Cursor) -> Vec<Arc<Resource>> {
    let waiting = |name: &str| cursor.changes.get(name).or_else(|| cursor.parked.get(name));
    let current =
        cursor.seen.iter().filter(|(name, _)| cursor.wants(name)).filter_map(|(name, resource)| match waiting(name) {
            Some(due) => due.held.resource(),
            None => Some(resource),
        });
    let leaving = cursor.removals.iter().filter_map(|(_, due)| due.held.resource());
    let mut all: Vec<Arc<Resource>> = current.chain(leaving).cloned().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Returns the version of the resources that the client has after it accepts those that were taken out of `changes`.
fn version_afterwards(cursor: &Cursor) -> String {
    let waiting = |name: &str| cursor.changes.get(name).or_else(|| cursor.parked.get(name));
    version_of(cursor.names.iter().filter_map(|name| match (waiting(name), cursor.seen.get(name)) {
        (Some(due), _) => match due.held {
            LastSent::Has { version, .. } => Some((&**name, version)),
            LastSent::Nothing | LastSent::Absent => None,
        },
        (None, Some(resource)) => Some((&**name, Some(resource.version))),
        (None, None) => None,
    }))
}

/// Returns the hash over names and versions, in the order of the names.
fn version_of<'a>(resources: impl Iterator<Item = (&'a str, Option<Version>)>) -> String {
    let mut bytes = Vec::new();
    for (name, version) in resources {
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&version.map_or([0; 16], |version| *version.as_bytes()));
    }
    Version::of(&bytes).to_string()
}
