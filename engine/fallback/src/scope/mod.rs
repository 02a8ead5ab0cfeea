//! Scope: the Envoys of one Gateway and build, with everything that is known of them; and the scopes of all Gateways.
//!
//! The module holds the state of all other modules of the fallback, and passes events to them. It does not decide by
//! itself: a decision belongs to the module of its subject. A function of another module never calls this one: it returns
//! what has to follow ([`Next`]), and [`FallbackScope::settle`] carries it out.

mod advance;
mod answers;
mod apart;
mod dispatch;
pub mod event;
mod lend;
mod outlier_fleet;
mod replicas;
pub mod scopes;
mod watchdog;
mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_graph::{Detected, ObjectKey};
use holdfast_store::Change;
use holdfast_translate::Changes;
use holdfast_translate::fleet::FleetId;

use crate::attribution::admission::{PreparedTrial, Purpose, TrialRun};
use crate::attribution::derived::derived;
use crate::attribution::envoy_trials::EnvoyTrials;
use crate::attribution::searches::Searches;
use crate::attribution::verdicts::Verdicts;
use crate::attribution::whole::Whole;
use crate::context::next::Next;
use crate::context::scope_id::ScopeId;
use crate::context::step_inputs::StepInputs;
use crate::evidence::Evidence;
use crate::evidence::records::ScopeRecords;
use crate::members::Members;
use crate::plan::derive::Derived;
use crate::plan::fairness::Fairness;
use crate::replication::following::Shared;
use crate::revocation::Revocation;
use crate::rollout::Stage;
use crate::rollout::configurations::Configurations;
use crate::rollout::unread::keep_unread_endpoints;
use crate::scope::watchdog::MeanwhileCheck;

/// Limit of the rounds of one event: each round carries out one step of `Next`, and a new plan takes five. The next event
/// continues where the limit was reached.
const ROUNDS_MAX: usize = 5_000;

/// The state of a scope.
#[derive(Debug)]
pub struct FallbackScope {
    /// The Gateway and build, and their names in translation and in the store.
    pub id: ScopeId,
    /// The Envoys.
    pub members: Members,
    /// What the Envoys acknowledged, and what that proves.
    pub evidence: Evidence,
    /// The resources that are held back after a refusal.
    pub hold: Hold,
    /// Changes that are to be stored.
    pub(crate) records: ScopeRecords,
    /// The plan in force.
    pub derived: Derived,
    /// The wait of owners for other owners.
    pub fairness: Fairness,
    /// The configurations on their way to the Envoys.
    pub configurations: Configurations,
    /// What other Envoys have while new content is tried.
    pub(crate) meanwhile: MeanwhileCheck,
    /// The stage of the rollout.
    pub stage: Stage,
    /// The verdicts, and the objects at fault.
    pub verdicts: Verdicts,
    /// The searches for objects at fault.
    pub searches: Searches,
    /// The trials of suspects on Envoys of the fleet.
    pub trials: EnvoyTrials,
    /// With the gate off: whether everything that changed since the last valid configuration is held back.
    pub whole: Whole,
    /// The state that the leader has shared, if another replica is the leader.
    pub(crate) shared: Shared,
    /// What is left after the rounds of an event; the next event continues with it.
    left: Next,
    /// Whether a refused client certificate was looked for since the last `Replan`: the first plan may lack what closes
    /// it, because the configuration in force does not contain it.
    is_identity_judged: bool,
}

