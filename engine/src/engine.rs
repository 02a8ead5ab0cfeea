//! The engine, the only place that decides: events in, actions out. No I/O, no clock, no async.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::ledger::Ledger;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_api::watch_problem::WatchProblem;
use holdfast_envoy::hold::Refusal;
use holdfast_fallback::attribution::Attributed;
use holdfast_fallback::checker::Objection;
pub use holdfast_fallback::event::{Action, Event, Role};
use holdfast_fallback::scopes::FallbackScopes;
use holdfast_fallback::step_inputs::StepInputs;
use holdfast_graph::{Graph, ObjectKey};
use holdfast_store::Batch;
use holdfast_store::shards::{self, ObservedScope};
use holdfast_translate::Translator;
use holdfast_translate::provision::Provisioned;
use holdfast_xds::Snapshot;

use crate::report::below::EarlierAbove;
use crate::report::statuses::kept::KeptStatuses;

/// The deciding part of Holdfast.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    objects: ObjectSnapshot,
    unusable: BTreeSet<ObjectKey>,
    pub(crate) unread: BTreeSet<ObjectKey>,
    /// When each unusable object became unusable.
    unusable_since: BTreeMap<ObjectKey, i64>,
    graph: Graph,
    pub(crate) translator: Translator,
    /// The scopes.
    pub scopes: FallbackScopes,
    decoding: BTreeMap<ObjectKey, Vec<Fault>>,
    probe: Option<Arc<str>>,
    next_trial: u64,
    fallbacks: u64,
    now_ms: u64,
    /// Deleted policies that still protect routes, and until when (milliseconds of Unix time).
    leaving: BTreeMap<ObjectKey, u64>,
    /// The states of data planes.
    pub provisioned: BTreeMap<ObjectKey, Provisioned>,
    /// Since when objects are at fault, across retries and restarts.
    ledger: Arc<Ledger>,
    /// Current problems of watches; `None` where nothing is watched.
    pub problems: Option<Vec<WatchProblem>>,
    /// The statuses of the last collection; `None` before the first one.
    pub(crate) kept: Option<KeptStatuses>,
}

/// How long a protecting policy stays in force after its deletion, in milliseconds. Deployment tools delete and
/// recreate objects, and no route may be unprotected in between.
pub const SUCCESSOR_MS: u64 = 2_000;

impl Engine {
    /// Creates an engine without objects.
    pub fn new(settings: Settings) -> Self {
        Self {
            translator: Translator::new(settings.clone()),
            settings,
            objects: ObjectSnapshot::default(),
            unusable: BTreeSet::new(),
            unread: BTreeSet::new(),
            unusable_since: BTreeMap::new(),
            graph: Graph::default(),
            scopes: FallbackScopes::default(),
            decoding: BTreeMap::new(),
            probe: None,
            next_trial: 0,
            fallbacks: 0,
            now_ms: 0,
            leaving: BTreeMap::new(),
            provisioned: BTreeMap::new(),
            ledger: Arc::default(),
            problems: None,
            kept: None,
        }
    }

    /// Sets the known times since which objects are at fault, across retries and restarts.
    pub fn date(&mut self, ledger: Arc<Ledger>) {
        self.ledger = ledger;
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time of the last clock event, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the time of the last clock event, in milliseconds of Unix time.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns how often a date of a certificate passed that changes a report or what is served without an edit.
    pub fn dates_passed(&self) -> u64 {
        self.translator.dates_passed()
    }

    /// Takes over an object of which nothing changed that something depends on: annotations of other programs, or the
    /// status that Holdfast wrote itself. Returns every other event, which has to be handled.
    pub fn refresh(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Applied(object, faults) if self.is_as_known(&object, &faults) => {
                self.objects.insert(Arc::new(*object));
                None
            }
            event => Some(event),
        }
    }

