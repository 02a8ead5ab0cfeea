//! Scope: the Envoys of one Gateway and build, with everything that is known of them; and the scopes of all Gateways.
//!
//! The room holds the state of all other rooms, and distributes events to them. It does not decide by itself: a decision
//! belongs to the room of its subject.

mod answers;
mod dispatch;
pub mod event;
mod lend;
mod replicas;
pub mod scopes;
mod watchdog;
mod withdrawn;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_graph::{Content, ObjectKey, Quarantine};
use holdfast_store::{Batch, Change};
use holdfast_translate::fleet::FleetId;
use holdfast_xds::{Snapshot, Version};

use crate::attribution::Attribution;
use crate::attribution::admission::TrialRun;
use crate::attribution::readmission::Readmission;
use crate::attribution::search::Search;
use crate::attribution::whole::Whole;
use crate::attribution::witnesses::Witnesses;
use crate::checker;
use crate::context::step_inputs::StepInputs;
use crate::evidence::forms::Form;
use crate::evidence::last_valid::LastValid;
use crate::evidence::listener_forms::ListenerForm;
use crate::evidence::proof::Proof;
use crate::members::Members;
use crate::plan::derive::{Derived, derive};
use crate::plan::fairness::Fairness;
use crate::plan::untried::AcknowledgedRoutes;
use crate::plan::world::World;
use crate::replication::following::Shared;
use crate::revocation::Trying;
use crate::rollout::Stage;

/// The state of a scope.
#[derive(Debug)]
pub struct FallbackScope {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The Gateway as `namespace/name`.
    pub name: Arc<str>,
    /// The build of the Envoys; empty until an Envoy has reported it.
    pub build: Arc<str>,
    /// The Envoys of the Gateway in translation.
    pub fleet: FleetId,
    /// The contents that Envoys refused.
    pub quarantine: Quarantine,
    /// The wait of owners for other owners.
    pub fairness: Fairness,
    /// The last valid versions.
    pub last_valid: LastValid,
    /// The contents that Envoys acknowledged.
    pub proof: Proof,
    /// The resources that are held back after a refusal.
    pub hold: Hold,
    /// The plan in force.
    pub derived: Derived,
    /// The time since which each broken object is at fault.
    pub since: BTreeMap<ObjectKey, i64>,
    /// Objects with a newest version that is not proven yet.
    pub(crate) unpromoted: BTreeSet<ObjectKey>,
    /// Unpromoted objects that were edited, or became current again, in this step.
    pub(crate) edited: BTreeSet<ObjectKey>,
    /// Objects with a counted refusal since their last edit, with the refused generation.
    pub counted: BTreeMap<ObjectKey, i64>,
    /// The forms by resource: the acknowledged form, then the newer ones.
    pub(crate) forms: BTreeMap<Arc<str>, Vec<Form>>,
    pub(crate) acknowledged: BTreeMap<Arc<str>, Form>,
    /// The forms of listeners by resource.
    pub(crate) listener_forms: BTreeMap<Arc<str>, Vec<ListenerForm>>,
    /// The Envoys.
    pub members: Members,
    /// The state that the leader has shared, if another replica is the leader.
    pub(crate) shared: Shared,
    /// The configuration that all Envoys have, or are offered; `None` before the first offer.
    pub everyone: Option<Snapshot>,
    /// The newest configuration from translation, before any part of it is held back.
    pub(crate) newest: Snapshot,
    /// The configuration that the Envoys should have next.
    pub wanted: Snapshot,
    /// Current endpoints of Services that Envoys use and the next configuration does not use.
    pub(crate) kept_endpoints: Snapshot,
    /// The stage of the rollout.
    pub stage: Stage,
    /// The configuration of all Envoys while the wanted one is tried; `None` if they have the wanted one.
    pub(crate) trying: Option<Trying>,
    /// The trial of contents that were refused earlier.
    pub readmission: Option<Readmission>,
    /// The trial on a probe or a canary.
    pub trial: Option<TrialRun>,
    /// Verdicts that depend on the refusal of one Envoy.
    pub witnesses: Witnesses,
    /// The number of times that an Envoy was lost while it tried the suspects on trial.
    pub(crate) trial_strikes: u32,
    /// The search for the refused content.
    pub search: Option<Search>,
    /// The attribution of the last refusal.
    pub attribution: Attribution,
    /// With the gate off: whether everything that changed since the last valid configuration is held back.
    pub whole: Whole,
    /// Refused resources that are stored, the oldest first.
    pub remembered: VecDeque<Version>,
    /// The number of fallbacks since the last edit.
    pub rounds: usize,
    /// Refused forms with a search since the last edit, without sending the forms again.
    pub blamed: BTreeSet<Version>,
    /// Resources that an Envoy left without an answer while it answered other resources: no answer of another Envoy
    /// about them is awaited either.
    pub(crate) unanswered: HashSet<Version>,
    /// The time at which the probe counts as silent, in milliseconds of Unix time.
    pub(crate) probe_until: u64,
    /// The time until which the probe is not used, in milliseconds of Unix time.
    pub(crate) probe_pauses_until: u64,
    /// The start of the next search, after one that was interrupted or that ended while a resource is held, in
    /// milliseconds of Unix time.
    pub(crate) search_again_at: Option<u64>,
    /// The number of consecutive searches that ended while a wanted resource is refused.
    pub(crate) failed_searches: u32,
    /// The time at which the record of searches without a culprit was last cleared, in milliseconds of Unix time.
    pub(crate) forgot_blamed_ms: u64,
    /// The configuration of all Envoys before the newest one.
    pub previous: Snapshot,
    /// Changes that are to be stored soon.
    pub(crate) records: Batch,
    /// Changes that are to be stored before anything that depends on them is published.
    pub(crate) convictions: Batch,
    pub(crate) configuration_changed: bool,
}

