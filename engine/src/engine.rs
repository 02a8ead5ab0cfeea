//! The only place that decides: events in, actions out. No I/O, no clock, no async.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_graph::{Graph, ObjectKey};
use holdfast_store::Batch;
use holdfast_store::shards::{self, Observation, ObservedScope};
use holdfast_xds::{Answer, EnvoyId, Offers, Snapshot};

use crate::fallback::around::Around;
use crate::fallback::attribution::Attributed;
use crate::fallback::checker::Objection;
use crate::fallback::lines::Lines;
use crate::fallback::restored::Restored;
use crate::fault::Fault;
use crate::health::Ledger;
use crate::hold::Refusal;
use crate::object::Object;
use crate::provision::Provisioned;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::trial::{Trial, Tried};
use crate::watching::Trouble;

/// Of several replicas one leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Convicts and promotes.
    #[default]
    Leader,
    /// Serves the same plan.
    Follower,
}

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was created or changed; the faults are those of decoding it.
    Applied(Box<Object>, Vec<Fault>),
    /// An object is there, but its content cannot be used at all.
    Unusable(ObjectKey, Vec<Fault>),
    /// An object was there in an earlier run, and nothing can be read of it now: it stays as it was stored.
    Unread(ObjectKey, Vec<Fault>),
    /// An object was deleted.
    Deleted(ObjectKey),
    /// An Envoy opened a stream; whether it comes with what it was given before.
    Connected(EnvoyId, bool),
    /// A stream of an Envoy ended.
    Disconnected(EnvoyId),
    /// An Envoy answered.
    Answered(Answer),
    /// There is a probe of this build, or none any more.
    Probe(Option<Arc<str>>),
    /// Trials ended.
    Tried(Vec<Tried>),
    /// How the data plane of a Gateway stands; `None` where there is none any more.
    Provisioned(ObjectKey, Option<Provisioned>),
    /// Where processes listen on this host that are not of this Holdfast, all of them, with a description of each: in
    /// standalone mode their ports are not to be had.
    PortsTaken(BTreeMap<SocketAddr, Arc<str>>),
    /// What is wrong with watches of an API server now, all of it.
    Troubles(Vec<Trouble>),
    /// What an earlier run stored. Comes first, or not at all.
    Restored(Box<Restored>),
    /// Whether this replica leads. Of one that is told nothing it is so.
    Role(Role),
    /// What the leader has shared: it takes the place of all that was known. Of no use to who leads.
    Learned(Box<Restored>),
    /// What the other replicas that are there have seen, all of it. Of use to who leads.
    Observed(Vec<Observation>),
    /// The time, in milliseconds of Unix time. Comes before what happened at that time.
    Clock(u64),
}

/// Something that is to be done outside.
#[derive(Clone, Debug)]
// Few actions exist at a time, and most of them publish.
#[allow(clippy::large_enum_variant)]
pub enum Action {
    /// This is what the Envoys of a Gateway should have from now on.
    Publish {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
        /// What all of them should have, and what single ones.
        offers: Offers,
    },
    /// The Gateway is gone: its Envoys are to end.
    Withdraw {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
    },
    /// These contents are to be tried on the probe.
    Try(Vec<Trial>),
    /// This must be stored before what comes after it is published.
    Store(Batch),
}

/// The deciding part of Holdfast.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    objects: ObjectSnapshot,
    unusable: BTreeSet<ObjectKey>,
    unread: BTreeSet<ObjectKey>,
    /// Since when they are.
    unusable_since: BTreeMap<ObjectKey, i64>,
    graph: Graph,
    pub(crate) translator: Translator,
    pub(crate) lines: Lines,
    decoding: BTreeMap<ObjectKey, Vec<Fault>>,
    probe: Option<Arc<str>>,
    next_trial: u64,
    fallbacks: u64,
    now_ms: u64,
    /// Policies that were deleted and still protect something, and until when (milliseconds of Unix time).
    leaving: BTreeMap<ObjectKey, u64>,
    /// How data planes stand.
    pub(crate) provisioned: BTreeMap<ObjectKey, Provisioned>,
    /// Since when objects are at fault, over retries and restarts.
    ledger: Arc<Ledger>,
    /// What is wrong with watches; `None` where there are none.
    pub(crate) troubles: Option<Vec<Trouble>>,
}

/// How long a policy that protects something stays after it was deleted, in milliseconds: tools that deploy delete and
/// create, and nothing may be open between the two.
pub const SUCCESSOR_MS: u64 = 2_000;