    /// Returns whether an object is known with this content, this generation and these faults.
    fn is_as_known(&self, object: &Object, faults: &[Fault]) -> bool {
        let key = &object.key;
        let is_known =
            |known: &Arc<Object>| known.metadata.generation == object.metadata.generation && known.same_content(object);
        self.objects.get(key).is_some_and(is_known)
            && self.decoding.get(key).map_or(&[][..], Vec::as_slice) == faults
            && !self.leaving.contains_key(key)
            && !self.unusable.contains(key)
            && !self.unread.contains(key)
            && !self.unusable_since.contains_key(key)
    }

    /// Processes the events together; returns the resulting actions.
    pub fn handle(&mut self, events: Vec<Event>) -> Vec<Action> {
        let (mut forwarded, mut actions, mut objects_changed) = (Vec::new(), Vec::new(), false);
        for event in events {
            objects_changed |= self.receive(event, &mut forwarded, &mut actions);
        }
        objects_changed |= self.delete_expired();
        self.decide(objects_changed, forwarded, actions)
    }

    /// Applies an event, or forwards it to the scopes; returns whether it changes objects.
    fn receive(&mut self, event: Event, forwarded: &mut Vec<Event>, actions: &mut Vec<Action>) -> bool {
        if let (Some(kept), Some(key)) = (&mut self.kept, event.object()) {
            kept.changed([key.clone()]);
        }
        match event {
            Event::Applied(object, faults) => self.apply(*object, faults),
            Event::Unusable(key, faults) => self.unusable(&key, faults),
            Event::Unread(key, why) => self.unread(&key, &why),
            Event::Uncertain(object, faults, why) => self.uncertain(*object, faults, &why),
            Event::Deleted(key) => self.delete(&key),
            // At startup there is nothing to translate yet, and the stored configuration is served.
            Event::PortsTaken(taken) => return self.translator.set_taken_ports(taken),
            Event::Clock(now_ms) => {
                self.now_ms = self.now_ms.max(now_ms);
                forwarded.push(event);
                return self.translator.set_time(self.now());
            }
            not_of_objects => {
                self.receive_other(not_of_objects, forwarded, actions);
                return false;
            }
        }
        true
    }

    /// Applies an event that changes no object, or forwards it to the scopes.
    fn receive_other(&mut self, event: Event, forwarded: &mut Vec<Event>, actions: &mut Vec<Action>) {
        match event {
            Event::Probe(ref build) => {
                self.probe.clone_from(build);
                forwarded.push(event);
            }
            Event::Restored(restored) => actions.extend(self.scopes.restore(*restored)),
            Event::WatchProblems(problems) => self.problems = Some(problems),
            Event::Provisioned(gateway, Some(provisioned)) => {
                self.provisioned.insert(gateway, provisioned);
            }
            Event::Provisioned(gateway, None) => {
                self.provisioned.remove(&gateway);
            }
            other => forwarded.push(other),
        }
    }

    /// Deletes the protecting policies that no successor replaced in time; returns whether there were any.
    fn delete_expired(&mut self) -> bool {
        let expired = self.leaving.iter().filter(|(_, until)| **until <= self.now_ms);
        let expired: Vec<ObjectKey> = expired.map(|(key, _)| key.clone()).collect();
        expired.iter().for_each(|key| self.delete(key));
        !expired.is_empty()
    }

    /// Translates the objects if they changed, and passes the forwarded events to the scopes.
    fn decide(&mut self, objects_changed: bool, forwarded: Vec<Event>, mut actions: Vec<Action>) -> Vec<Action> {
        let mut trials = Vec::new();
        let Self { settings, objects: all, unusable, unread, decoding, graph, translator, scopes, kept, .. } = self;
        let mut inputs = StepInputs {
            translator,
            graph,
            objects: all,
            unusable,
            unread,
            decoding,
            settings,
            now_ms: self.now_ms,
            ledger: &self.ledger,
            follows: scopes.follows(),
            probe: self.probe.as_ref(),
            next_trial: &mut self.next_trial,
            fallbacks: &mut self.fallbacks,
            trials: &mut trials,
        };
        if objects_changed {
            scopes.translate(&mut inputs, &mut actions);
        }
        forwarded.into_iter().for_each(|event| scopes.on_event(event, &mut inputs));
        let changed_routes = inputs.translator.take_changed_routes();
        if let Some(kept) = kept {
            kept.changed(changed_routes);
        }
        let records = scopes.take_convictions();
        if !records.is_empty() {
            actions.push(Action::Store(records));
        }
        if !trials.is_empty() {
            actions.push(Action::Try(trials));
        }
        actions.extend(scopes.publish());
        actions
    }

