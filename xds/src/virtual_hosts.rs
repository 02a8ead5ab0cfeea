//! Delivery of route configurations to a client that takes virtual hosts one by one (VHDS): what the client has of each,
//! and the steps of each delivery.
//!
//! To the rest of the connection, a route configuration stays one resource with one version and one answer: the client
//! has accepted it when it has accepted the route configuration without hosts, and all changes of its hosts. The changes
//! of one route configuration are one response, which Envoy applies as a whole or not at all. A route configuration with
//! settings for all hosts is sent whole, and stays whole on this client: while an Envoy changes from the whole form to
//! separate hosts, it has no hosts at all, and after another change it has the hosts from before the first one.
//!
//! An Envoy also reports hosts that it was sent and does not use: hosts of a route configuration that it had forgotten
//! meanwhile. So the versions on the wire have the number of the delivery that began with the route configuration without
//! hosts (`<version>-<generation>`), and a reported host counts only where its route configuration has the same number.
//!
//! Nothing is sent from here: `connection.rs` requests each response.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::split::{HostChanges, SplitRoutes, resource_name};
use crate::{Resource, Version};

/// The deliveries to one client.
#[derive(Debug, Default)]
pub(crate) struct HostDeliveries {
    /// Whether the client subscribed to virtual hosts.
    subscribed: bool,
    /// Whether a listener reads the names of hosts.
    names_are_read: bool,
    /// Route configurations that the client reported when it connected, and was not sent since.
    reported: BTreeMap<String, WireVersion>,
    /// Virtual hosts that the client may have beside the ones in `held`, by the names of their resources: it reported them
    /// when it connected, or was sent them before its subscription changed.
    other_hosts: BTreeMap<String, WireVersion>,
    /// What the client has of each route configuration.
    held: BTreeMap<Arc<str>, HeldRoutes>,
    /// The newest generation of each route configuration.
    generations: BTreeMap<Arc<str>, u32>,
    /// Deliveries without an answer, by the nonce of the response with the route configuration; the response with its
    /// hosts has the same nonce.
    deliveries: BTreeMap<u64, Delivery>,
    /// Hosts to send, with the nonces of their deliveries.
    due: VecDeque<(u64, HostChanges)>,
    /// Names of resources of virtual hosts that the client has to forget.
    orphans: Vec<Arc<str>>,
    /// Route configurations of which the removal was sent; the client may have kept them and their hosts.
    removed: BTreeSet<Arc<str>>,
}

/// A version as a client reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireVersion {
    /// The version; unset for one that this server did not make.
    version: Option<Version>,
    /// The generation; 0 for a resource that is not a part of a divided route configuration.
    generation: u32,
}

impl WireVersion {
    /// Parses the text of [`Resource::wire_version`].
    pub(crate) fn parse(text: &str) -> Self {
        let (version, generation) = text.split_once('-').unwrap_or((text, "0"));
        Self { version: Version::parse(version), generation: generation.parse().unwrap_or_default() }
    }
}

/// What the client has of a route configuration.
#[derive(Clone, Debug)]
enum HeldRoutes {
    /// Nothing, or no hosts.
    Nothing,
    /// All of it in one resource.
    Whole,
    /// Separate hosts, as the client reported them.
    Reported,
    /// Separate hosts.
    Split(Arc<SplitRoutes>),
}

/// A delivery without its answer. A client has at most one of each route configuration.
#[derive(Debug)]
struct Delivery {
    name: Arc<str>,
    step: DeliveryStep,
}

#[derive(Debug)]
enum DeliveryStep {
    /// The whole route configuration was sent.
    Whole,
    /// The route configuration was sent without hosts.
    Head(Arc<SplitRoutes>),
    /// The client has the route configuration, and its hosts are not sent yet.
    Accepted(Arc<SplitRoutes>),
    /// The changes of the hosts were sent.
    Hosts(Arc<SplitRoutes>),
    /// The client has subscribed again since the response was sent, so that its answer does not show what it has.
    Outdated,
}

/// The meaning of an answer for its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerMeaning {
    /// It is the answer to the delivery.
    Complete,
    /// The delivery continues.
    Continues,
    /// It shows nothing; the delivery begins again.
    Nothing,
    /// The client cannot take hosts one by one; the route configuration has to be sent again, as a whole.
    Unable,
}

