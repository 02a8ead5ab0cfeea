//! One ADS stream as a state machine: requests and snapshots go in, responses and answers come out.
//!
//! No I/O, no clock, no `async`: `server.rs` and its siblings read and write for it.
//!
//! # Order
//!
//! Make before break, within one snapshot and across all types:
//!
//! 1. Additions and changes of clusters, then endpoints, then secrets go at once.
//! 2. Listeners and routes of a snapshot wait until the clusters and endpoints that came with it are answered, be it by
//!    an ACK or a NACK. Envoy holds its answer to clusters back while one of them warms, 15 seconds at most, so that no
//!    clock is needed here. Clusters and endpoints never wait for listeners or routes: nothing can wait in a circle.
//! 3. What is gone goes the other way round, first what names, then what is named: listeners, then routes, then
//!    clusters, then endpoints and secrets, each when those before it are answered. Clusters stay while the client
//!    refuses a listener or route, since what it serves instead may still name them.
//!
//! What is gone from a snapshot lingers until step 3: meanwhile it is sent like everything else, since listeners and
//! routes that go out in between may still name it.
//!
//! Removed listeners travel with the changed ones, since a new listener may need the address of one that goes.
//!
//! While listeners and routes of one snapshot wait, newer ones don't overtake them: otherwise somebody who
//! changes clusters faster than Envoy answers would keep routes from ever being sent. Of several newer ones
//! only the newest is taken. A type the client didn't ask for holds up nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use serde::Serialize;

use crate::cursor::Cursor;
use crate::endpoints::endpoints_name;
use crate::limits::{NAME_BYTES_MAX, NAMES_MAX};
use crate::response::Response;
use crate::{Outcome, ResourceType, Snapshot, Version};
use crate::{delta, sotw, verdict};

/// The two variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Incremental: `DeltaAggregatedResources`.
    Delta,
    /// State of the world: `StreamAggregatedResources`.
    Sotw,
}

/// Why a stream is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A resource name is too long.
    #[error("a resource name may have {NAME_BYTES_MAX} bytes")]
    NameTooLong,
    /// The stream asks for too many resources.
    #[error("a stream may ask for {NAMES_MAX} resources by name")]
    TooManyNames,
}

/// What a client said about resources it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Their type.
    pub kind: ResourceType,
    /// Whether it took them.
    pub outcome: Outcome,
    /// Which; no version means a removal.
    pub resources: Vec<(Arc<str>, Option<Version>)>,
}

/// See the module.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
    cursors: [Cursor; ResourceType::ALL.len()],
    newest: Snapshot,
    /// The number of the newest snapshot; 0 while there is none.
    now: u64,
    /// The number of the snapshot that listeners and routes are taken from.
    routed: u64,
    /// The endpoints of clusters that were sent before the client asked for any endpoints.
    unasked_endpoints: BTreeSet<String>,
    nonce: u64,
    /// The client reported versions with the first request of some type: it has a configuration already.
    resumes: bool,
    /// What it should have is not known yet; what there is, is only for those that have nothing.
    fresh_only: bool,
}