    fn apply(&mut self, mut object: Object, mut faults: Vec<Fault>) {
        if let Some((field, message)) = object.body.lost_host()
            && self.before(&object.key).is_some_and(|before| {
                before.metadata.uid == object.metadata.uid
                    && before.body.is_anchor()
                    && before.body.lost_host().is_none()
            })
        {
            faults.push(Fault::new(&object.key, Class::Invalid, field, "Invalid", message));
            return self.unusable(&object.key, faults);
        }
        self.note(&object.key, faults);
        // A policy with a truncated target list must not unprotect the targets that it was attached to before.
        // A rule with unreadable matches must not leave its requests to other rules. A Gateway with an unreadable default
        // scope must not lose the routes of others.
        if (object.body.lost_targets() || object.body.lost_matches() || object.body.lost_scope())
            && let Some(before) = self.before(&object.key)
        {
            object.body.keep_targets(&before.body);
            if before.metadata.uid == object.metadata.uid {
                object.body.keep_matches(&before.body);
                object.body.keep_scope(&before.body);
            }
        }
        self.leaving.remove(&object.key);
        self.unusable.remove(&object.key);
        self.unread.remove(&object.key);
        self.unusable_since.remove(&object.key);
        let object = Arc::new(object);
        let old = self.objects.insert(object.clone());
        if old.as_ref().is_some_and(|old| old.metadata.uid != object.metadata.uid) {
            self.scopes.forget(&object.key);
        }
        if !old.as_ref().is_some_and(|old| old.same_content(&object)) {
            self.translator.changed(&object.key, old.as_deref(), Some(&object));
        }
    }

    /// Returns the version of an object that was read last, as far as it is known: after a restart, the last valid one.
    fn before(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(key).cloned().or_else(|| self.scopes.last_valid(key))
    }

    /// Handles an unusable object. An anchor, which other objects attach to, keeps its last readable version: the
    /// object exists, and its removal was not requested. A route keeps its claims, and its rules are broken.
    fn unusable(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        let error = faults.iter().find(|fault| fault.is_error());
        let why = error.map(Fault::sentence).unwrap_or_default().into();
        self.note(key, faults);
        self.leaving.remove(key);
        self.unread.remove(key);
        self.unusable.insert(key.clone());
        let began = self.ledger.began(key, None, false, self.now());
        self.unusable_since.entry(key.clone()).or_insert(began);
        let old = self.objects.get(key).cloned();
        let known = self.before(key);
        let kept = known.and_then(|known| match known.body.is_anchor() {
            true => Some(known),
            false => known.body.closed(&why).map(|body| Arc::new(Object { body, ..Object::clone(&known) })),
        });
        let was_changed = match &kept {
            Some(kept) => {
                self.objects.insert(kept.clone());
                !old.as_ref().is_some_and(|old| old.same_content(kept))
            }
            None => {
                self.objects.remove(key);
                self.objects.set_unreadable(key, true) || old.is_some()
            }
        };
        if was_changed {
            self.translator.changed(key, old.as_deref(), kept.as_deref());
        }
    }

