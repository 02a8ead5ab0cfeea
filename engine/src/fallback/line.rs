//! A line: one Gateway's Envoys of one build, and everything that is known of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::{Content, ObjectKey, Quarantine};
use holdfast_store::{Batch, Change};
use holdfast_xds::{Snapshot, Version};

use super::admission::TrialRun;
use super::around::Around;
use super::attribution::Attribution;
use super::checker;
use super::closed::Trying;
use super::derive::{Derived, derive};
use super::fairness::Fairness;
use super::following::Shared;
use super::forms::Form;
use super::last_valid::LastValid;
use super::listener_forms::ListenerForm;
use super::proof::Proof;
use super::readmission::Readmission;
use super::rollout::Stage;
use super::search::Search;
use super::strays::Stray;
use super::whole::Whole;
use super::witnesses::Witnesses;
use super::world::World;
use crate::hold::Hold;
use crate::translate::fleet::FleetId;

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) gateway: ObjectKey,
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// The Envoys' build; empty while none has told.
    pub(crate) build: Arc<str>,
    pub(crate) fleet: FleetId,
    pub(crate) quarantine: Quarantine,
    /// Which owners wait for others.
    pub(crate) fairness: Fairness,
    pub(crate) last_valid: LastValid,
    pub(crate) proof: Proof,
    pub(crate) hold: Hold,
    pub(crate) derived: Derived,
    /// Since when each broken object is.
    pub(crate) since: BTreeMap<ObjectKey, i64>,
    /// Objects whose newest version is not proven yet.
    pub(super) unpromoted: BTreeSet<ObjectKey>,
    /// Those of them that were edited, or are current again, just now.
    pub(super) edited: BTreeSet<ObjectKey>,
    /// Objects of which a refusal was counted since they were edited last, with the generation that it was of.
    pub(crate) counted: BTreeMap<ObjectKey, i64>,
    /// By resource: the acknowledged form, then the newer ones.
    pub(super) forms: BTreeMap<Arc<str>, Vec<Form>>,
    pub(super) acknowledged: BTreeMap<Arc<str>, Form>,
    /// The same of listeners.
    pub(super) listener_forms: BTreeMap<Arc<str>, Vec<ListenerForm>>,
    /// Connected Envoys, with the number of their streams.
    pub(crate) envoys: BTreeMap<Arc<str>, usize>,
    /// Those of them that are connected to other replicas.
    pub(crate) afar: BTreeSet<Arc<str>>,
    /// What the leader has shared, where another replica leads.
    pub(super) shared: Shared,
    /// What all its Envoys have, or are to have; none before anything was offered.
    pub(crate) everyone: Option<Snapshot>,
    /// What translation makes for them now, before anything of it is held back.
    pub(super) newest: Snapshot,
    /// What they should have next.
    pub(crate) wanted: Snapshot,
    /// The endpoints of now of Services that Envoys have and what they should have next does not use.
    pub(super) kept_endpoints: Snapshot,
    pub(crate) stage: Stage,
    /// What all have while what is wanted is tried; none where they have what is wanted.
    pub(super) trying: Option<Trying>,
    pub(crate) readmission: Option<Readmission>,
    pub(crate) trial: Option<TrialRun>,
    /// Verdicts that rest on the refusal of one Envoy.
    pub(crate) witnesses: Witnesses,
    /// How often an Envoy was lost on the suspects that are on trial.
    pub(crate) trial_strikes: u32,
    /// Envoys that came with nothing and have taken nothing yet, and when they came (milliseconds of Unix time).
    pub(crate) fresh: BTreeMap<Arc<str>, u64>,
    pub(crate) search: Option<Search>,
    pub(crate) attribution: Attribution,
    /// Without the gate: is everything that changed since the last valid configuration held back?
    pub(crate) whole: Whole,
    /// Refused resources that are stored, the oldest first.
    pub(crate) remembered: VecDeque<Version>,
    /// Fallbacks since the last edit.
    pub(crate) rounds: usize,
    /// Refused forms for which somebody was searched since the last edit, without sending them again.
    pub(crate) blamed: BTreeSet<Version>,
    /// Envoys that refuse what others of their build take, with their words.
    pub(crate) alone: BTreeMap<Arc<str>, String>,
    /// What they refused, and what they have meanwhile.
    pub(crate) strays: BTreeMap<Arc<str>, Stray>,
    /// Where every connected Envoy is an outlier: when these are believed, in milliseconds of Unix time.
    pub(super) outliers_until: Option<u64>,
    /// Envoys that have not answered in time, and to nothing since.
    pub(crate) silent: BTreeSet<Arc<str>>,
    /// When each Envoy answered to anything last, in milliseconds of Unix time.
    pub(super) heard_ms: BTreeMap<Arc<str>, u64>,
    /// Resources that an Envoy left without an answer while it answered to others: no other Envoy is waited for either.
    pub(super) unanswered: HashSet<Version>,
    /// When the probe counts as silent, in milliseconds of Unix time.
    pub(super) probe_until: u64,
    /// Until when the probe is not asked, in milliseconds of Unix time.
    pub(super) probe_pauses_until: u64,
    /// When the next search begins, after one that was cut short or ended while something is held, in milliseconds of
    /// Unix time.
    pub(super) search_again_at: Option<u64>,
    /// How many searches in a row have ended while something that is wanted is refused.
    pub(super) searches_in_vain: u32,
    /// When the record of searches without a culprit was last cleared, in milliseconds of Unix time.
    pub(super) forgot_blamed_ms: u64,
    /// What all Envoys had before the newest configuration.
    pub(crate) previous: Snapshot,
    /// What is to be stored soon.
    pub(super) records: Batch,
    /// What is to be stored before anything that rests on it is published.
    pub(super) convictions: Batch,
    pub(super) configuration_changed: bool,
}