impl Engine {
    /// An engine that knows no object yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            translator: Translator::new(settings.clone()),
            settings,
            objects: ObjectSnapshot::default(),
            unusable: BTreeSet::new(),
            unread: BTreeSet::new(),
            unusable_since: BTreeMap::new(),
            graph: Graph::default(),
            lines: Lines::default(),
            decoding: BTreeMap::new(),
            probe: None,
            next_trial: 0,
            fallbacks: 0,
            now_ms: 0,
            leaving: BTreeMap::new(),
            provisioned: BTreeMap::new(),
            ledger: Arc::default(),
            troubles: None,
        }
    }

    /// Since when objects are at fault, as it was known before: over retries and restarts.
    pub fn date(&mut self, ledger: Arc<Ledger>) {
        self.ledger = ledger;
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time that it was told last, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Takes in what happened, all at once; says what is to be done.
    pub fn handle(&mut self, events: Vec<Event>) -> Vec<Action> {
        let (mut heard, mut objects, mut actions) = (Vec::new(), false, Vec::new());
        for event in events {
            match event {
                Event::Applied(object, faults) => self.apply(*object, faults),
                Event::Unusable(key, faults) => self.unusable(&key, faults),
                Event::Unread(key, faults) => self.unread(&key, faults),
                Event::Deleted(key) => self.delete(&key),
                Event::PortsTaken(taken) => {
                    // At a start there is nothing to translate yet, and what is stored is served.
                    if !self.translator.set_taken_ports(taken) {
                        continue;
                    }
                }
                Event::Clock(now_ms) => {
                    self.now_ms = self.now_ms.max(now_ms);
                    heard.push(event);
                    continue;
                }
                Event::Probe(ref build) => {
                    self.probe.clone_from(build);
                    heard.push(event);
                    continue;
                }
                Event::Restored(restored) => {
                    actions.extend(self.lines.restore(*restored));
                    continue;
                }
                Event::Troubles(troubles) => {
                    self.troubles = Some(troubles);
                    continue;
                }
                Event::Provisioned(gateway, standing) => {
                    match standing {
                        Some(standing) => self.provisioned.insert(gateway, standing),
                        None => self.provisioned.remove(&gateway),
                    };
                    continue;
                }
                heard_only => {
                    heard.push(heard_only);
                    continue;
                }
            }
            objects = true;
        }
        let due: Vec<ObjectKey> =
            self.leaving.iter().filter(|(_, until)| **until <= self.now_ms).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.delete(&key);
            objects = true;
        }
        let mut trials = Vec::new();
        let Self { settings, objects: all, unusable, unread, decoding, graph, translator, lines, .. } = self;
        let mut around = Around {
            translator,
            graph,
            objects: all,
            unusable,
            unread,
            decoding,
            settings,
            now_ms: self.now_ms,
            ledger: &self.ledger,
            follows: lines.follows(),
            probe: self.probe.as_ref(),
            next_trial: &mut self.next_trial,
            fallbacks: &mut self.fallbacks,
            trials: &mut trials,
        };
        if objects {
            lines.translate(&mut around, &mut actions);
        }
        heard.into_iter().for_each(|event| lines.hear(event, &mut around));
        let records = lines.take_convictions();
        if !records.is_empty() {
            actions.push(Action::Store(records));
        }
        if !trials.is_empty() {
            actions.push(Action::Try(trials));
        }
        actions.extend(lines.publish());
        actions
    }

    fn apply(&mut self, mut object: Object, faults: Vec<Fault>) {
        self.note(&object.key, faults);
        // A policy that is cut short must not open what it was attached to.
        if object.body.lost_targets()
            && let Some(before) = self.objects.get(&object.key).cloned().or_else(|| self.lines.last_valid(&object.key))
        {
            object.body.keep_targets(&before.body);
        }
        self.leaving.remove(&object.key);
        self.unusable.remove(&object.key);
        self.unread.remove(&object.key);
        self.unusable_since.remove(&object.key);
        let object = Arc::new(object);
        let old = self.objects.insert(object.clone());
        if old.as_ref().is_some_and(|old| old.metadata.uid != object.metadata.uid) {
            self.lines.forget(&object.key);
        }
        if !old.as_ref().is_some_and(|old| old.same_content(&object)) {
            self.translator.changed(&object.key, old.as_deref(), Some(&object));
        }
    }

    /// What others hang on stays as it was read last: it is there, and nobody has asked for its removal.
    fn unusable(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        self.note(key, faults);
        self.unread.remove(key);
        self.unusable.insert(key.clone());
        let began = self.ledger.began(key, None, self.now());
        self.unusable_since.entry(key.clone()).or_insert(began);
        let is_anchor = |object: &Arc<Object>| object.body.is_anchor();
        match self.objects.get(key).cloned() {
            Some(old) if is_anchor(&old) => {}
            Some(old) => {
                self.objects.remove(key);
                self.translator.changed(key, Some(&old), None);
            }
            None => self.take_from_the_store(key, is_anchor),
        }
    }

    /// Nobody has asked for its removal, and what is meant now is not known.
    fn unread(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        self.note(key, faults);
        if self.objects.get(key).is_none() {
            self.unread.insert(key.clone());
            self.take_from_the_store(key, |_| true);
        }
    }

    fn take_from_the_store(&mut self, key: &ObjectKey, is_meant: impl Fn(&Arc<Object>) -> bool) {
        if let Some(stored) = self.lines.last_valid(key).filter(is_meant) {
            self.objects.insert(stored.clone());
            self.translator.changed(key, None, Some(&stored));
        }
    }

    fn delete(&mut self, key: &ObjectKey) {
        // Where nobody tells the time nothing can wait.
        let waits = self.now_ms > 0 && !self.leaving.contains_key(key);
        if waits && self.translator.is_guard(key) {
            self.leaving.insert(key.clone(), self.now_ms.saturating_add(SUCCESSOR_MS));
            return;
        }
        self.leaving.remove(key);
        self.note(key, Vec::new());
        self.unusable.remove(key);
        self.unusable_since.remove(key);
        self.lines.forget(key);
        if self.unread.remove(key) {
            // Endpoints may have stayed for it that no object tells of.
            self.lines.look_again();
        }
        if let Some(old) = self.objects.remove(key) {
            self.translator.changed(key, Some(&old), None);
        }
    }

    fn note(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        if faults.is_empty() {
            self.decoding.remove(key);
        } else {
            self.decoding.insert(key.clone(), faults);
        }
    }

    /// All objects.
    pub fn objects(&self) -> &ObjectSnapshot {
        &self.objects
    }

    /// Objects that are there, and of which nothing can be read: since when, and what is wrong first.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = (&ObjectKey, i64, Option<&Fault>)> {
        let fault = |key: &ObjectKey| self.decoding.get(key).and_then(|faults| faults.first());
        self.unusable_since.iter().map(move |(key, since)| (key, *since, fault(key)))
    }

    /// Is the object there, and nothing of it can be read?
    pub(crate) fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.unusable.contains(key)
    }

    /// Is the object there, readable or not?
    pub fn is_there(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some() || self.is_unreadable(key) || self.unread.contains(key)
    }

    /// Attached routes in a version that no Envoy is known to have taken as it is, in order.
    pub fn unproven(&self) -> Vec<ObjectKey> {
        let is_served = |key: &ObjectKey| self.translator.route(key).is_some_and(|plan| !plan.gateways().is_empty());
        let proven = |object: &Object| {
            let known = self.lines.last_valid(&object.key);
            known.is_some_and(|known| known.body == object.body && known.metadata.uid == object.metadata.uid)
        };
        let unproven = |object: &&Arc<Object>| is_served(&object.key) && !proven(object);
        self.objects.sorted().into_iter().filter(unproven).map(|object| object.key.clone()).collect()
    }

    /// The dependency graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// All faults, in order, each once.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.translator.faults();
        faults.extend(self.decoding.values().flatten().cloned());
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// What Envoys refused, and is held back.
    pub fn refusals(&self) -> Vec<(&str, &Refusal)> {
        self.lines.refusals().collect()
    }

    /// What the checker of fallbacks closed, with the Gateway (`namespace/name`) at which it did.
    pub fn objections(&self) -> Vec<(&str, &Objection)> {
        self.lines.iter().flat_map(|line| line.derived.objections.iter().map(|found| (&*line.name, found))).collect()
    }

    /// What the Envoys of a Gateway (`namespace/name`) should have now, but for single ones.
    pub fn fleet(&self, gateway: &str) -> Option<&Snapshot> {
        self.lines.offered(gateway).map(|offers| &offers.everyone)
    }

    /// What the Envoys of a Gateway are offered, each audience its own.
    #[cfg(test)]
    pub(crate) fn offered(&self, gateway: &str) -> Option<&holdfast_xds::Offers> {
        self.lines.offered(gateway)
    }

    /// How many times another fallback was put into force.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    /// Searches for whom to blame that have ended since this was last asked.
    pub fn take_attributed(&mut self) -> Vec<Attributed> {
        self.lines.take_attributed()
    }

    /// What this replica's Envoys have answered, for the leader.
    pub fn observation(&self) -> Vec<ObservedScope> {
        self.lines.observation()
    }

    /// What is offered to all Envoys, for replicas that follow.
    pub fn offered_to_all(&self) -> shards::Offers {
        self.lines.offered_to_all()
    }

    /// What is to be stored since this was last asked: versions that were proven, configurations that were
    /// acknowledged.
    pub fn take_records(&mut self) -> Batch {
        self.lines.take_records()
    }
}