impl FallbackScope {
    /// Creates a scope without any knowledge.
    pub fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
        Self {
            gateway: gateway.clone(),
            name: gateway.namespaced_name().into(),
            build: build.clone(),
            fleet,
            quarantine: Quarantine::new(),
            fairness: Fairness::default(),
            last_valid: LastValid::default(),
            proof: Proof::default(),
            hold: Hold::default(),
            derived: Derived::default(),
            since: BTreeMap::new(),
            unpromoted: BTreeSet::new(),
            edited: BTreeSet::new(),
            counted: BTreeMap::new(),
            forms: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            listener_forms: BTreeMap::new(),
            members: Members::default(),
            shared: Shared::default(),
            everyone: None,
            newest: Snapshot::default(),
            kept_endpoints: Snapshot::default(),
            wanted: Snapshot::default(),
            stage: Stage::Settled,
            trying: None,
            readmission: None,
            trial: None,
            witnesses: Witnesses::default(),
            trial_strikes: 0,
            search: None,
            attribution: Attribution::default(),
            whole: Whole::default(),
            remembered: VecDeque::new(),
            rounds: 0,
            blamed: BTreeSet::new(),
            unanswered: HashSet::new(),
            probe_until: 0,
            probe_pauses_until: 0,
            search_again_at: None,
            failed_searches: 0,
            forgot_blamed_ms: 0,
            previous: Snapshot::default(),
            records: Batch::default(),
            convictions: Batch::default(),
            configuration_changed: false,
        }
    }

    /// Checks whether no Envoy has ever belonged to the scope.
    pub(crate) fn is_unused(&self) -> bool {
        self.members.is_empty() && self.acknowledged.is_empty() && self.hold.has_acknowledged_nothing()
    }

    /// Removes all state of a deleted object, except for its verdicts.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.since.remove(key);
        self.unpromoted.remove(key);
        self.counted.remove(key);
        if self.last_valid.forget(key) {
            self.record(Change::Forget(key.clone()));
        }
    }

    /// Checks whether the plan contains an object that was deleted, or that can be read again.
    pub(crate) fn has_outlived(&self, inputs: &StepInputs<'_>) -> bool {
        let is_gone = |key: &ObjectKey| inputs.objects.get(key).is_none() && !inputs.unusable.contains(key);
        let broken = self.derived.broken.iter().any(|(node, why)| {
            let unreadable = why.is_unreadable() && !inputs.unusable.contains(&node.key);
            unreadable || is_gone(&node.key)
        });
        broken || self.derived.plan.decisions.keys().any(|node| is_gone(&node.key))
    }

    /// Derives the plan again, and advances its configuration on the way to the Envoys.
    pub(crate) fn reconcile(&mut self, inputs: &mut StepInputs<'_>) {
        if !inputs.follows {
            self.drop_suspicions(inputs);
        }
        self.release_hold(inputs);
        self.replan(inputs);
        let isolate = inputs.settings.fallback.isolate;
        if !isolate && !self.whole.held && self.hold.has_acknowledged_routes() && self.is_refused_already(inputs) {
            // None of the refused content changed.
            self.whole.held = true;
            self.replan(inputs);
        }
        if inputs.follows || !self.blame_what_is_known(inputs) {
            self.stage_snapshot(inputs);
        }
        if self.search.is_none() && self.readmission.is_none() {
            self.attribution.end(inputs.now_ms);
        }
        self.search_what_is_held(inputs);
    }

    fn replan(&mut self, inputs: &mut StepInputs<'_>) {
        let derived = self.derive(inputs, &BTreeSet::new(), &BTreeSet::new());
        let mut broken: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        broken.extend(self.held().into_iter().map(|(key, _)| key));
        broken.extend(inputs.translator.unusable_backends_of(&self.gateway).map(|(key, _)| key.clone()));
        self.since.retain(|key, _| broken.contains(key));
        for key in broken {
            self.since.entry(key).or_insert_with_key(|key| inputs.began(key));
        }
        if derived.overlay != self.derived.overlay {
            self.rounds += 1;
            *inputs.fallbacks += u64::from(!derived.overlay.is_empty());
        }
        inputs.translator.lay_over(&self.fleet, derived.overlay.clone());
        // An object that is current again may have been acknowledged already, on trial.
        let before = std::mem::replace(&mut self.derived, derived);
        let freed = before.plan.decisions.into_keys().map(|node| node.key);
        self.edited.extend(freed.filter(|key| self.derived.plan.of(key).next().is_none()));
        inputs.translator.translate(inputs.objects, inputs.graph);
    }

    /// Advances the current configuration of the fleet on the way to the Envoys, with the same plan as before.
    pub(crate) fn stage_snapshot(&mut self, inputs: &mut StepInputs<'_>) {
        let Some(mut snapshot) = inputs.translator.snapshot(&self.fleet).cloned() else { return };
        self.keep_unread_endpoints(&mut snapshot, inputs);
        self.newest = snapshot.clone();
        self.note_forms(&self.fleet.clone(), &snapshot, inputs.translator);
        let mut wanted = self.hold.desire(snapshot);
        self.hold.keep(|version| self.proof.was_acknowledged(version));
        self.close_in_hold(&mut wanted, inputs);
        self.close_in_outliers(inputs);
        self.wanted = wanted;
        self.keep_served_endpoints(inputs);
        let edited = std::mem::take(&mut self.edited);
        self.promote(&edited, inputs);
        self.advance(inputs);
    }

    /// Derives the plan for the current state. Contents on trial count as good, and no stand-in version replaces
    /// objects that are tried separately.
    pub fn derive(
        &self,
        inputs: &StepInputs<'_>,
        on_trial: &BTreeSet<Content>,
        apart: &BTreeSet<ObjectKey>,
    ) -> Derived {
        let held;
        let settings = if self.whole.held {
            // All changes go back to last valid versions, regardless of the gates.
            let mut settings = inputs.settings.clone();
            settings.fallback.isolate = true;
            settings.fallback.use_last_valid = true;
            settings.fallback.backfill_dependants = false;
            held = settings;
            &held
        } else {
            inputs.settings
        };
        let world = World {
            gateway: &self.gateway,
            settings,
            objects: inputs.objects,
            unusable: inputs.unusable,
            translator: inputs.translator,
            quarantine: &self.quarantine,
            fairness: &self.fairness,
            beside: (!on_trial.is_empty()).then_some(&self.derived.broken),
            queued: self.readmission.as_ref().map(Readmission::owners).unwrap_or_default(),
            last_valid: &self.last_valid,
            held: self.whole.held.then_some(&self.unpromoted),
            acknowledged: AcknowledgedRoutes::new(&self.acknowledged),
            proof: &self.proof,
            on_trial,
            apart: Some(apart),
            since: &self.since,
            now_ms: inputs.now_ms,
            candidates: RefCell::default(),
        };
        let mut derived = derive(&world, inputs.graph);
        checker::enforce(&mut derived, &world);
        derived
    }
}
