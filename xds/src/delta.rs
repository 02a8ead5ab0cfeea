//! Incremental variant of xDS: a client subscribes and unsubscribes name by name, and answers each response by its
//! nonce.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds>

use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use crate::cursor::Cursor;
use crate::due::LastSent;
use crate::flight::{SentName, UnansweredResponse};
use crate::limits::{RESPONSE_BYTES_MAX, UNANSWERED_MAX};
use crate::response::{Form, Response};
use crate::{Resource, ResourceType, Version};

/// Name of the subscription to all resources of a type.
pub(crate) const WILDCARD: &str = "*";

/// Applies the subscriptions of a request.
pub(crate) fn apply_subscriptions(cursor: &mut Cursor, request: &DeltaDiscoveryRequest, now: u64) {
    let subscribe = &request.resource_names_subscribe;
    let unsubscribe = &request.resource_names_unsubscribe;
    let is_first = !cursor.subscribed;
    cursor.subscribed = true;
    if is_first {
        request.initial_resource_versions.iter().for_each(|(name, version)| cursor.claim(name, version));
    }
    for name in unsubscribe {
        match name.as_str() {
            WILDCARD => cursor.unsubscribe_all(),
            name => cursor.unsubscribe(name, now),
        }
    }
    // Before `*` existed, a first request without names meant all resources.
    let is_legacy_wildcard = is_first && cursor.has_wildcard() && subscribe.is_empty() && unsubscribe.is_empty();
    for name in subscribe.iter().filter(|name| *name != WILDCARD) {
        let held = request.initial_resource_versions.get(name).filter(|_| is_first);
        let held = held.map_or(LastSent::Nothing, |version| claimed(cursor.kind, version));
        cursor.subscribe(name, held, now);
    }
    if is_legacy_wildcard || subscribe.iter().any(|name| name == WILDCARD) {
        let initial = request.initial_resource_versions.iter().filter(|_| is_first);
        let held: Vec<(Arc<str>, LastSent)> =
            initial.map(|(name, version)| (cursor.intern(name), claimed(cursor.kind, version))).collect();
        // A client that reports resources has started before, and does not wait for an empty response.
        cursor.owed |= !cursor.wildcard && held.is_empty();
        cursor.subscribe_all(held, now);
    }
}

/// Returns what a client reports to have. Reported versions of Secrets are ignored, so that Secrets are sent once more:
/// otherwise an answer would never arrive.
fn claimed(kind: ResourceType, version: &str) -> LastSent {
    let version = Version::parse(version).filter(|_| kind != ResourceType::Secret);
    LastSent::Has { version, resource: None }
}

/// Returns the next response with additions and changes; for listeners also with removals, which Envoy applies first: a
/// new listener may need the address of a removed one.
pub(crate) fn changes(cursor: &mut Cursor, nonce: u64, removals_until: Option<u64>) -> Option<Response> {
    if cursor.flights.len() >= UNANSWERED_MAX {
        return None;
    }
    let mut load = Load::new(nonce);
    if let Some(until) = removals_until {
        load.take_removals(cursor, until);
    }
    // A content that was refused may be refused again, and the removals in the same response would fail with it once
    // more.
    let is_suspect = cursor.next_change().is_some_and(|(_, due)| due.company < cursor.company());
    if !is_suspect || load.flight.items.is_empty() {
        load.take_changes(cursor);
    }
    let has_items = !load.flight.items.is_empty();
    if !has_items && !cursor.owed {
        return None;
    }
    cursor.owed = false;
    Some(load.depart(cursor))
}

/// Returns the next response with removals that were due at `until`.
pub(crate) fn removals(cursor: &mut Cursor, nonce: u64, until: u64) -> Option<Response> {
    if cursor.flights.len() >= UNANSWERED_MAX {
        return None;
    }
    let mut load = Load::new(nonce);
    load.take_removals(cursor, until);
    if load.flight.items.is_empty() { None } else { Some(load.depart(cursor)) }
}

/// A response that is being built.
struct Load {
    flight: UnansweredResponse,
    resources: Vec<Arc<Resource>>,
    removed: Vec<Arc<str>>,
    bytes: usize,
}

impl Load {
    fn new(nonce: u64) -> Self {
        Self { flight: UnansweredResponse::new(nonce), resources: Vec::new(), removed: Vec::new(), bytes: 0 }
    }

    fn take_removals(&mut self, cursor: &mut Cursor, until: u64) {
        while self.bytes < RESPONSE_BYTES_MAX
            && let Some((item, since)) = cursor.take_removal(until)
        {
            self.bytes += item.name.len();
            self.removed.push(item.name.clone());
            self.flight.removal(item, since);
        }
    }

    fn take_changes(&mut self, cursor: &mut Cursor) {
        let mut company = usize::MAX;
        let mut taken = 0;
        while let Some((name, due)) = cursor.next_change() {
            let bytes = name.len() + cursor.seen.get(name).map_or(0, |resource| resource.body.len());
            company = company.min(due.company);
            let is_first = self.flight.items.is_empty();
            if taken >= company || (!is_first && self.bytes + bytes > RESPONSE_BYTES_MAX) {
                break;
            }
            let Some((item, resource, since)) = cursor.take_change() else { break };
            self.bytes += bytes;
            taken += 1;
            match resource {
                Some(resource) => self.resources.push(resource),
                None => self.removed.push(item.name.clone()),
            }
            // The previous version matters only where a response must be complete.
            self.flight.change(SentName { before: LastSent::Nothing, ..item }, since);
        }
    }

    fn depart(self, cursor: &mut Cursor) -> Response {
        let nonce = self.flight.nonce;
        cursor.flights.push(self.flight);
        let form = Form::Delta { removed: self.removed };
        Response { kind: cursor.kind, are_hosts: false, nonce, resources: self.resources, form }
    }
}