    /// Handles an object of an earlier run that cannot be read. The stored version stays in use: the object's removal
    /// was not requested, and its current content is unknown.
    fn unread(&mut self, key: &ObjectKey, why: &str) {
        self.leaving.remove(key);
        if self.objects.get(key).is_none() {
            self.unread.insert(key.clone());
            self.take_from_the_store(key);
        }
        let is_known = self.scopes.last_valid(key).is_some() || !self.unread.contains(key);
        let (class, instead) = match self.objects.get(key) {
            Some(_) if !is_known => (
                Class::Invalid,
                "its last valid version holds credentials, which are not stored without --store-key-file, so that \
                 requests to it, or to the targets of a policy, get an error response until it can be read",
            ),
            Some(_) => (Class::Ignored, "the version of the object that an earlier run stored stays in use"),
            None if *key.kind == *kinds::ENDPOINT_SLICE => {
                (Class::Ignored, "the endpoints that Envoys acknowledged stay in use")
            }
            None => (Class::Invalid, "no version of the object is stored, so that it is missing until it can be read"),
        };
        self.note(key, vec![Fault::new(key, class, "", "Unread", format!("{why}; {instead}"))]);
    }

    /// Handles an object of an earlier run in a file that does not parse now: its edits take effect when the file parses.
    fn uncertain(&mut self, object: Object, mut faults: Vec<Fault>, why: &str) {
        if self.before(&object.key).is_some() {
            return self.unread(&object.key, why);
        }
        let message = format!("{why}; no version of the object is stored, so that it is used as the file has it now");
        faults.push(Fault::new(&object.key, Class::Ignored, "", "Unread", message));
        self.apply(object, faults);
    }

    fn take_from_the_store(&mut self, key: &ObjectKey) {
        if let Some(stored) = self.scopes.last_valid(key).or_else(|| Some(self.scopes.closed(key)?.0)) {
            self.objects.insert(stored.clone());
            self.translator.changed(key, None, Some(&stored));
        }
    }

    fn delete(&mut self, key: &ObjectKey) {
        // Without clock events nothing can be delayed.
        let waits = self.now_ms > 0 && !self.leaving.contains_key(key);
        if waits && self.translator.is_guard(key) {
            self.leaving.insert(key.clone(), self.now_ms.saturating_add(SUCCESSOR_MS));
            return;
        }
        self.leaving.remove(key);
        self.note(key, Vec::new());
        self.unusable.remove(key);
        self.unusable_since.remove(key);
        self.scopes.forget(key);
        if self.unread.remove(key) {
            // Endpoints of the object may have been kept without any object that lists them.
            self.scopes.mark_dirty();
        }
        let old = self.objects.remove(key);
        if self.objects.set_unreadable(key, false) || old.is_some() {
            self.translator.changed(key, old.as_deref(), None);
        }
    }

    fn note(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        if faults.is_empty() {
            self.decoding.remove(key);
        } else {
            self.decoding.insert(key.clone(), faults);
        }
    }

    /// Returns all objects.
    pub fn objects(&self) -> &ObjectSnapshot {
        &self.objects
    }

    /// Returns the first fault of an existing object that cannot be read at all; `None` if it can be read.
    pub(crate) fn why_unreadable(&self, key: &ObjectKey) -> Option<Option<&Fault>> {
        let fault = || self.decoding.get(key).and_then(|faults| faults.first());
        self.unusable_since.contains_key(key).then(fault)
    }

    /// Returns the existing objects that cannot be read at all: since when, and the first fault.
    pub fn unreadable(&self) -> impl Iterator<Item = (&ObjectKey, i64, Option<&Fault>)> {
        let fault = |key: &ObjectKey| self.decoding.get(key).and_then(|faults| faults.first());
        self.unusable_since.iter().map(move |(key, since)| (key, *since, fault(key)))
    }

    /// Returns the objects that cannot be read and of which the last readable version is used as it is, with the fault.
    pub fn kept_as_read(&self) -> impl Iterator<Item = (&ObjectKey, Option<&Fault>)> {
        let is_kept = |key: &ObjectKey| self.objects.get(key).is_some_and(|object| object.body.is_anchor());
        self.unreadable().filter(move |(key, ..)| is_kept(key)).map(|(key, _, fault)| (key, fault))
    }

