//! ADS stream as a state machine: requests and snapshots are the input, responses and answers the output.
//!
//! No I/O, no clock, no `async`: `server.rs` and related modules do the I/O.
//!
//! # Order
//!
//! Make before break, within one snapshot and across all types:
//!
//! 1. Additions and changes of clusters, then endpoints, then secrets are sent at once.
//! 2. Listeners and routes of a snapshot wait until the clusters and endpoints of the same snapshot are answered, by an
//!    ACK or a NACK. Envoy delays its answer to clusters while one of them warms, for 15 seconds at most, so that no
//!    clock is needed here. Clusters and endpoints never wait for listeners or routes, so there is no deadlock.
//! 3. Removals use the opposite order, referrers before referents: listeners, then routes, then clusters, then
//!    endpoints and secrets, each when the previous ones are answered. Clusters are kept while the client refuses a
//!    listener or route, since the version that it serves instead may still name them.
//!
//! Resources that are gone from a snapshot linger until step 3: meanwhile they are sent like all others, since
//! listeners and routes that are sent in between may still name them.
//!
//! Removed listeners are sent together with the changed ones, since a new listener may need the address of a removed
//! one.
//!
//! While listeners and routes of one snapshot wait, newer ones do not overtake them: otherwise frequent changes of
//! clusters, faster than Envoy answers, would prevent routes from ever being sent. Of several newer snapshots, only the
//! newest is used. A type to which the client did not subscribe delays nothing.
//!
//! # Virtual hosts
//!
//! Where virtual hosts are sent one by one, a route configuration remains one resource of this state machine, and
//! `virtual_hosts.rs` decides in which responses it is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::endpoints::endpoints_name;
use crate::limits::{NAME_BYTES_MAX, NAMES_MAX};
use crate::response::{Form, Response, VIRTUAL_HOST};
use crate::split::{HostChanges, reads_host_name};
use crate::view::{self, EnvoyResource};
use crate::virtual_hosts::{AnswerMeaning, HostDeliveries, SentForm, WireVersion};
use crate::{Outcome, ResourceType, Snapshot, Version};
use crate::{delta, sotw, verdict};

/// The two variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Incremental: `DeltaAggregatedResources`.
    Delta,
    /// State of the world: `StreamAggregatedResources`.
    Sotw,
}

/// Reason for ending a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A resource name is too long.
    #[error("a resource name is limited to {NAME_BYTES_MAX} bytes")]
    NameTooLong,
    /// The stream subscribes to too many resources.
    #[error("a stream can subscribe to at most {NAMES_MAX} resources by name")]
    TooManyNames,
}

/// Verdict of a client about resources that were sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVerdict {
    /// The type of the resources.
    pub kind: ResourceType,
    /// Whether the client accepted the resources.
    pub outcome: Outcome,
    /// The resources; no version means a removal.
    pub resources: Vec<(Arc<str>, Option<Version>)>,
}

/// The state of an ADS stream; see the module documentation.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
    cursors: [Cursor; ResourceType::ALL.len()],
    newest: Snapshot,
    /// The number of the newest snapshot; 0 while there is none.
    now: u64,
    /// The number of the snapshot from which listeners and routes are sent.
    routed: u64,
    /// The endpoints of clusters that were sent before the client subscribed to any endpoints.
    unsubscribed_endpoints: BTreeSet<String>,
    nonce: u64,
    /// Whether the client reported versions with the first request of some type: it already has a configuration.
    resumes: bool,
    /// Whether the final configuration of the client is not known yet, so that the current one is only for clients
    /// without any configuration.
    fresh_only: bool,
    /// Virtual hosts, where they are sent one by one.
    hosts: Option<HostDeliveries>,
    /// Route configurations that the client already had with all hosts; not reported yet.
    met: Vec<ClientVerdict>,
}

