//! State of one client for one type: its subscriptions, and the names under which it differs from its snapshot.
//!
//! A cursor has no copy of what was sent to a client, only a reference to the snapshot of the last comparison and the
//! names under which the two differ. An idle client costs only the names of its subscriptions.
//!
//! Invariant between any two calls: for each name with a subscription, the client was last sent exactly what `seen`
//! has, except for the names in `changes`, `removals` or `parked`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::accepted::AcceptedResources;
use crate::connection::Protocol;
use crate::due::{DueQueue, DueResource, LastSent};
use crate::flight::{Flights, SentName};
use crate::lingering::Lingering;
use crate::refusals::RefusedContents;
use crate::{Resource, ResourceType, Version};

pub(crate) type ResourcesByName = OrdMap<Arc<str>, Arc<Resource>>;

/// The state of one client for one type; see the module documentation.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) kind: ResourceType,
    pub(crate) protocol: Protocol,
    /// Whether the client subscribed to this type at all.
    pub(crate) subscribed: bool,
    /// Whether the client subscribed to all resources.
    pub(crate) wildcard: bool,
    /// Resources to which the client subscribed by name.
    pub(crate) names: BTreeSet<Arc<str>>,
    /// Whether a name is sent only when what was sent under it before is answered.
    pub(crate) is_serial: bool,
    /// Whether the client waits for a response even if it is empty.
    pub(crate) owed: bool,
    /// State of the world: the version of this type that the client had when it connected.
    pub(crate) resume: Option<String>,
    /// Whether there is a snapshot for the client; until then nothing is sent.
    pub(crate) published: bool,
    /// The resources that the client should have, including lingering ones.
    pub(crate) seen: ResourcesByName,
    /// Resources that are gone from the snapshot and must not be removed before their referrers have been replaced.
    /// Clusters, endpoints and secrets only.
    lingering: Lingering,
    /// Names to be sent, or to be reported as not existing.
    pub(crate) changes: DueQueue,
    /// Names to be reported as removed.
    pub(crate) removals: DueQueue,
    /// Names that differ and are not sent: the resource was refused, or nothing is published yet.
    pub(crate) parked: DueQueue,
    pub(crate) refusals: RefusedContents,
    pub(crate) flights: Flights,
    /// Acknowledged resources that are not the current ones.
    pub(crate) accepted: AcceptedResources,
    /// Resources that the client reported when it connected, as long as nothing else was sent for them.
    claims: BTreeMap<Arc<str>, Version>,
    /// Resources that the client already had when they, or other versions of them, were due; not reported yet.
    met: Vec<(Arc<str>, Version)>,
}

/// The queue to which a name belongs.
enum DuePlace {
    Settled,
    Changes,
    Removals,
    Parked,
}

impl Cursor {
    pub(crate) fn new(kind: ResourceType, protocol: Protocol) -> Self {
        Self {
            kind,
            protocol,
            subscribed: false,
            wildcard: false,
            names: BTreeSet::new(),
            is_serial: false,
            owed: false,
            resume: None,
            published: false,
            seen: ResourcesByName::default(),
            lingering: Lingering::default(),
            changes: DueQueue::default(),
            removals: DueQueue::default(),
            parked: DueQueue::default(),
            refusals: RefusedContents::default(),
            flights: Flights::default(),
            accepted: AcceptedResources::default(),
            claims: BTreeMap::new(),
            met: Vec::new(),
        }
    }

    /// Returns whether the client has acknowledged everything that it should have.
    pub(crate) fn is_settled(&self) -> bool {
        let queues = [&self.changes, &self.removals, &self.parked];
        queues.into_iter().all(DueQueue::is_empty) && self.flights.is_empty()
    }

    /// Returns whether the client subscribed to this resource.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Returns whether the absence of a resource can be reported to the client. In the state-of-the-world variant,
    /// absence is only visible in a response that must be complete.
    fn can_report_absence(&self) -> bool {
        self.protocol == Protocol::Delta || self.must_be_complete()
    }

    /// Returns whether a response of this type must contain all resources: clusters and listeners in the
    /// state-of-the-world variant.
    pub(crate) fn must_be_complete(&self) -> bool {
        self.protocol == Protocol::Sotw && self.has_wildcard()
    }