    /// Returns whether the object exists but cannot be read at all.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.unusable.contains(key)
    }

    /// Returns whether nothing of the object can be read because of a field.
    pub fn is_why_unreadable(&self, key: &ObjectKey, field: &str) -> bool {
        let mut faults = self.decoding.get(key).into_iter().flatten();
        self.is_unreadable(key) && faults.any(|fault| fault.is_error() && fault.field == field)
    }

    /// Returns whether the object exists, readable or not.
    pub fn is_there(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some() || self.is_unreadable(key) || self.unread.contains(key)
    }

    /// Returns the attached routes in a version that no Envoy is known to have accepted unchanged, in order.
    pub fn unproven(&self) -> Vec<ObjectKey> {
        let is_served = |key: &ObjectKey| self.translator.route(key).is_some_and(|plan| !plan.gateways().is_empty());
        let proven = |object: &Object| {
            let known = self.scopes.last_valid(&object.key);
            known.is_some_and(|known| known.body == object.body && known.metadata.uid == object.metadata.uid)
        };
        let unproven = |object: &&Arc<Object>| is_served(&object.key) && !proven(object);
        self.objects.sorted().into_iter().filter(unproven).map(|object| object.key.clone()).collect()
    }

    /// Returns the faults in the content of an object.
    pub(crate) fn decoding_faults(&self, key: &ObjectKey) -> impl Iterator<Item = &Fault> {
        self.decoding.get(key).into_iter().flatten()
    }

    /// Returns the dependency graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns all faults, sorted and without duplicates.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.translator.faults();
        EarlierAbove::of(self).explain(&mut faults);
        faults.extend(self.decoding.values().flatten().cloned());
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// Returns the refusals in force: contents that Envoys refused and that are held back.
    pub fn refusals(&self) -> Vec<(&str, &Refusal)> {
        self.scopes.refusals().collect()
    }

    /// Returns what the checker of fallbacks closed, with the Gateway (`namespace/name`).
    pub fn objections(&self) -> Vec<(&str, &Objection)> {
        self.scopes
            .iter()
            .flat_map(|scope| scope.derived.objections.iter().map(|found| (&*scope.id.name, found)))
            .collect()
    }

    /// Returns the current configuration of a Gateway's Envoys (`namespace/name`), without those for single Envoys.
    pub fn fleet(&self, gateway: &str) -> Option<&Snapshot> {
        self.scopes.offered(gateway).map(|offers| &offers.everyone)
    }

    /// Returns the configurations that a Gateway's Envoys are offered, by audience.
    #[cfg(test)]
    pub fn offered(&self, gateway: &str) -> Option<&holdfast_xds::Offers> {
        self.scopes.offered(gateway)
    }

    /// Returns the number of answers that changed the state of a resource, and the number of Envoys of other replicas: if
    /// neither changes, the reports of other replicas changed nothing.
    pub fn answers(&self) -> (u64, usize) {
        self.scopes.answers()
    }

    /// Returns the number of times that a different fallback came into force.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    /// Returns the searches for the object to blame that ended since the last call.
    pub fn take_attributed(&mut self) -> Vec<Attributed> {
        self.scopes.take_attributed()
    }

    /// Returns the answers of this replica's Envoys, for the leader.
    pub fn observation(&self) -> Vec<ObservedScope> {
        self.scopes.observation()
    }

    /// Returns the configurations that all Envoys are offered, for followers.
    pub fn offered_to_all(&self) -> shards::OffersByScope {
        self.scopes.offered_to_all()
    }

    /// Returns whether records to store were not taken yet.
    pub fn has_records(&self) -> bool {
        self.scopes.has_records()
    }

    /// Returns the records to store since the last call: versions that were proven, configurations that were
    /// acknowledged.
    pub fn take_records(&mut self) -> Batch {
        self.scopes.take_records()
    }
}
