//! Where one client stands with one type: what it asked for, and in what it differs from what it should have.
//!
//! A cursor holds no copy of what a client was sent, only a pointer to the snapshot it was compared with last and the
//! names where the two differ. An idle client costs the names it asked for and nothing else.
//!
//! What is true between any two calls: a client was last sent exactly what `seen` has under each name it asked for,
//! but for the names that stand in `changes`, `removals` or `parked`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::connection::Protocol;
use crate::due::{Due, Held, Queue};
use crate::flight::{Flights, Item};
use crate::lingering::Lingering;
use crate::refusals::Refusals;
use crate::{Resource, ResourceType, Version};

pub(crate) type Resources = OrdMap<Arc<str>, Arc<Resource>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) kind: ResourceType,
    pub(crate) protocol: Protocol,
    /// The client asked for this type at all.
    pub(crate) asked: bool,
    /// It asked for everything there is.
    pub(crate) wildcard: bool,
    /// What it asked for by name.
    pub(crate) names: BTreeSet<Arc<str>>,
    /// It waits for a response even if there is nothing to say.
    pub(crate) owed: bool,
    /// State of the world: the version it had of this type when it came.
    pub(crate) resume: Option<String>,
    /// There is something it should have; until then it is told nothing.
    pub(crate) published: bool,
    /// What it should have; with what is gone and lingers.
    pub(crate) seen: Resources,
    /// Gone, and not to be taken away before what names it has moved on. Clusters, endpoints and secrets only.
    lingering: Lingering,
    /// To be sent, or to be told that it doesn't exist.
    pub(crate) changes: Queue,
    /// To be told that it is gone.
    pub(crate) removals: Queue,
    /// Differs, and is not to be sent: it was refused, or nothing is published yet.
    pub(crate) parked: Queue,
    pub(crate) refusals: Refusals,
    pub(crate) flights: Flights,
    /// What the client said it has when it came, as long as nothing else was sent to it.
    claims: BTreeMap<Arc<str>, Version>,
    /// What it had already when it was to be given it; not told yet.
    met: Vec<(Arc<str>, Version)>,
}