    /// Returns whether an empty first request of this type means all resources: clusters and listeners.
    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.kind, ResourceType::Cluster | ResourceType::Listener)
    }

    /// Returns the maximum number of resources of this type in one response, in the normal case.
    ///
    /// A refusal identifies the refused response, not the resource in it: Envoy names only clusters and listeners. The
    /// state-of-the-world variant has one unanswered response at a time, so that endpoints, of which there are many,
    /// must be sent together there. Secrets must never be: a secret that was refused together with others could not be
    /// tried again separately, since Envoy acknowledges the repeat without using it.
    pub(crate) fn company(&self) -> usize {
        match (self.kind, self.protocol) {
            (ResourceType::Cluster | ResourceType::Listener, _) => usize::MAX,
            (ResourceType::Endpoints, Protocol::Sotw) => usize::MAX,
            (ResourceType::Endpoints | ResourceType::Route | ResourceType::Secret, _) => 1,
        }
    }

    /// Records the answer that the client has applied what was sent.
    ///
    /// Secrets are an exception: an Envoy acknowledges the repeat of a refused secret without using it.
    pub(crate) fn accept(&mut self, nonce: u64, items: &[SentName]) {
        for item in items.iter().filter(|item| item.is_current && self.kind != ResourceType::Secret) {
            self.flights.outdate(&item.name, nonce);
            // A client ignores what it does not subscribe to any more.
            let is_ignored = !self.wants(&item.name);
            let is_current = self.seen.get(&item.name).map(|resource| resource.version) == item.version;
            match item.resource.as_ref().filter(|_| !is_current && !is_ignored) {
                Some(resource) => self.accepted.keep(item.name.clone(), resource.clone()),
                None => self.accepted.forget(&item.name),
            }
        }
    }

    /// Records the beginning of a subscription: a client forgets what it does not subscribe to.
    fn begin_to_accept(&mut self, name: &str) {
        self.accepted.forget(name);
        self.flights.outdate(name, u64::MAX);
    }

    /// Returns a name in the form that the snapshot shares, if it is there.
    pub(crate) fn intern(&self, name: &str) -> Arc<str> {
        self.seen.get_key_value(name).map_or_else(|| Arc::from(name), |(key, _)| key.clone())
    }

    /// Returns the record of a sent resource, with the resource itself where it must be kept.
    pub(crate) fn held(&self, resource: &Arc<Resource>) -> LastSent {
        let kept = self.must_be_complete().then(|| resource.clone());
        LastSent::Has { version: Some(resource.version), resource: kept }
    }

    /// Removes a name from its queue; for a name in no queue, returns what the client was last sent.
    pub(crate) fn lift(&mut self, name: &str, since: u64) -> DueResource {
        let queued = self.changes.take(name).or_else(|| self.removals.take(name)).or_else(|| self.parked.take(name));
        queued.unwrap_or_else(|| {
            let held = match self.seen.get(name) {
                Some(resource) => self.held(resource),
                None if self.names.contains(name) => LastSent::Absent,
                None => LastSent::Nothing,
            };
            self.due(held, since)
        })
    }

    /// Returns a due entry without special properties.
    pub(crate) fn due(&self, held: LastSent, since: u64) -> DueResource {
        DueResource { held, again: false, company: self.company(), since }
    }

    /// Puts a name into the queue to which it belongs.
    pub(crate) fn place(&mut self, name: Arc<str>, due: DueResource) {
        if !self.wants(&name) {
            self.accepted.forget(&name);
        }
        match self.place_of(&name, &due) {
            DuePlace::Settled => self.meet(name),
            DuePlace::Changes => self.changes.put(name, due),
            DuePlace::Removals => self.removals.put(name, due),
            DuePlace::Parked => self.parked.put(name, due),
        }
    }

    /// Allows every refused content to be sent once more.
    pub(crate) fn forget_refusals(&mut self, now: u64) {
        self.refusals = RefusedContents::default();
        for (name, due) in self.parked.drain() {
            self.place(name, DueResource { since: now, ..due });
        }
    }

    /// Records that the client reports this version when it connects; an Envoy names only accepted versions.
    ///
    /// Secrets are an exception: a refused secret may be reported as well, as long as an earlier one is in use.
    pub(crate) fn claim(&mut self, name: &str, version: &str) {
        if let Some(version) = Version::parse(version).filter(|_| self.kind != ResourceType::Secret) {
            let name = self.intern(name);
            self.claims.insert(name, version);
        }
    }

    /// Handles a name with nothing to send: a version that the client already has counts as acknowledged, once.
    fn meet(&mut self, name: Arc<str>) {
        let Some(claimed) = self.claims.get(&name).copied() else { return };
        if self.seen.get(&name).is_some_and(|resource| resource.version == claimed) {
            self.claims.remove(&name);
            self.met.push((name, claimed));
        }
    }

    /// Records that the client has accepted all of its resources.
    ///
    /// Secrets are an exception: the repeat of a refused secret is acknowledged without being used.
    pub(crate) fn meet_all(&mut self) {
        if self.kind != ResourceType::Secret {
            let taken = self.seen.iter().filter(|(name, _)| self.wants(name));
            let taken: Vec<_> = taken.map(|(name, resource)| (name.clone(), resource.version)).collect();
            self.met.extend(taken);
        }
    }

    /// Returns the resources that the client already had, since the last call.
    pub(crate) fn take_met(&mut self) -> Vec<(Arc<str>, Version)> {
        std::mem::take(&mut self.met)
    }

    fn place_of(&self, name: &str, due: &DueResource) -> DuePlace {
        if !self.wants(name) {
            return DuePlace::Settled;
        }
        if !self.published {
            return DuePlace::Parked;
        }
        if let Some(resource) = self.seen.get(name) {
            return if self.refusals.contains(name, resource.version) {
                DuePlace::Parked
            } else if due.held.is(resource.version) && !due.again {
                DuePlace::Settled
            } else {
                DuePlace::Changes
            };
        }
        let reports_absence = self.can_report_absence();
        match due.held {
            LastSent::Has { .. } if reports_absence => DuePlace::Removals,
            LastSent::Nothing if reports_absence && self.protocol == Protocol::Delta && self.names.contains(name) => {
                DuePlace::Changes
            }
            LastSent::Absent if reports_absence && self.protocol == Protocol::Delta && due.again => DuePlace::Changes,
            LastSent::Has { .. } | LastSent::Nothing | LastSent::Absent => DuePlace::Settled,
        }
    }

    /// Replaces the resources that the client should have by those of the snapshot with number `now`.
    pub(crate) fn advance(&mut self, resources: &ResourcesByName, now: u64) {
        if !self.published {
            self.begin(resources, now);
            return;
        }
        let seen = std::mem::replace(&mut self.seen, resources.clone());
        self.lingering.forget(|name| resources.contains_key(name));
        for item in seen.diff(resources) {
            let (name, old) = match item {
                DiffItem::Add(name, _) => (name, None),
                DiffItem::Update { old: (name, old), .. } => (name, Some(old)),
                DiffItem::Remove(name, old) if self.lingers() => {
                    self.seen.insert(name.clone(), old.clone());
                    self.lingering.add(name.clone(), now);
                    continue;
                }
                DiffItem::Remove(name, old) => (name, Some(old)),
            };
            if self.wants(name) {
                self.reconsider(name, old, now);
            }
        }
    }

    /// Returns whether resources of this type have referrers, which must be replaced before the resource is removed.
    fn lingers(&self) -> bool {
        matches!(self.kind, ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret)
    }

    /// Removes the resources that are gone since a snapshot no newer than `until`: no resource names them any more.
    pub(crate) fn release(&mut self, until: u64) {
        while let Some((name, since)) = self.lingering.take(until) {
            let old = self.seen.remove(&name);
            if self.wants(&name) {
                self.reconsider(&name, old.as_ref(), since);
            }
        }
    }

    /// Handles a change of a name with the previous resource `old`.
    fn reconsider(&mut self, name: &Arc<str>, old: Option<&Arc<Resource>>, now: u64) {
        let mut due = if let Some(due) = self.changes.take(name).or_else(|| self.parked.take(name)) {
            due
        } else if let Some(due) = self.removals.take(name) {
            // A resource that was refused together with others must still be tried separately, should it return with
            // the same content.
            DueResource { since: now, ..due }
        } else {
            // Whatever is sent and not answered is recorded with its answer.
            if let Some(old) = old.filter(|_| !self.flights.has(name) && self.kind != ResourceType::Secret) {
                self.accepted.becomes_earlier(name.clone(), old.clone());
            }
            let held = match old {
                Some(old) => self.held(old),
                None if self.names.contains(name) => LastSent::Absent,
                None => LastSent::Nothing,
            };
            self.due(held, now)
        };
        if !self.seen.contains_key(name) && !self.can_report_absence() {
            // The client forgets the resource when nothing refers to it.
            self.accepted.forget(name);
        }
        // A name that already waits keeps its position, also a refused one: its client still has the older version. A
        // removal waits for the other changes of its snapshot.
        if !self.seen.contains_key(name) {
            due.since = now;
        }
        self.place(name.clone(), due);
    }

    /// Handles the first snapshot: all resources with a subscription are due.
    fn begin(&mut self, resources: &ResourcesByName, now: u64) {
        self.published = true;
        self.seen = resources.clone();
        let mut waiting = self.parked.drain();
        if !self.subscribed {
            return;
        }
        let mut names: BTreeSet<Arc<str>> = self.names.clone();
        names.extend(waiting.keys().cloned());
        if self.wildcard {
            names.extend(resources.keys().cloned());
        }
        for name in names {
            let mut due = waiting.remove(&name).unwrap_or_else(|| self.due(LastSent::Nothing, now));
            due.since = now;
            self.place(name, due);
        }
        self.settle_if_resumed();
    }

    /// Subscribes to a name; `held` is what the client reports to have under it.
    pub(crate) fn subscribe(&mut self, name: &str, held: LastSent, now: u64) {
        let name = self.intern(name);
        let due = if self.wants(&name) {
            // A repeated subscription means that the resource is sent again.
            let mut due = self.lift(&name, now);
            due.again = true;
            due
        } else {
            self.begin_to_accept(&name);
            self.due(held, now)
        };
        self.names.insert(name.clone());
        self.place(name, due);
    }

    /// Unsubscribes from a name.
    pub(crate) fn unsubscribe(&mut self, name: &str, now: u64) {
        let Some(name) = self.names.get(name).cloned() else { return };
        let mut due = self.lift(&name, now);
        self.names.remove(&name);
        // The wildcard still includes the name: the client must get the current state.
        due.again = true;
        self.place(name, due);
    }

    /// Subscribes to all resources; `held` is what the client reports to have.
    pub(crate) fn subscribe_all(&mut self, held: impl IntoIterator<Item = (Arc<str>, LastSent)>, now: u64) {
        if self.wildcard {
            return;
        }
        self.wildcard = true;
        let mut rest: BTreeSet<Arc<str>> = self.seen.keys().cloned().collect();
        for (name, held) in held {
            rest.remove(&name);
            if !self.names.contains(&name) {
                self.begin_to_accept(&name);
                let due = self.due(held, now);
                self.place(name, due);
            }
        }
        for name in rest {
            if !self.names.contains(&name) {
                self.begin_to_accept(&name);
                let due = self.due(LastSent::Nothing, now);
                self.place(name, due);
            }
        }
    }

    /// Unsubscribes from all resources except those with a subscription by name.
    pub(crate) fn unsubscribe_all(&mut self) {
        self.wildcard = false;
        for queue in [&mut self.changes, &mut self.removals, &mut self.parked] {
            for (name, due) in queue.drain() {
                match self.names.contains(&name) {
                    true => queue.put(name, due),
                    false => self.accepted.forget(&name),
                }
            }
        }
    }

    /// Sends a name once more although it is unchanged, if the client subscribed to it.
    pub(crate) fn resend(&mut self, name: &str, now: u64) {
        if !self.wants(name) {
            return;
        }
        let name = self.intern(name);
        let mut due = self.lift(&name, now);
        due.again = true;
        due.since = due.since.min(now);
        self.place(name, due);
    }

    /// Returns whether no change and no removal waits to be sent.
    pub(crate) fn has_nothing_to_send(&self) -> bool {
        self.changes.is_empty() && self.removals.is_empty()
    }

    /// Returns the snapshot since which the oldest addition or change waits to be sent or answered.
    pub(crate) fn oldest_change(&self) -> Option<u64> {
        [self.changes.oldest(), self.flights.oldest_change()].into_iter().flatten().min()
    }

    /// Returns the snapshot since which the oldest removal waits to be sent or answered.
    pub(crate) fn oldest_removal(&self) -> Option<u64> {
        [self.lingering.oldest(), self.removals.oldest(), self.flights.oldest_removal()].into_iter().flatten().min()
    }

    /// Returns the snapshot since which the client differs from its resources: not sent, not answered or refused.
    pub(crate) fn oldest(&self) -> Option<u64> {
        [self.oldest_change(), self.oldest_removal(), self.parked.oldest()].into_iter().flatten().min()
    }

    /// Returns the change that is sent next: the first one that waits for no answer.
    pub(crate) fn next_change(&self) -> Option<(&Arc<str>, &DueResource)> {
        self.changes.first_of(|name| !self.is_serial || !self.flights.has(name))
    }

    /// Takes the next change out of its queue and returns how it is to be sent.
    pub(crate) fn take_change(&mut self) -> Option<(SentName, Option<Arc<Resource>>, u64)> {
        let (name, _) = self.next_change()?;
        let name = name.clone();
        let due = self.changes.take(&name)?;
        // The client had this version until now, whatever it answers to the next one.
        let claimed = self.claims.remove(&name);
        self.met.extend(claimed.map(|version| (name.clone(), version)));
        let resource = self.seen.get(&name).cloned();
        let version = resource.as_ref().map(|resource| resource.version);
        Some((
            SentName { name, version, resource: resource.clone(), is_current: true, before: due.held },
            resource,
            due.since,
        ))
    }

    /// Takes the first removal out of its queue, if it was due at `until`.
    pub(crate) fn take_removal(&mut self, until: u64) -> Option<(SentName, u64)> {
        let (name, due) = self.removals.first()?;
        if due.since > until {
            return None;
        }
        let name = name.clone();
        let due = self.removals.take(&name)?;
        Some((SentName { name, version: None, resource: None, is_current: true, before: due.held }, due.since))
    }
}