impl Line {
    /// A line of which nothing is known.
    pub(crate) fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
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
            envoys: BTreeMap::new(),
            afar: BTreeSet::new(),
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
            fresh: BTreeMap::new(),
            search: None,
            attribution: Attribution::default(),
            whole: Whole::default(),
            remembered: VecDeque::new(),
            rounds: 0,
            blamed: BTreeSet::new(),
            alone: BTreeMap::new(),
            strays: BTreeMap::new(),
            outliers_until: None,
            silent: BTreeSet::new(),
            heard_ms: BTreeMap::new(),
            unanswered: HashSet::new(),
            probe_until: 0,
            probe_pauses_until: 0,
            search_again_at: None,
            searches_in_vain: 0,
            forgot_blamed_ms: 0,
            previous: Snapshot::default(),
            records: Batch::default(),
            convictions: Batch::default(),
            configuration_changed: false,
        }
    }

    /// Has no Envoy ever been known to it?
    pub(crate) fn is_nobodys(&self) -> bool {
        self.envoys.is_empty() && self.acknowledged.is_empty() && self.hold.has_acknowledged_nothing()
    }

    /// An object was deleted: nothing of it stays but what was refused.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.since.remove(key);
        self.unpromoted.remove(key);
        self.counted.remove(key);
        if self.last_valid.forget(key) {
            self.record(Change::Forget(key.clone()));
        }
    }

    /// Is the plan about an object that is gone, or that can be read again?
    pub(crate) fn has_outlived(&self, around: &Around<'_>) -> bool {
        let is_gone = |key: &ObjectKey| around.objects.get(key).is_none() && !around.unusable.contains(key);
        let broken = self.derived.broken.iter().any(|(node, why)| {
            let unreadable = why.is_unreadable() && !around.unusable.contains(&node.key);
            unreadable || is_gone(&node.key)
        });
        broken || self.derived.plan.decisions.keys().any(|node| is_gone(&node.key))
    }

    /// Derives the plan anew, and takes what comes of it on its way to the Envoys.
    pub(crate) fn settle(&mut self, around: &mut Around<'_>) {
        if !around.follows {
            self.drop_suspicions(around);
        }
        self.let_go(around);
        self.replan(around);
        let isolate = around.settings.fallback.isolate;
        if !isolate && !self.whole.held && self.hold.has_acknowledged_routes() && self.is_refused_already(around) {
            // What changed was none of what was refused.
            self.whole.held = true;
            self.replan(around);
        }
        if around.follows || !self.blame_what_is_known(around) {
            self.carry_on(around);
        }
        if self.search.is_none() && self.readmission.is_none() {
            self.attribution.end(around.now_ms);
        }
        self.search_what_is_held(around);
    }

    fn replan(&mut self, around: &mut Around<'_>) {
        let derived = self.derive(around, &BTreeSet::new(), &BTreeSet::new());
        let mut broken: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        broken.extend(self.held().into_iter().map(|(key, _)| key));
        broken.extend(around.translator.unusable_back_ends_of(&self.gateway).map(|(key, _)| key.clone()));
        self.since.retain(|key, _| broken.contains(key));
        for key in broken {
            self.since.entry(key).or_insert_with_key(|key| around.began(key));
        }
        if derived.overlay != self.derived.overlay {
            self.rounds += 1;
            *around.fallbacks += u64::from(!derived.overlay.is_empty());
        }
        around.translator.lay_over(&self.fleet, derived.overlay.clone());
        // Who is current again may have been acknowledged already, on trial.
        let before = std::mem::replace(&mut self.derived, derived);
        let freed = before.plan.decisions.into_keys().map(|node| node.key);
        self.edited.extend(freed.filter(|key| self.derived.plan.of(key).next().is_none()));
        around.translator.translate(around.objects, around.graph);
    }

    /// Takes what its fleet should have now on its way to the Envoys; what is broken is as it was.
    pub(crate) fn carry_on(&mut self, around: &mut Around<'_>) {
        let Some(mut snapshot) = around.translator.snapshot(&self.fleet).cloned() else { return };
        self.keep_unread_endpoints(&mut snapshot, around);
        self.newest = snapshot.clone();
        self.note_forms(&self.fleet.clone(), &snapshot, around.translator);
        let mut wanted = self.hold.desire(snapshot);
        self.hold.keep(|version| self.proof.was_acknowledged(version));
        self.close_in_hold(&mut wanted, around);
        self.close_in_strays(around);
        self.wanted = wanted;
        self.keep_served_endpoints(around);
        let edited = std::mem::take(&mut self.edited);
        self.promote(&edited, around);
        self.advance(around);
    }

    /// The plan for what is broken now; contents on trial count as good, and nothing stands in for what is tried apart.
    pub(crate) fn derive(
        &self,
        around: &Around<'_>,
        on_trial: &BTreeSet<Content>,
        apart: &BTreeSet<ObjectKey>,
    ) -> Derived {
        let held;
        let settings = if self.whole.held {
            // Everything that changed goes back to what was last valid, whatever the gates say.
            let mut settings = around.settings.clone();
            settings.fallback.isolate = true;
            settings.fallback.use_last_valid = true;
            settings.fallback.backfill_dependants = false;
            held = settings;
            &held
        } else {
            around.settings
        };
        let world = World {
            gateway: &self.gateway,
            settings,
            objects: around.objects,
            unusable: around.unusable,
            translator: around.translator,
            quarantine: &self.quarantine,
            fairness: &self.fairness,
            beside: (!on_trial.is_empty()).then_some(&self.derived.broken),
            queued: self.readmission.as_ref().map(Readmission::owners).unwrap_or_default(),
            last_valid: &self.last_valid,
            held: self.whole.held.then_some(&self.unpromoted),
            proof: &self.proof,
            on_trial,
            apart: Some(apart),
            since: &self.since,
            now_ms: around.now_ms,
            candidates: RefCell::default(),
        };
        let mut derived = derive(&world, around.graph);
        checker::enforce(&mut derived, &world);
        derived
    }
}