impl Connection {
    /// Returns the state of a stream that was just opened.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            cursors: ResourceType::ALL.map(|kind| Cursor::new(kind, protocol)),
            newest: Snapshot::default(),
            now: 0,
            routed: 0,
            unsubscribed_endpoints: BTreeSet::new(),
            nonce: 0,
            resumes: false,
            fresh_only: false,
            hosts: None,
            met: Vec::new(),
        }
    }

    /// Sends virtual hosts one by one (VHDS), in the incremental variant: the other variant has no such resources. To be
    /// called before the first request.
    pub fn with_separate_hosts(mut self) -> Self {
        if self.protocol == Protocol::Delta {
            self.hosts = Some(HostDeliveries::default());
            self.cursor_mut(ResourceType::Route).is_serial = true;
        }
        self
    }

    /// Returns the variant of the protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns every existing resource with a subscription of the client, by type and name.
    pub fn resources(&self) -> Vec<EnvoyResource> {
        ResourceType::ALL.into_iter().flat_map(|kind| view::resources_of(self.cursor(kind))).collect()
    }

    pub(crate) fn cursor(&self, kind: ResourceType) -> &Cursor {
        &self.cursors[kind as usize]
    }

    fn cursor_mut(&mut self, kind: ResourceType) -> &mut Cursor {
        &mut self.cursors[kind as usize]
    }

    /// Records that the client refused this content on an earlier stream, so that the content is not sent on this one
    /// either. To be called before the first request.
    pub fn was_refused(&mut self, kind: ResourceType, name: &Arc<str>, version: Version) {
        self.cursor_mut(kind).refusals.add(name.clone(), version);
    }

    /// Records that the client refused this content for a reason outside of the content: it is sent once more, if the
    /// client should still have it.
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

    /// Replaces the snapshot that the client should have.
    pub fn on_snapshot(&mut self, snapshot: Snapshot) {
        let was_held = self.is_held();
        let was_fresh_only = std::mem::take(&mut self.fresh_only);
        self.take_in(snapshot);
        if was_fresh_only {
            self.forget_refusals();
        }
        if was_held {
            // A snapshot for other clients may have been applied before it was known that this client already has a
            // configuration: no listener and no route of that snapshot may be sent any more.
            self.route_to_newest();
        }
    }

    /// Replaces the snapshot for a client without any configuration: a client that resumes is sent nothing until
    /// [`on_snapshot`](Self::on_snapshot).
    pub fn on_fresh_snapshot(&mut self, snapshot: Snapshot) {
        self.fresh_only = true;
        if !self.is_held() {
            self.take_in(snapshot);
        }
    }

    /// Allows what was refused to be sent once more: refusals of the configuration of an earlier run were received before
    /// the deciding code knew anything of this client, so that it would never request another try.
    ///
    /// Secrets are an exception: the repeat of a refused secret is acknowledged without being used.
    fn forget_refusals(&mut self) {
        let now = self.now;
        for kind in ResourceType::ALL.into_iter().filter(|kind| *kind != ResourceType::Secret) {
            self.cursor_mut(kind).forget_refusals(now);
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

    /// Returns the resources that were not sent because the client already has them: it accepted them on an earlier
    /// stream.
    ///
    /// In the state-of-the-world variant a client does not report its resources one by one, so they are never known.
    pub fn take_met(&mut self) -> Vec<ClientVerdict> {
        let met = self.cursors.iter_mut().map(|cursor| (cursor.kind, cursor.take_met()));
        let verdicts = met.filter(|(_, resources)| !resources.is_empty()).map(|(kind, resources)| ClientVerdict {
            kind,
            outcome: Outcome::Acknowledged,
            resources: resources.into_iter().map(|(name, version)| (name, Some(version))).collect(),
        });
        verdicts.chain(std::mem::take(&mut self.met)).collect()
    }

    /// Returns whether the client has acknowledged everything that it should have.
    pub(crate) fn is_settled(&self) -> bool {
        self.cursors.iter().filter(|cursor| cursor.subscribed).all(Cursor::is_settled)
    }

    /// Handles an incremental request. Types that are not served are ignored.
    pub fn on_delta_request(&mut self, request: &DeltaDiscoveryRequest) -> Result<Vec<ClientVerdict>, Violation> {
        if request.type_url == VIRTUAL_HOST {
            return self.on_hosts_request(request);
        }
        let Some(kind) = ResourceType::from_url(&request.type_url) else { return Ok(Vec::new()) };
        let initial = &request.initial_resource_versions;
        check(request.resource_names_subscribe.iter().chain(initial.keys()))?;
        self.check_count(request.resource_names_subscribe.len().max(initial.len()))?;
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let verdicts = self.on_answer(kind, &request.response_nonce, error);
        let now = self.now;
        let is_first = !self.cursor(kind).subscribed;
        self.resumes |= is_first && !initial.is_empty();
        if kind == ResourceType::Route {
            self.note_subscriptions(request, is_first);
        }
        delta::apply_subscriptions(self.cursor_mut(kind), request, now);
        self.on_subscription(kind, is_first);
        Ok(verdicts)
    }

    /// Handles a state-of-the-world request. Types that are not served are ignored.
    pub fn on_sotw_request(&mut self, request: &DiscoveryRequest) -> Result<Vec<ClientVerdict>, Violation> {
        let Some(kind) = ResourceType::from_url(&request.type_url) else { return Ok(Vec::new()) };
        check(request.resource_names.iter())?;
        self.check_count(request.resource_names.len().saturating_sub(self.cursor(kind).names.len()))?;
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let verdicts = self.on_answer(kind, &request.response_nonce, error);
        let now = self.now;
        let is_first = !self.cursor(kind).subscribed;
        self.resumes |= is_first && !request.version_info.is_empty();
        // The list of a request with a stale nonce is still the newest list of the client.
        sotw::apply_subscriptions(self.cursor_mut(kind), request, now);
        self.on_subscription(kind, is_first);
        Ok(verdicts)
    }

    /// Handles a request for virtual hosts: an answer, or the first subscription with what the client has.
    fn on_hosts_request(&mut self, request: &DeltaDiscoveryRequest) -> Result<Vec<ClientVerdict>, Violation> {
        // Their number has no other limit than the size of the request: a client with more hosts than that could never
        // connect again.
        let initial = &request.initial_resource_versions;
        check(initial.keys())?;
        let Some(hosts) = &mut self.hosts else { return Ok(Vec::new()) };
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let reported = initial.iter().map(|(name, version)| (name.clone(), WireVersion::parse(version)));
        let mut verdicts = Vec::new();
        for nonce in hosts.subscribe(reported) {
            verdicts.extend(self.land(ResourceType::Route, &nonce.to_string(), None));
        }
        if let (Some(hosts), Ok(nonce)) = (&mut self.hosts, request.response_nonce.parse()) {
            let meaning = hosts.hosts_answered(nonce, error.is_none());
            verdicts.extend(self.land_as(meaning, ResourceType::Route, &request.response_nonce, error));
        }
        Ok(verdicts)
    }

    /// Records the route configurations that the client has, has no more, or needs again.
    fn note_subscriptions(&mut self, request: &DeltaDiscoveryRequest, is_first: bool) {
        let Some(hosts) = &mut self.hosts else { return };
        let (gone, again) = (&request.resource_names_unsubscribe, &request.resource_names_subscribe);
        let mut unanswered: Vec<u64> = gone.iter().filter_map(|name| hosts.unsubscribed(name)).collect();
        if is_first {
            let initial = &request.initial_resource_versions;
            hosts.report(initial.iter().map(|(name, version)| (name.clone(), WireVersion::parse(version))));
        } else {
            unanswered.extend(again.iter().filter_map(|name| hosts.subscribed_again(name)));
        }
        for nonce in unanswered {
            self.cursor_mut(ResourceType::Route).flights.land(&nonce.to_string());
        }
    }

    fn on_answer(&mut self, kind: ResourceType, nonce: &str, error: Option<&str>) -> Vec<ClientVerdict> {
        match (kind, &mut self.hosts, nonce.parse()) {
            (ResourceType::Route, Some(hosts), Ok(number)) => {
                let meaning = hosts.routes_answered(number, error.is_none());
                self.land_as(meaning, kind, nonce, error)
            }
            _ => self.land(kind, nonce, error),
        }
    }

    fn land_as(
        &mut self,
        meaning: AnswerMeaning,
        kind: ResourceType,
        nonce: &str,
        error: Option<&str>,
    ) -> Vec<ClientVerdict> {
        match meaning {
            AnswerMeaning::Complete => return self.land(kind, nonce, error),
            AnswerMeaning::Continues => {}
            AnswerMeaning::Nothing => drop(self.cursor_mut(kind).flights.land(nonce)),
            AnswerMeaning::Unable => {
                let now = self.now;
                let cursor = self.cursor_mut(kind);
                let items = cursor.flights.land(nonce).into_iter().flat_map(|flight| flight.items);
                let names: Vec<_> = items.map(|item| item.name).collect();
                names.iter().for_each(|name| cursor.resend(name, now));
            }
        }
        Vec::new()
    }

    fn land(&mut self, kind: ResourceType, nonce: &str, error: Option<&str>) -> Vec<ClientVerdict> {
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

    /// Handles the first subscription to a type. Clusters may have been sent before the client subscribed to endpoints:
    /// on a stream that resumes, Envoy reports that it has these endpoints, and still needs them again for the changed
    /// clusters.
    fn on_subscription(&mut self, kind: ResourceType, is_first: bool) {
        if kind == ResourceType::Endpoints && is_first {
            let now = self.now;
            for name in std::mem::take(&mut self.unsubscribed_endpoints) {
                self.cursor_mut(ResourceType::Endpoints).resend(&name, now);
            }
        }
    }

    /// Returns the next response to send, if there is one now.
    pub fn next_response(&mut self) -> Option<Response> {
        if self.is_held() {
            return None;
        }
        if let Some(response) = self.next_hosts() {
            return Some(response);
        }
        self.route();
        loop {
            // A released resource may never have been sent; then a subscriber must get an answer that it does not exist,
            // as a change.
            let response = self.next_change().or_else(|| self.next_removal()).or_else(|| self.next_change())?;
            self.nonce += 1;
            if response.kind == ResourceType::Cluster {
                self.resend_endpoints(&response);
            }
            if let Some(response) = self.divided(response) {
                return Some(response);
            }
        }
    }

    /// Returns the next response with virtual hosts that wait for nothing any more.
    fn next_hosts(&mut self) -> Option<Response> {
        let hosts = self.hosts.as_mut()?;
        let orphans = hosts.take_orphans();
        if !orphans.is_empty() {
            // The answer to this response means nothing: the client has forgotten these hosts already.
            self.nonce += 1;
            return Some(response_of_hosts(self.nonce, HostChanges { sent: Vec::new(), removed: orphans }));
        }
        hosts.next().map(|(nonce, changes)| response_of_hosts(nonce, changes))
    }

    /// Returns the response to send first in place of one with a route configuration, where its hosts are sent one by
    /// one; `None` where the client has all of it.
    fn divided(&mut self, response: Response) -> Option<Response> {
        let (ResourceType::Route, Some(hosts)) = (response.kind, &mut self.hosts) else { return Some(response) };
        if let Form::Delta { removed } = &response.form {
            hosts.remove(removed.iter());
        }
        let [routes] = &response.resources[..] else { return Some(response) };
        Some(match hosts.begin(routes, response.nonce) {
            SentForm::Whole => response,
            SentForm::Head(head) => Response { resources: vec![head], ..response },
            SentForm::Hosts(changes) => response_of_hosts(response.nonce, changes),
            SentForm::Nothing => {
                let verdicts = self.land(ResourceType::Route, &response.nonce.to_string(), None);
                self.met.extend(verdicts);
                return None;
            }
        })
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
        if !cursor.subscribed || !cursor.published {
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

    /// Returns the nonce of the oldest unanswered response.
    pub(crate) fn oldest_unanswered(&self) -> Option<u64> {
        ResourceType::ALL.into_iter().filter_map(|kind| self.cursor(kind).flights.oldest()).min()
    }

    /// Returns whether all clusters and endpoints of a snapshot and of those before it are answered.
    fn clusters_are_answered(&self, snapshot: u64) -> bool {
        [ResourceType::Cluster, ResourceType::Endpoints]
            .into_iter()
            .filter_map(|kind| self.cursor(kind).oldest_change())
            .all(|since| since > snapshot)
    }

    /// Starts to send listeners and routes of the newest snapshot, unless those of an older one still wait.
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
        // Each difference came with one of the snapshots since the last one that was used; with the first of them at
        // worst.
        let since = self.routed + 1;
        self.routed = self.now;
        self.read_listeners(since);
        for kind in [ResourceType::Listener, ResourceType::Route] {
            let resources = self.newest.of(kind).clone();
            self.cursor_mut(kind).advance(&resources, since);
        }
    }

    /// Looks for listeners that read the names of virtual hosts.
    fn read_listeners(&mut self, since: u64) {
        let listeners = self.newest.of(ResourceType::Listener);
        let Some(hosts) = &mut self.hosts else { return };
        if listeners.ptr_eq(&self.cursors[ResourceType::Listener as usize].seen) {
            return;
        }
        let are_read = listeners.values().any(|listener| reads_host_name(&listener.body));
        for name in hosts.names_are_read(are_read) {
            self.cursor_mut(ResourceType::Route).resend(&name, since);
        }
    }

    /// Sends the endpoints of sent clusters again. A cluster that is sent warms until its endpoints arrive, even where
    /// Envoy already has them: without them Envoy would delay its answer for 15 seconds.
    fn resend_endpoints(&mut self, response: &Response) {
        let Some(flight) = self.cursor(ResourceType::Cluster).flights.iter().last() else { return };
        let since = flight.changes_since.unwrap_or(self.now);
        let sent: BTreeSet<&Arc<str>> = flight.items.iter().map(|item| &item.name).collect();
        let resources = response.resources.iter().filter(|resource| sent.contains(&resource.name));
        let names: Vec<String> = resources.filter_map(|resource| endpoints_name(&resource.body)).collect();
        let endpoints = self.cursor_mut(ResourceType::Endpoints);
        if endpoints.subscribed {
            names.iter().for_each(|name| endpoints.resend(name, since));
        } else if self.unsubscribed_endpoints.len() < NAMES_MAX {
            self.unsubscribed_endpoints.extend(names);
        }
    }
}

fn response_of_hosts(nonce: u64, changes: HostChanges) -> Response {
    let form = Form::Delta { removed: changes.removed };
    Response { kind: ResourceType::Route, are_hosts: true, nonce, resources: changes.sent, form }
}

/// Selection of what to take out of a cursor; removals only up to a snapshot.
#[derive(Clone, Copy)]
enum Take {
    Changes,
    ChangesAndRemovals(u64),
    Removals(u64),
}

fn check<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), Violation> {
    if names.any(|name| name.len() > NAME_BYTES_MAX) { Err(Violation::NameTooLong) } else { Ok(()) }
}