/// What to send for a route configuration.
#[derive(Debug)]
pub(crate) enum SentForm {
    /// The route configuration itself.
    Whole,
    /// The route configuration without hosts.
    Head(Arc<Resource>),
    /// Its hosts.
    Hosts(HostChanges),
    /// Nothing: the client has all of it.
    Nothing,
}

impl HostDeliveries {
    /// Records the route configurations that the client reports when it connects.
    pub(crate) fn report(&mut self, routes: impl Iterator<Item = (String, WireVersion)>) {
        self.reported.extend(routes);
    }

    /// Handles a subscription to virtual hosts, the first one with the hosts that the client reports. Returns the nonces
    /// of deliveries that are complete.
    pub(crate) fn subscribe(&mut self, hosts: impl Iterator<Item = (String, WireVersion)>) -> Vec<u64> {
        if std::mem::replace(&mut self.subscribed, true) {
            return Vec::new();
        }
        self.other_hosts.extend(hosts);
        let accepted =
            self.deliveries.iter().filter(|(_, delivery)| matches!(delivery.step, DeliveryStep::Accepted(_)));
        let accepted: Vec<u64> = accepted.map(|(nonce, _)| *nonce).collect();
        accepted.into_iter().filter(|nonce| self.is_complete(*nonce)).collect()
    }

    /// Records whether a listener reads the names of hosts, for example in conditions of its access log. Separate hosts
    /// have other names, so that all route configurations are sent whole then. Returns the ones to send again.
    pub(crate) fn names_are_read(&mut self, are_read: bool) -> Vec<Arc<str>> {
        let were_read = std::mem::replace(&mut self.names_are_read, are_read);
        let divided = self.held.iter().filter(|(_, held)| are_read && !were_read && !matches!(held, HeldRoutes::Whole));
        divided.map(|(name, _)| name.clone()).collect()
    }

    /// Begins a delivery, and returns what to send.
    pub(crate) fn begin(&mut self, routes: &Resource, nonce: u64) -> SentForm {
        let held = self.held_of(routes);
        let stays_whole = self.names_are_read || matches!(held, HeldRoutes::Whole);
        let split = if stays_whole { None } else { routes.split() };
        let has_hosts = matches!(held, HeldRoutes::Reported | HeldRoutes::Split(_));
        let has_hosts = has_hosts && self.subscribed && !self.removed.remove(&routes.name);
        if matches!(held, HeldRoutes::Nothing) {
            self.begin_generation(&routes.name);
        }
        let (step, sent) = match split {
            None => (DeliveryStep::Whole, SentForm::Whole),
            Some(split) if !has_hosts => {
                let head = split.head(self.generation(&routes.name));
                (DeliveryStep::Head(split), SentForm::Head(head))
            }
            Some(split) => match self.changes(&held, &split) {
                changes if changes == HostChanges::default() => {
                    self.has_now(routes.name.clone(), split);
                    return SentForm::Nothing;
                }
                changes => (DeliveryStep::Hosts(split), SentForm::Hosts(changes)),
            },
        };
        self.held.insert(routes.name.clone(), held);
        self.deliveries.insert(nonce, Delivery { name: routes.name.clone(), step });
        sent
    }