impl Connection {
    /// A stream that just opened.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            cursors: ResourceType::ALL.map(|kind| Cursor::new(kind, protocol)),
            newest: Snapshot::default(),
            now: 0,
            routed: 0,
            unasked_endpoints: BTreeSet::new(),
            nonce: 0,
            resumes: false,
            fresh_only: false,
        }
    }

    /// Which variant it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn cursor(&self, kind: ResourceType) -> &Cursor {
        &self.cursors[kind as usize]
    }

    fn cursor_mut(&mut self, kind: ResourceType) -> &mut Cursor {
        &mut self.cursors[kind as usize]
    }

    /// The client refused this content on an earlier stream: it is not sent here either. To be told before anything is
    /// asked for.
    pub fn was_refused(&mut self, kind: ResourceType, name: &Arc<str>, version: Version) {
        self.cursor_mut(kind).refusals.add(name.clone(), version);
    }

    /// The client refused this content for a reason that is not in it: it is sent once more, where it is still what the
    /// client should have.
    pub fn try_again(&mut self, kind: ResourceType, name: &str, version: Version) {
        let now = self.now;
        let cursor = self.cursor_mut(kind);
        if cursor.refusals.forget(name, version) && cursor.wants(name) {
            let name = cursor.intern(name);
            let mut due = cursor.lift(&name, now);
            due.again = true;
            cursor.place(name, due);
        }
    }

    /// What the client should have is now this.
    pub fn on_snapshot(&mut self, snapshot: Snapshot) {
        let was_held = self.is_held();
        self.fresh_only = false;
        self.take_in(snapshot);
        if was_held {
            // What was meant for others may have been taken in before it was known that this one has something: of
            // that no listener and no route may go out any more.
            self.route_to_newest();
        }
    }

    /// This is for a client that has nothing yet: one that resumes is sent nothing at all until
    /// [`on_snapshot`](Self::on_snapshot).
    pub fn on_fresh_snapshot(&mut self, snapshot: Snapshot) {
        self.fresh_only = true;
        if !self.is_held() {
            self.take_in(snapshot);
        }
    }

    fn is_held(&self) -> bool {
        self.fresh_only && self.resumes
    }

    fn take_in(&mut self, snapshot: Snapshot) {
        self.now += 1;
        for kind in [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Secret] {
            let now = self.now;
            self.cursor_mut(kind).advance(snapshot.of(kind), now);
        }
        self.newest = snapshot;
        self.route();
    }

    /// What the client turned out to have already, so that it was not sent: it took it on an earlier stream.
    ///
    /// State of the world does not say what it has resource by resource; there it is never known.
    pub fn take_met(&mut self) -> Vec<Verdict> {
        let met = self.cursors.iter_mut().map(|cursor| (cursor.kind, cursor.take_met()));
        let told = met.filter(|(_, resources)| !resources.is_empty()).map(|(kind, resources)| Verdict {
            kind,
            outcome: Outcome::Acknowledged,
            resources: resources.into_iter().map(|(name, version)| (name, Some(version))).collect(),
        });
        told.collect()
    }

    /// An incremental request. Types that aren't served are passed over.
    pub fn on_delta_request(&mut self, request: &DeltaDiscoveryRequest) -> Result<Vec<Verdict>, Violation> {
        let Some(kind) = ResourceType::from_url(&request.type_url) else { return Ok(Vec::new()) };
        let initial = &request.initial_resource_versions;
        check(request.resource_names_subscribe.iter().chain(initial.keys()))?;
        self.check_count(request.resource_names_subscribe.len().max(initial.len()))?;
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let verdicts = self.on_answer(kind, &request.response_nonce, error);
        let now = self.now;
        let is_first = !self.cursor(kind).asked;
        self.resumes |= is_first && !initial.is_empty();
        delta::ask(self.cursor_mut(kind), request, now);
        self.asked(kind, is_first);
        Ok(verdicts)
    }

    /// A state-of-the-world request. Types that aren't served are passed over.
    pub fn on_sotw_request(&mut self, request: &DiscoveryRequest) -> Result<Vec<Verdict>, Violation> {
        let Some(kind) = ResourceType::from_url(&request.type_url) else { return Ok(Vec::new()) };
        check(request.resource_names.iter())?;
        self.check_count(request.resource_names.len().saturating_sub(self.cursor(kind).names.len()))?;
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let verdicts = self.on_answer(kind, &request.response_nonce, error);
        let now = self.now;
        let is_first = !self.cursor(kind).asked;
        self.resumes |= is_first && !request.version_info.is_empty();
        // The list of a request with a stale nonce is still the client's newest.
        sotw::ask(self.cursor_mut(kind), request, now);
        self.asked(kind, is_first);
        Ok(verdicts)
    }

    fn on_answer(&mut self, kind: ResourceType, nonce: &str, error: Option<&str>) -> Vec<Verdict> {
        let now = self.now;
        let cursor = self.cursor_mut(kind);
        match cursor.flights.land(nonce) {
            Some(flight) => verdict::land(cursor, flight, error, now),
            None => Vec::new(),
        }
    }

    fn check_count(&self, more: usize) -> Result<(), Violation> {
        let names: usize = self.cursors.iter().map(|cursor| cursor.names.len()).sum();
        if names + more > NAMES_MAX { Err(Violation::TooManyNames) } else { Ok(()) }
    }

    /// Clusters may have been sent before the endpoints were asked for: on a stream that resumes, Envoy says it has
    /// these endpoints, and yet needs them again for the changed clusters.
    fn asked(&mut self, kind: ResourceType, is_first: bool) {
        if kind == ResourceType::Endpoints && is_first {
            let now = self.now;
            for name in std::mem::take(&mut self.unasked_endpoints) {
                self.cursor_mut(ResourceType::Endpoints).resend(&name, now);
            }
        }
    }

    /// The next response to send, if there is one now.
    pub fn next_response(&mut self) -> Option<Response> {
        if self.is_held() {
            return None;
        }
        self.route();
        // What is let go may never have been sent, and then is told not to exist: a change like others.
        let response = self.next_change().or_else(|| self.next_removal()).or_else(|| self.next_change())?;
        self.nonce += 1;
        if response.kind == ResourceType::Cluster {
            self.resend_endpoints(&response);
        }
        Some(response)
    }

    fn next_change(&mut self) -> Option<Response> {
        for kind in [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Secret] {
            if let Some(response) = self.take(kind, Take::Changes) {
                return Some(response);
            }
        }
        if !self.clusters_are_answered(self.routed) {
            return None;
        }
        self.take(ResourceType::Listener, Take::ChangesAndRemovals(self.routed))
            .or_else(|| self.take(ResourceType::Route, Take::Changes))
    }

    fn next_removal(&mut self) -> Option<Response> {
        let [listeners, routes] = [ResourceType::Listener, ResourceType::Route].map(|kind| self.cursor(kind));
        let before = |limit: u64, oldest: Option<u64>| oldest.map_or(limit, |since| limit.min(since.saturating_sub(1)));
        let listeners_until = before(self.routed, listeners.oldest());
        let routes_until = before(listeners_until, routes.oldest());
        let response = self
            .take(ResourceType::Route, Take::Removals(listeners_until))
            .or_else(|| self.take_away(ResourceType::Cluster, routes_until));
        if response.is_some() {
            return response;
        }
        let clusters_until = before(routes_until, self.cursor(ResourceType::Cluster).oldest_removal());
        self.take_away(ResourceType::Endpoints, clusters_until)
            .or_else(|| self.take_away(ResourceType::Secret, clusters_until))
    }

    fn take_away(&mut self, kind: ResourceType, until: u64) -> Option<Response> {
        self.cursor_mut(kind).release(until);
        self.take(kind, Take::Removals(until))
    }

    fn take(&mut self, kind: ResourceType, take: Take) -> Option<Response> {
        let nonce = self.nonce + 1;
        let cursor = self.cursor_mut(kind);
        if !cursor.asked || !cursor.published {
            return None;
        }
        match (cursor.protocol, take) {
            (Protocol::Delta, Take::Changes) => delta::changes(cursor, nonce, None),
            (Protocol::Delta, Take::ChangesAndRemovals(until)) => delta::changes(cursor, nonce, Some(until)),
            (Protocol::Delta, Take::Removals(until)) => delta::removals(cursor, nonce, until),
            (Protocol::Sotw, Take::Changes) => sotw::next(cursor, nonce, None),
            (Protocol::Sotw, Take::ChangesAndRemovals(until)) => sotw::next(cursor, nonce, Some(until)),
            (Protocol::Sotw, Take::Removals(until)) if cursor.must_be_complete() => {
                sotw::next(cursor, nonce, Some(until))
            }
            (Protocol::Sotw, Take::Removals(_)) => None,
        }
    }

    /// The nonce of the oldest response that is not answered.
    pub(crate) fn oldest_unanswered(&self) -> Option<u64> {
        ResourceType::ALL.into_iter().filter_map(|kind| self.cursor(kind).flights.oldest()).min()
    }

    /// Are all clusters and endpoints answered that came with a snapshot, or before it?
    fn clusters_are_answered(&self, snapshot: u64) -> bool {
        [ResourceType::Cluster, ResourceType::Endpoints]
            .into_iter()
            .filter_map(|kind| self.cursor(kind).oldest_change())
            .all(|since| since > snapshot)
    }

    /// Takes listeners and routes from the newest snapshot, unless those of an older one still wait.
    fn route(&mut self) {
        if self.routed == self.now {
            return;
        }
        let is_idle = [ResourceType::Listener, ResourceType::Route]
            .into_iter()
            .all(|kind| self.cursor(kind).has_nothing_to_send());
        if is_idle || self.clusters_are_answered(self.now) {
            self.route_to_newest();
        }
    }

    fn route_to_newest(&mut self) {
        if self.routed == self.now {
            return;
        }
        // What differs came with any of the snapshots since the last one that was taken; with the first at worst.
        let since = self.routed + 1;
        self.routed = self.now;
        for kind in [ResourceType::Listener, ResourceType::Route] {
            let resources = self.newest.of(kind).clone();
            self.cursor_mut(kind).advance(&resources, since);
        }
    }

    /// A cluster that is sent warms until its endpoints come, even where Envoy has them already: without them Envoy
    /// would hold its answer back for 15 seconds.
    fn resend_endpoints(&mut self, response: &Response) {
        let Some(flight) = self.cursor(ResourceType::Cluster).flights.iter().last() else { return };
        let since = flight.changes_since.unwrap_or(self.now);
        let sent: BTreeSet<&Arc<str>> = flight.items.iter().map(|item| &item.name).collect();
        let resources = response.resources.iter().filter(|resource| sent.contains(&resource.name));
        let names: Vec<String> = resources.filter_map(|resource| endpoints_name(&resource.body)).collect();
        let endpoints = self.cursor_mut(ResourceType::Endpoints);
        if endpoints.asked {
            names.iter().for_each(|name| endpoints.resend(name, since));
        } else if self.unasked_endpoints.len() < NAMES_MAX {
            self.unasked_endpoints.extend(names);
        }
    }
}

/// What to take out of a cursor; removals only where they were due with that snapshot.
#[derive(Clone, Copy)]
enum Take {
    Changes,
    ChangesAndRemovals(u64),
    Removals(u64),
}

fn check<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), Violation> {
    if names.any(|name| name.len() > NAME_BYTES_MAX) { Err(Violation::NameTooLong) } else { Ok(()) }
}