impl FallbackScope {
    /// Creates a scope without any knowledge.
    pub fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
        Self {
            id: ScopeId::new(gateway, build, fleet),
            members: Members::default(),
            evidence: Evidence::default(),
            hold: Hold::default(),
            records: ScopeRecords::default(),
            derived: Derived::default(),
            fairness: Fairness::default(),
            configurations: Configurations::default(),
            meanwhile: MeanwhileCheck::default(),
            stage: Stage::Settled,
            verdicts: Verdicts::default(),
            searches: Searches::default(),
            trials: EnvoyTrials::default(),
            whole: Whole::default(),
            shared: Shared::default(),
            left: Next::Nothing,
            is_identity_judged: false,
        }
    }

    /// Checks whether no Envoy has ever belonged to the scope.
    pub(crate) fn is_unused(&self) -> bool {
        self.members.is_empty() && self.evidence.forms.acknowledged.is_empty() && self.hold.has_acknowledged_nothing()
    }

    /// Removes all state of a deleted object, except for its verdicts.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.verdicts.forget(key);
        self.evidence.promotion.unpromoted.remove(key);
        if self.evidence.last_valid.forget(key) {
            self.records.record(Change::Forget(key.clone()));
        }
    }

    /// Returns the state from which it follows what must no longer be served.
    pub(super) fn revocation<'a, 'b>(&'a self, inputs: &'a StepInputs<'b>) -> Revocation<'a, 'b> {
        Revocation {
            id: &self.id,
            evidence: &self.evidence,
            hold: &self.hold,
            derived: &self.derived,
            configurations: &self.configurations,
            is_held: self.whole.held,
            inputs,
        }
    }

    /// Closes everything that must no longer be served in the older configurations of outliers.
    pub(super) fn close_in_outliers(&mut self, inputs: &StepInputs<'_>) {
        let revocation = self.revocation(inputs);
        let older = self.members.outliers().map(|(node, outlier)| (node.clone(), revocation.closed_last(outlier)));
        for (node, last) in older.collect::<Vec<_>>() {
            self.members.replace_last(&node, last);
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

    /// Carries out what has to follow a change, and what follows from that, until nothing is left. A round translates at
    /// most once, before its step.
    pub(crate) fn settle(&mut self, next: Next, inputs: &mut StepInputs<'_>) {
        let (mut next, mut is_replanned) = (next.and(std::mem::take(&mut self.left)), false);
        for _ in 0..ROUNDS_MAX {
            if next == Next::Judge || self.awaits_translation() {
                translate(inputs);
                next = next.and(self.take_translation(inputs));
            }
            is_replanned |= next >= Next::Judge;
            next = match next {
                Next::Nothing => break,
                Next::Advance => self.advance(inputs),
                Next::Restage => self.stage_snapshot(inputs),
                Next::Judge => self.judge(inputs),
                Next::Derive => self.replan(inputs),
                Next::Replan => self.reconsider(inputs),
            };
        }
        self.left = next;
        if is_replanned {
            if self.searches.current.is_none() && self.trials.readmission.is_none() {
                self.searches.durations.end(inputs.now_ms);
            }
            self.search_what_is_held(inputs);
        }
    }

    /// Continues the rounds of an event that reached their limit; returns true if there were any.
    pub(crate) fn continue_rounds(&mut self, inputs: &mut StepInputs<'_>) -> bool {
        let is_left = self.left != Next::Nothing || self.awaits_translation();
        if is_left {
            self.settle(Next::Nothing, inputs);
        }
        is_left
    }

    /// Checks whether a module has put something into the translator and waits for the result.
    fn awaits_translation(&self) -> bool {
        self.trials.prepared.is_some() || self.configurations.awaits_endpoints()
    }

    /// Passes the results of translation to what waits for them: the endpoints to be kept, and the next trial.
    fn take_translation(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        self.configurations.read_kept_endpoints(inputs);
        let Some(PreparedTrial { node, tried, purpose, unreached }) = self.trials.prepared.take() else {
            return Next::Nothing;
        };
        let Some(offer) = unreached.or_else(|| self.trial_offer(inputs)) else { return Next::Nothing };
        match purpose {
            Purpose::Suspects => self.try_suspects(node, tried, offer, inputs),
            Purpose::SecondWitness => self.try_on_second_witness(node, tried, offer, inputs),
            Purpose::Leader { before } => {
                self.begin_trial_for_the_leader(TrialRun::new(node, tried, offer, inputs.now_ms), before);
                Next::Nothing
            }
        }
    }

    /// Drops suspicions and the hold that do not apply any longer, before the plan is derived again.
    fn reconsider(&mut self, inputs: &StepInputs<'_>) -> Next {
        if !inputs.follows {
            self.drop_suspicions(inputs);
        }
        self.release_hold(inputs);
        self.is_identity_judged = false;
        Next::Derive
    }

    /// Compares the translation of a new plan with what is known to be refused.
    fn judge(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        let isolate = inputs.settings.fallback.isolate;
        let is_identity_judged = std::mem::replace(&mut self.is_identity_judged, true);
        if !isolate && !is_identity_judged && !inputs.follows && self.convict_first_identity(inputs) {
            return Next::Derive;
        }
        if !isolate && !self.whole.held && self.hold.has_acknowledged_routes() && self.is_refused_already(inputs) {
            // None of the refused content changed.
            self.whole.held = true;
            return Next::Derive;
        }
        let blamed = if inputs.follows { None } else { self.blame_what_is_known(inputs) };
        blamed.unwrap_or(Next::Restage)
    }

    /// Derives the plan again, and puts it into force. It is translated next.
    fn replan(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        self.meanwhile.repeat();
        let derived = derived(self, inputs, &BTreeSet::new(), &BTreeSet::new());
        let mut broken = BTreeMap::<ObjectKey, bool>::new();
        let backends = inputs.translator.unusable_backends_of(&self.id.gateway).map(|(key, _)| (key.clone(), false));
        let decided = derived.broken.iter();
        let decided = decided.map(|(node, broken)| (node.key.clone(), broken.detected != Detected::Translation));
        let held = self.held().into_iter().map(|(key, _)| (key, true));
        for (key, refused) in backends.chain(decided).chain(held) {
            *broken.entry(key).or_default() |= refused;
        }
        self.verdicts.note_broken(broken, inputs);
        if derived.overlay != self.derived.overlay {
            self.searches.rounds += 1;
            *inputs.fallbacks += u64::from(!derived.overlay.is_empty());
        }
        inputs.translator.lay_over(&self.id.fleet, derived.overlay.clone());
        // An object that is current again may have been acknowledged already, on trial.
        let before = std::mem::replace(&mut self.derived, derived);
        let freed = before.plan.decisions.into_keys().map(|node| node.key);
        self.evidence.promotion.edited.extend(freed.filter(|key| self.derived.plan.of(key).next().is_none()));
        Next::Judge
    }

    /// Stages the current configuration of the fleet, with the same plan as before.
    fn stage_snapshot(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        let Some(mut snapshot) = inputs.translator.snapshot(&self.id.fleet).cloned() else { return Next::Nothing };
        keep_unread_endpoints(&self.hold, &mut snapshot, inputs);
        self.configurations.newest = snapshot.clone();
        self.evidence.note_forms(&self.hold, &self.id.fleet.clone(), &snapshot, inputs.translator);
        let mut wanted = self.hold.desire(snapshot);
        let proof = &self.evidence.proof;
        self.hold.keep(|version| proof.was_acknowledged(version) || proof.is_proven_cluster(version));
        let closed = self.revocation(inputs).close_held(&mut wanted);
        self.hold.expect(&wanted, &closed);
        self.close_in_outliers(inputs);
        self.configurations.wanted = wanted;
        self.configurations.keep_served_endpoints(&self.id.fleet, &self.members, self.trials.snapshot(), inputs);
        let edited = std::mem::take(&mut self.evidence.promotion.edited);
        self.promote(&edited, inputs);
        Next::Advance
    }
}

/// Translates what became dirty since the last call: objects, and what modules put into the translator (overlays, opened
/// fleets, endpoints to be kept, loans to listeners). Nothing else calls the translation.
pub(super) fn translate(inputs: &mut StepInputs<'_>) -> Changes {
    inputs.translator.translate(inputs.objects, inputs.graph)
}