/// Where a name belongs.
enum Place {
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
            asked: false,
            wildcard: false,
            names: BTreeSet::new(),
            owed: false,
            resume: None,
            published: false,
            seen: Resources::default(),
            lingering: Lingering::default(),
            changes: Queue::default(),
            removals: Queue::default(),
            parked: Queue::default(),
            refusals: Refusals::default(),
            flights: Flights::default(),
            claims: BTreeMap::new(),
            met: Vec::new(),
        }
    }

    /// Did the client ask for this resource?
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Can the client be told that a resource is gone? State of the world knows it only by leaving it out of a
    /// response that must be complete.
    fn can_be_told_of_absence(&self) -> bool {
        self.protocol == Protocol::Delta || self.must_be_complete()
    }

    /// Must a response of this type hold everything? State of the world, clusters and listeners.
    pub(crate) fn must_be_complete(&self) -> bool {
        self.protocol == Protocol::Sotw && self.has_wildcard()
    }

    /// Is an empty first request of this type one for everything? Clusters and listeners.
    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.kind, ResourceType::Cluster | ResourceType::Listener)
    }

    /// With how many resources one of this type may travel in a response, where nothing speaks against it.
    ///
    /// A refusal says which response was refused, not what in it: only clusters and listeners are named by Envoy.
    /// State of the world has one unanswered response at a time, so that endpoints, of which there are many, must
    /// travel together there. Secrets never may: one that was refused in company could not be tried again alone, since
    /// Envoy acknowledges the repeat without using it.
    pub(crate) fn company(&self) -> usize {
        match (self.kind, self.protocol) {
            (ResourceType::Cluster | ResourceType::Listener, _) => usize::MAX,
            (ResourceType::Endpoints, Protocol::Sotw) => usize::MAX,
            (ResourceType::Endpoints | ResourceType::Route | ResourceType::Secret, _) => 1,
        }
    }

    /// A name as the snapshot shares it, where it is there.
    pub(crate) fn intern(&self, name: &str) -> Arc<str> {
        self.seen.get_key_value(name).map_or_else(|| Arc::from(name), |(key, _)| key.clone())
    }

    /// What was sent, as far as it must be kept.
    pub(crate) fn held(&self, resource: &Arc<Resource>) -> Held {
        let kept = self.must_be_complete().then(|| resource.clone());
        Held::Has { version: Some(resource.version), resource: kept }
    }

    /// Takes a name out of where it stands; for a settled one, says what the client was last sent.
    pub(crate) fn lift(&mut self, name: &str, since: u64) -> Due {
        let queued = self.changes.take(name).or_else(|| self.removals.take(name)).or_else(|| self.parked.take(name));
        queued.unwrap_or_else(|| {
            let held = match self.seen.get(name) {
                Some(resource) => self.held(resource),
                None if self.names.contains(name) => Held::Absent,
                None => Held::Nothing,
            };
            self.due(held, since)
        })
    }

    /// Something due, of which nothing special is known.
    pub(crate) fn due(&self, held: Held, since: u64) -> Due {
        Due { held, again: false, company: self.company(), since }
    }

    /// Puts a name where it belongs.
    pub(crate) fn place(&mut self, name: Arc<str>, due: Due) {
        match self.place_of(&name, &due) {
            Place::Settled => self.meet(name),
            Place::Changes => self.changes.put(name, due),
            Place::Removals => self.removals.put(name, due),
            Place::Parked => self.parked.put(name, due),
        }
    }

    /// The client comes with this; an Envoy names only what it took.
    ///
    /// Not so of Secrets: one that was refused may be named all the same, as long as an earlier one is in use.
    pub(crate) fn claim(&mut self, name: &str, version: &str) {
        if let Some(version) = Version::parse(version).filter(|_| self.kind != ResourceType::Secret) {
            let name = self.intern(name);
            self.claims.insert(name, version);
        }
    }

    /// Nothing is to be sent of this name: what the client has already counts as acknowledged, once.
    fn meet(&mut self, name: Arc<str>) {
        let Some(claimed) = self.claims.get(&name).copied() else { return };
        if self.seen.get(&name).is_some_and(|resource| resource.version == claimed) {
            self.claims.remove(&name);
            self.met.push((name, claimed));
        }
    }

    /// The client has taken all that it should have.
    ///
    /// That says nothing of Secrets: the repeat of one that was refused is acknowledged without being taken.
    pub(crate) fn meet_all(&mut self) {
        if self.kind != ResourceType::Secret {
            let taken = self.seen.iter().filter(|(name, _)| self.wants(name));
            let taken: Vec<_> = taken.map(|(name, resource)| (name.clone(), resource.version)).collect();
            self.met.extend(taken);
        }
    }

    /// What the client turned out to have already since this was last asked.
    pub(crate) fn take_met(&mut self) -> Vec<(Arc<str>, Version)> {
        std::mem::take(&mut self.met)
    }

    fn place_of(&self, name: &str, due: &Due) -> Place {
        if !self.wants(name) {
            return Place::Settled;
        }
        if !self.published {
            return Place::Parked;
        }
        if let Some(resource) = self.seen.get(name) {
            return if self.refusals.contains(name, resource.version) {
                Place::Parked
            } else if due.held.is(resource.version) && !due.again {
                Place::Settled
            } else {
                Place::Changes
            };
        }
        let told = self.can_be_told_of_absence();
        match due.held {
            Held::Has { .. } if told => Place::Removals,
            Held::Nothing if told && self.protocol == Protocol::Delta && self.names.contains(name) => Place::Changes,
            Held::Absent if told && self.protocol == Protocol::Delta && due.again => Place::Changes,
            Held::Has { .. } | Held::Nothing | Held::Absent => Place::Settled,
        }
    }

    /// What the client should have becomes `resources`, with the snapshot of number `now`.
    pub(crate) fn advance(&mut self, resources: &Resources, now: u64) {
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

    /// Is a resource of this type named by others, which have to move on before it goes?
    fn lingers(&self) -> bool {
        matches!(self.kind, ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret)
    }

    /// Lets go what is gone since a snapshot no newer than `until`: nothing names it any more.
    pub(crate) fn release(&mut self, until: u64) {
        while let Some((name, since)) = self.lingering.take(until) {
            let old = self.seen.remove(&name);
            if self.wants(&name) {
                self.reconsider(&name, old.as_ref(), since);
            }
        }
    }

    /// A name whose resource was `old` has changed.
    fn reconsider(&mut self, name: &Arc<str>, old: Option<&Arc<Resource>>, now: u64) {
        let mut due = if let Some(due) = self.changes.take(name).or_else(|| self.parked.take(name)) {
            due
        } else if let Some(due) = self.removals.take(name) {
            // One that was refused in company is still to be tried alone, should it be back with the same content.
            Due { since: now, ..due }
        } else {
            let held = match old {
                Some(old) => self.held(old),
                None if self.names.contains(name) => Held::Absent,
                None => Held::Nothing,
            };
            self.due(held, now)
        };
        // One that waits already keeps its place in the order, also one that was refused: for so long its client has
        // not moved. A removal waits for what comes with the snapshot that brings it.
        if !self.seen.contains_key(name) {
            due.since = now;
        }
        self.place(name.clone(), due);
    }

    /// The first snapshot: everything asked for so far is due.
    fn begin(&mut self, resources: &Resources, now: u64) {
        self.published = true;
        self.seen = resources.clone();
        let mut waiting = self.parked.drain();
        if !self.asked {
            return;
        }
        let mut names: BTreeSet<Arc<str>> = self.names.clone();
        names.extend(waiting.keys().cloned());
        if self.wildcard {
            names.extend(resources.keys().cloned());
        }
        for name in names {
            let mut due = waiting.remove(&name).unwrap_or_else(|| self.due(Held::Nothing, now));
            due.since = now;
            self.place(name, due);
        }
        self.settle_if_resumed();
    }

    /// Asks for a name; `held` is what the client says it has of it.
    pub(crate) fn subscribe(&mut self, name: &str, held: Held, now: u64) {
        let name = self.intern(name);
        let due = if self.wants(&name) {
            // Asking again for what one has means to be sent it again.
            let mut due = self.lift(&name, now);
            due.again = true;
            due
        } else {
            self.due(held, now)
        };
        self.names.insert(name.clone());
        self.place(name, due);
    }

    /// Gives up a name.
    pub(crate) fn unsubscribe(&mut self, name: &str, now: u64) {
        let Some(name) = self.names.get(name).cloned() else { return };
        let mut due = self.lift(&name, now);
        self.names.remove(&name);
        // Still asked for with everything else: the client must be told what holds now.
        due.again = true;
        self.place(name, due);
    }

    /// Asks for everything; `held` is what the client says it has.
    pub(crate) fn subscribe_all(&mut self, held: impl IntoIterator<Item = (Arc<str>, Held)>, now: u64) {
        if self.wildcard {
            return;
        }
        self.wildcard = true;
        let mut rest: BTreeSet<Arc<str>> = self.seen.keys().cloned().collect();
        for (name, held) in held {
            rest.remove(&name);
            if !self.names.contains(&name) {
                let due = self.due(held, now);
                self.place(name, due);
            }
        }
        for name in rest {
            if !self.names.contains(&name) {
                let due = self.due(Held::Nothing, now);
                self.place(name, due);
            }
        }
    }

    /// Gives up everything but what it asked for by name.
    pub(crate) fn unsubscribe_all(&mut self) {
        self.wildcard = false;
        for queue in [&mut self.changes, &mut self.removals, &mut self.parked] {
            for (name, due) in queue.drain() {
                if self.names.contains(&name) {
                    queue.put(name, due);
                }
            }
        }
    }

    /// Sends a name once more though nothing about it changed, where the client asked for it.
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

    /// Nothing is on its way, nothing is to be sent.
    pub(crate) fn has_nothing_to_send(&self) -> bool {
        self.changes.is_empty() && self.removals.is_empty()
    }

    /// Since when the oldest addition or change waits to be sent or answered.
    pub(crate) fn oldest_change(&self) -> Option<u64> {
        [self.changes.oldest(), self.flights.oldest_change()].into_iter().flatten().min()
    }

    /// Since when the oldest removal waits to be sent or answered.
    pub(crate) fn oldest_removal(&self) -> Option<u64> {
        [self.lingering.oldest(), self.removals.oldest(), self.flights.oldest_removal()].into_iter().flatten().min()
    }

    /// Since when the client has something else than it should have: not sent, not answered or refused.
    pub(crate) fn oldest(&self) -> Option<u64> {
        [self.oldest_change(), self.oldest_removal(), self.parked.oldest()].into_iter().flatten().min()
    }

    /// Takes the first change out of its queue and says how it is to be sent.
    pub(crate) fn take_change(&mut self) -> Option<(Item, Option<Arc<Resource>>, u64)> {
        let (name, _) = self.changes.first()?;
        let name = name.clone();
        let due = self.changes.take(&name)?;
        self.claims.remove(&name);
        let resource = self.seen.get(&name).cloned();
        let version = resource.as_ref().map(|resource| resource.version);
        Some((Item { name, version, before: due.held }, resource, due.since))
    }

    /// Takes the first removal out of its queue, where it was due at `until` already.
    pub(crate) fn take_removal(&mut self, until: u64) -> Option<(Item, u64)> {
        let (name, due) = self.removals.first()?;
        if due.since > until {
            return None;
        }
        let name = name.clone();
        let due = self.removals.take(&name)?;
        Some((Item { name, version: None, before: due.held }, due.since))
    }
}