    /// Records the removal of route configurations.
    pub(crate) fn remove<'a>(&mut self, names: impl Iterator<Item = &'a Arc<str>>) {
        let known = names.filter(|name| self.held.contains_key(*name) || self.reported.contains_key(&***name));
        self.removed.extend(known.cloned());
    }

    /// Handles the answer to a response with route configurations.
    pub(crate) fn routes_answered(&mut self, nonce: u64, is_accepted: bool) -> AnswerMeaning {
        match self.deliveries.remove(&nonce) {
            Some(Delivery { name, step: DeliveryStep::Head(split) }) if is_accepted => {
                self.deliveries.insert(nonce, Delivery { name, step: DeliveryStep::Accepted(split) });
                if self.is_complete(nonce) { AnswerMeaning::Complete } else { AnswerMeaning::Continues }
            }
            Some(Delivery { name, step: DeliveryStep::Whole }) if is_accepted => {
                // An Envoy keeps the separate hosts beside the whole ones, without using them.
                self.remember(&name);
                if let Some(held) = self.held.get_mut(&name) {
                    *held = HeldRoutes::Whole;
                }
                AnswerMeaning::Complete
            }
            Some(delivery @ Delivery { step: DeliveryStep::Accepted(_) | DeliveryStep::Hosts(_), .. }) => {
                self.deliveries.insert(nonce, delivery);
                AnswerMeaning::Continues
            }
            Some(Delivery { step: DeliveryStep::Outdated, .. }) => AnswerMeaning::Nothing,
            // Without hosts it has nothing that comes from an object.
            Some(Delivery { name, step: DeliveryStep::Head(_) }) => {
                self.held.insert(name, HeldRoutes::Whole);
                AnswerMeaning::Unable
            }
            Some(_) | None => AnswerMeaning::Complete,
        }
    }

    /// Handles the answer to a response with virtual hosts.
    pub(crate) fn hosts_answered(&mut self, nonce: u64, is_accepted: bool) -> AnswerMeaning {
        match self.deliveries.remove(&nonce) {
            Some(Delivery { name, step: DeliveryStep::Hosts(split) }) if is_accepted => {
                self.has_now(name, split);
                AnswerMeaning::Complete
            }
            Some(Delivery { step: DeliveryStep::Outdated, .. }) if is_accepted => AnswerMeaning::Nothing,
            Some(Delivery { step: DeliveryStep::Hosts(_) | DeliveryStep::Outdated, .. }) => AnswerMeaning::Complete,
            Some(other) => {
                self.deliveries.insert(nonce, other);
                AnswerMeaning::Continues
            }
            // The hosts of a route configuration that the client has forgotten.
            None => AnswerMeaning::Continues,
        }
    }

    /// Returns the next hosts to send, with the nonce of their delivery.
    pub(crate) fn next(&mut self) -> Option<(u64, HostChanges)> {
        while let Some((nonce, changes)) = self.due.pop_front() {
            // A delivery that has ended since has no hosts to send.
            if let Some(Delivery { step, .. }) = self.deliveries.get_mut(&nonce)
                && let DeliveryStep::Accepted(split) = step
            {
                *step = DeliveryStep::Hosts(split.clone());
                return Some((nonce, changes));
            }
        }
        None
    }

    /// Returns the names of the hosts that the client has to forget, once.
    pub(crate) fn take_orphans(&mut self) -> Vec<Arc<str>> {
        if self.subscribed { std::mem::take(&mut self.orphans) } else { Vec::new() }
    }

    /// Handles the end of a subscription: the client has the route configuration no more. Returns the nonce of its
    /// delivery if no answer to it will arrive.
    pub(crate) fn unsubscribed(&mut self, name: &str) -> Option<u64> {
        self.reported.remove(name);
        self.removed.remove(name);
        let nonce = self.delivery_of(name);
        nonce.iter().for_each(|nonce| self.remember_sent(*nonce));
        self.remember(name);
        self.held.remove(name);
        // Each name once: an Envoy refuses a response with the same name twice.
        let others = self.take_others(name);
        self.orphans.extend(others);
        self.outdate(nonce?)
    }

    /// Handles a repeated subscription: the client needs all hosts again. Returns the nonce of a delivery to which no
    /// answer will arrive.
    pub(crate) fn subscribed_again(&mut self, name: &str) -> Option<u64> {
        self.reported.remove(name);
        let nonce = self.delivery_of(name);
        nonce.iter().for_each(|nonce| self.remember_sent(*nonce));
        self.remember(name);
        if let Some(held) = self.held.get_mut(name)
            && !matches!(held, HeldRoutes::Whole)
        {
            *held = HeldRoutes::Nothing;
        }
        self.outdate(nonce?)
    }

    /// Ends a delivery: its answer will show nothing. Returns its nonce if there will be no answer.
    fn outdate(&mut self, nonce: u64) -> Option<u64> {
        match &mut self.deliveries.get_mut(&nonce)?.step {
            DeliveryStep::Accepted(_) => self.deliveries.remove(&nonce).map(|_| nonce),
            // This client has it as a whole in any case.
            DeliveryStep::Whole => None,
            step => {
                *step = DeliveryStep::Outdated;
                None
            }
        }
    }

    fn delivery_of(&self, name: &str) -> Option<u64> {
        self.deliveries.iter().find(|(_, delivery)| *delivery.name == *name).map(|(nonce, _)| *nonce)
    }

    /// Continues the delivery of an accepted route configuration, if the client subscribed to hosts. Returns whether
    /// there are no hosts to send, so that the delivery is complete.
    fn is_complete(&mut self, nonce: u64) -> bool {
        let Some(Delivery { name, step: DeliveryStep::Accepted(split) }) = self.deliveries.get(&nonce) else {
            return true;
        };
        if !self.subscribed {
            return false;
        }
        let changes = self.held.get(name).map(|held| self.changes(held, split)).unwrap_or_default();
        if changes != HostChanges::default() {
            self.due.push_back((nonce, changes));
            return false;
        }
        let (name, split) = (name.clone(), split.clone());
        self.deliveries.remove(&nonce);
        self.has_now(name, split);
        true
    }

    /// Returns what the client has of a route configuration, from its report where nothing was sent yet.
    fn held_of(&mut self, routes: &Resource) -> HeldRoutes {
        if let Some(known) = self.held.get(&routes.name) {
            return known.clone();
        }
        match self.reported.remove(&*routes.name) {
            None => HeldRoutes::Nothing,
            Some(reported) => {
                self.generations.insert(routes.name.clone(), reported.generation);
                let is_head = |split: &Arc<SplitRoutes>| reported.version == Some(split.head_version());
                match routes.split().filter(is_head) {
                    Some(_) => HeldRoutes::Reported,
                    None => HeldRoutes::Whole,
                }
            }
        }
    }

    fn changes(&self, held: &HeldRoutes, split: &SplitRoutes) -> HostChanges {
        let name = split.name();
        let generation = self.generation(name);
        match held {
            HeldRoutes::Nothing | HeldRoutes::Whole => {
                split.all(self.others_of(name).map(|(host, _)| host), generation)
            }
            // An Envoy with no hosts may still wait for the first response with hosts.
            HeldRoutes::Reported if self.others_of(name).next().is_none() => split.all(std::iter::empty(), generation),
            HeldRoutes::Reported => {
                let used = |known: WireVersion| known.version.filter(|_| known.generation == generation);
                split.changes(self.others_of(name).map(|(host, known)| (host, used(known))), generation)
            }
            HeldRoutes::Split(known) => {
                split.changes(known.versions().map(|(host, version)| (host, Some(version))), generation)
            }
        }
    }

    fn generation(&self, routes: &str) -> u32 {
        self.generations.get(routes).copied().unwrap_or_default()
    }

    /// Begins a generation that none of the hosts belongs to that the client may have.
    fn begin_generation(&mut self, routes: &Arc<str>) {
        let others = self.others_of(routes).map(|(_, known)| known.generation);
        let newest = others.max().unwrap_or_default().max(self.generation(routes));
        self.generations.insert(routes.clone(), newest.saturating_add(1));
    }

    /// Returns the other hosts of a route configuration, in the order of their names.
    fn others_of<'a>(&'a self, routes: &str) -> impl Iterator<Item = (&'a str, WireVersion)> + use<'a> {
        let prefix = resource_name(routes, "").to_string();
        let from = self.other_hosts.range(prefix.clone()..);
        let of_routes = from.map_while(move |(name, version)| Some((name.strip_prefix(&prefix)?, *version)));
        // A name with another slash belongs to a route configuration with a longer name.
        of_routes.filter(|(host, _)| !host.contains('/'))
    }

    /// Forgets the other hosts of a route configuration, and returns the names of their resources.
    fn take_others(&mut self, routes: &str) -> Vec<Arc<str>> {
        let names: Vec<Arc<str>> = self.others_of(routes).map(|(host, _)| resource_name(routes, host)).collect();
        for name in &names {
            self.other_hosts.remove(&**name);
        }
        names
    }

    /// Records that the client has these hosts of a route configuration, and no others.
    fn has_now(&mut self, name: Arc<str>, split: Arc<SplitRoutes>) {
        self.take_others(&name);
        self.held.insert(name, HeldRoutes::Split(split));
    }

    /// Adds the hosts that the client has to the other hosts.
    fn remember(&mut self, name: &str) {
        if let Some(HeldRoutes::Split(split)) = self.held.get(name) {
            let split = split.clone();
            self.remember_all(name, &split);
        }
    }

    /// Adds the hosts of an unanswered response to the other hosts.
    fn remember_sent(&mut self, nonce: u64) {
        if let Some(Delivery { name, step: DeliveryStep::Hosts(split) }) = self.deliveries.get(&nonce) {
            let (name, split) = (name.clone(), split.clone());
            self.remember_all(&name, &split);
        }
    }

    fn remember_all(&mut self, name: &str, split: &SplitRoutes) {
        let known = WireVersion { version: None, generation: self.generation(name) };
        self.other_hosts.extend(split.versions().map(|(host, _)| (resource_name(name, host).to_string(), known)));
    }
}
