//! Trials of suspects on one Envoy of the fleet, group by group; `readmission.rs` selects the groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::{Content, Detected, ObjectKey};
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};

use super::readmission::{Finding, Readmission};
use super::taking_part::{self, Untried};
use super::unreached::on_trial_unreached;
use super::{accepted_versions, accused, untried_at};
use crate::attribution::derived::derived;
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::forms::Form;
use crate::evidence::subject::Subject;
use crate::rollout::answerable::answerable;
use crate::rollout::untried::has_untried_of_everyone;
use crate::rollout::{STRIKES_MAX, Stage, TRIED, Waiting, changes};
use crate::scope::FallbackScope;

/// Milliseconds during which suspects are tried on an Envoy before a newer configuration may replace the trial.
pub(crate) const TRIAL_UNDISTURBED_MS: u64 = 500;

/// A trial of suspects on one Envoy.
#[derive(Clone, Debug)]
pub struct TrialRun {
    /// The node of the Envoy.
    pub node: Arc<str>,
    /// The configuration that the Envoy is offered.
    pub snapshot: Snapshot,
    /// The resources that the Envoy has not answered yet.
    pub waiting: Waiting,
    /// The start of the trial, in milliseconds of Unix time.
    pub(crate) began_ms: u64,
    /// The time after which the Envoy counts as silent, in milliseconds of Unix time.
    pub deadline: u64,
    /// The contents on trial.
    pub contents: BTreeSet<Content>,
    /// The objects with units that are tried separately from the rest of the object.
    pub apart: BTreeSet<ObjectKey>,
    /// Whether the contents are in a host that no request reaches.
    pub(crate) is_unreached: bool,
    /// Whether the subject is already convicted, and is on trial on a second Envoy.
    pub(crate) is_second: bool,
    /// The acknowledged forms, before the trial, of the resources that the Envoy has to answer.
    pub(crate) before: Before,
}

/// The contents of a trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tried {
    /// The contents.
    pub(crate) contents: BTreeSet<Content>,
    /// The objects with contents that are tried separately from the rest of the object.
    pub(crate) apart: BTreeSet<ObjectKey>,
}

impl Tried {
    /// Returns the contents of subjects. A unit is tried separately from the rest of its object, which is closed during
    /// the trial.
    pub(crate) fn of(subjects: &[Subject]) -> Self {
        let units = subjects.iter().map(|subject| &subject.node).filter(|node| !node.section.is_empty());
        Self {
            contents: subjects.iter().flat_map(|subject| subject.contents.keys().copied()).collect(),
            apart: units.map(|node| node.key.clone()).collect(),
        }
    }
}

/// A configuration that tries contents.
#[derive(Clone, Debug)]
pub(crate) struct TrialOffer {
    /// The configuration that an Envoy is offered.
    pub(crate) snapshot: Snapshot,
    /// The resources of the configuration that the Envoy has to answer.
    pub(crate) waiting: Waiting,
    /// Whether the contents are in a host that no request reaches.
    pub(crate) is_unreached: bool,
}

/// A trial with a configuration that is not translated yet.
#[derive(Clone, Debug)]
pub(crate) struct PreparedTrial {
    /// The node of the Envoy.
    pub(crate) node: Arc<str>,
    /// The contents of the trial.
    pub(crate) tried: Tried,
    /// The purpose of the trial.
    pub(crate) purpose: Purpose,
    /// The configuration, if no translation is needed for it.
    pub(crate) unreached: Option<TrialOffer>,
}

/// The purpose of a trial.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Suspects are readmitted.
    Suspects,
    /// A verdict about a subject is confirmed by a second Envoy.
    SecondWitness,
    /// The leader requests the trial from this replica.
    Leader {
        /// The resources that the Envoy had not answered in the trial before this one.
        before: Option<Waiting>,
    },
}

impl TrialRun {
    /// Creates a trial of suspects that begins now and has no deadline.
    pub(crate) fn new(node: Arc<str>, tried: Tried, offer: TrialOffer, now_ms: u64) -> Self {
        let (Tried { contents, apart }, TrialOffer { snapshot, waiting, is_unreached }) = (tried, offer);
        Self {
            node,
            snapshot,
            waiting,
            began_ms: now_ms,
            deadline: u64::MAX,
            contents,
            apart,
            is_unreached,
            is_second: false,
            before: Before::default(),
        }
    }
}

/// Acknowledged resources; route configurations with their form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before(Vec<(ResourceType, Arc<Resource>, Option<Form>)>);

impl FallbackScope {
    /// Prepares a trial of the next group of suspects on one Envoy.
    pub(crate) fn start_trial(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        if self.trials.current.is_some() || !matches!(self.stage, Stage::Settled) {
            return Next::Nothing;
        }
        if let Some(next) = self.prepare_second_witness(inputs) {
            return next;
        }
        let is_anything_proven = self.hold.has_acknowledged_routes();
        let untried = |node: &str| has_untried_of_everyone(self, node);
        let Some(node) = self.members.candidate_for_trial(is_anything_proven, untried) else { return Next::Nothing };
        let Some(subjects) = self.trials.next(&self.fairness.budget, &self.id.gateway, inputs) else {
            self.no_subjects(inputs);
            return Next::Nothing;
        };
        if untried_at::waits_for_acceptance(self, &node, inputs) {
            return Next::Nothing;
        }
        self.prepare_trial(node, Tried::of(&subjects), Purpose::Suspects, inputs);
        Next::Nothing
    }

    /// Offers a group of suspects to one Envoy.
    pub(crate) fn try_suspects(
        &mut self,
        node: Arc<str>,
        tried: Tried,
        mut offer: TrialOffer,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        offer.waiting = answerable(&self.hold, &node, offer.waiting, &offer.snapshot);
        // With one half cleared, the other half can produce the content that was refused as a whole.
        let known = offer.waiting.iter().find_map(|((kind, name), version)| {
            let refusal = self.hold.refusal_of(*kind, name, *version)?;
            Some((*kind, name.clone(), *version, refusal.message.clone()))
        });
        let nothing_to_learn = offer.waiting.is_empty();
        self.begin_trial(TrialRun::new(node, tried, offer, inputs.now_ms), inputs);
        if let Some((kind, name, version, message)) = known {
            return self.trial_refused(Some((kind, &name, version)), &message, inputs);
        }
        self.searches.durations.round();
        // Otherwise the contents are served already, or are not part of any resource.
        if nothing_to_learn { self.trial_accepted(inputs) } else { Next::Nothing }
    }

    /// Ends the readmission if all of its suspects were tried.
    fn no_subjects(&mut self, inputs: &mut StepInputs<'_>) {
        match &self.trials.readmission {
            None => return untried_at::end_wait(self, inputs.now_ms),
            // Either the budget of refusals of the owners is used up, or no Envoy answered: a later clock event tries
            // these suspects.
            Some(readmission) if !readmission.is_done() => return,
            Some(_) => self.trials.readmission = None,
        }
        untried_at::end_wait(self, inputs.now_ms);
        inputs.translator.close(&self.id.trial_fleet());
        self.searches.durations.end(inputs.now_ms);
    }

    /// Offers the trial to an Envoy of this replica, or of another replica on request. The Envoy has to answer before a
    /// deadline.
    pub(super) fn begin_trial(&mut self, mut trial: TrialRun, inputs: &StepInputs<'_>) {
        trial.deadline = inputs.now_ms.saturating_add(inputs.settings.fallback.ack_timeout_ms);
        trial.before = self.before_trial(&trial.waiting);
        self.hold.expect(&trial.snapshot, &trial.waiting);
        self.trials.current = Some(trial);
    }

    /// Prepares a trial of these contents. The scope begins it after the translation of its configuration.
    pub(crate) fn prepare_trial(
        &mut self,
        node: Arc<str>,
        tried: Tried,
        purpose: Purpose,
        inputs: &mut StepInputs<'_>,
    ) {
        let unreached = on_trial_unreached(self, &tried, inputs);
        if unreached.is_none() {
            let fleet = self.id.trial_fleet();
            inputs.translator.open(&fleet, &self.id.fleet);
            let derived = derived(self, inputs, &tried.contents, &tried.apart);
            inputs.translator.lay_over(&fleet, derived.overlay);
        }
        self.trials.prepared = Some(PreparedTrial { node, tried, purpose, unreached });
    }

    /// Returns the translated configuration of the prepared trial.
    pub(crate) fn trial_offer(&mut self, inputs: &StepInputs<'_>) -> Option<TrialOffer> {
        let fleet = self.id.trial_fleet();
        let snapshot = inputs.translator.snapshot(&fleet).cloned()?;
        self.evidence.note_forms(&self.hold, &fleet, &snapshot, inputs.translator);
        let nothing = Snapshot::default();
        let mut waiting = Waiting::new();
        for kind in TRIED {
            let changed = changes(self.configurations.everyone.as_ref().unwrap_or(&nothing), &snapshot, kind);
            // An answer for an accepted cluster proves nothing more, so it is not expected again. Nor is an answer
            // expected for any resource that the Envoy accepted last: an Envoy that still has the resource is not sent
            // it again, and never answers.
            let unknown = changed.filter(|resource| {
                let is_taken = self.hold.is_acknowledged(kind, resource);
                let is_refused = || self.hold.refusal_of(kind, &resource.name, resource.version).is_some();
                !is_taken
                    && (kind != ResourceType::Cluster
                        || !self.evidence.is_known_good(&self.hold, kind, resource)
                        || is_refused())
            });
            waiting.extend(unknown.map(|resource| ((kind, resource.name.clone()), resource.version)));
        }
        Some(TrialOffer { snapshot, waiting, is_unreached: false })
    }

    /// Handles the acceptance of the suspects on trial.
    pub(crate) fn trial_accepted(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        let absent = taking_part::absent_from_trial(&SuspectInputs::of(self), inputs);
        if self.trials.is_second() {
            return self.second_witness_accepted(absent.is_empty(), inputs);
        }
        let is_unreached = self.trials.current.as_ref().is_some_and(|trial| trial.is_unreached);
        if absent.is_empty() && !is_unreached {
            self.trials.current = None;
        } else {
            self.end_trial();
        }
        self.trials.strikes = 0;
        let Some(readmission) = &mut self.trials.readmission else { return Next::Nothing };
        let took_part = |subject: &Subject| !subject.contents.keys().any(|content| absent.contains(content));
        if let Finding::Cleared(subjects) = readmission.accepted(took_part) {
            for content in subjects.iter().flat_map(|subject| subject.contents.keys()) {
                self.acquit(content);
            }
        }
        Next::Replan
    }

    /// Handles the refusal of the suspects on trial; `refused` is the refused resource, if it is known.
    pub(crate) fn trial_refused(
        &mut self,
        refused: Option<(ResourceType, &Arc<str>, Version)>,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        if self.trials.is_second() {
            return self.second_witness_refused(refused, inputs);
        }
        if refused.is_some_and(|refused| accepted_versions::forget_unaccepted(self, refused, inputs)) {
            self.end_trial();
            self.trials.readmission.iter_mut().for_each(Readmission::again);
            return Next::Replan;
        }
        let refuser = refused.and_then(|(kind, name, version)| self.refuser(kind, name, version));
        let is_untried = refused
            .is_some_and(|(kind, name, version)| untried_at::is_partly_untried_at_refuser(self, kind, name, version));
        let beside = refused.map(|(kind, name, version)| {
            taking_part::untried_in(&SuspectInputs::of(self), kind, name, version, inputs)
        });
        let testing = self.trials.readmission.as_ref().and_then(Readmission::testing).unwrap_or_default();
        let message = refused.map_or_else(
            || message.to_owned(),
            |(kind, name, version)| {
                accused::with_policies(&SuspectInputs::of(self), message, kind, name, version, testing, inputs)
            },
        );
        let message = message.as_str();
        self.end_trial();
        self.trials.strikes = 0;
        let Some(readmission) = &mut self.trials.readmission else { return Next::Nothing };
        let Untried { others, accused } = beside.unwrap_or_default();
        let is_accused = |content: &Content| accused.as_ref().is_none_or(|accused| accused.contains(content));
        if is_untried {
            readmission.not_answered(inputs.now_ms);
        } else if !others.is_empty() {
            let is_first = refused.is_none_or(|(_, _, version)| readmission.is_first(version));
            if !is_first {
                // Each of the two groups brings the other into its trial: neither can be tried now, and nothing is
                // convicted.
                readmission.not_answered(inputs.now_ms);
                return Next::Replan;
            }
            match readmission.is_on_trial(is_accused) {
                true => readmission.refused_with(others.clone()),
                false => readmission.refused_for(others.clone()),
            }
            self.suspect(&others, inputs);
        } else if !readmission.is_on_trial(is_accused) {
            // The refused resource holds nothing of the subjects on trial: the refusal proves nothing about them.
            readmission.not_answered(inputs.now_ms);
        } else if let Finding::Convicted(subject) = readmission.refused(is_accused) {
            match subject.units() {
                units if units.len() > 1 && !readmission.is_tied(&subject) => readmission.search_in(units),
                _ => {
                    self.convict_subject(&subject, Detected::Nack, message, inputs);
                    self.note_refuser(subject, refuser, inputs);
                }
            }
        }
        Next::Replan
    }

    /// Handles the loss or the silence of the Envoy that tries suspects. Two losses, while other Envoys answer, count
    /// as a refusal without a message. If no other Envoy answers, a loss proves nothing, and the suspects are tried
    /// later. Returns what follows if the loss counts as a refusal.
    pub(crate) fn trial_lost(&mut self, node: &str, message: &str, inputs: &mut StepInputs<'_>) -> Option<Next> {
        if self.trials.current.as_ref().is_none_or(|trial| *trial.node != *node) {
            return None;
        }
        let trial = self.end_trial()?;
        if trial.is_second {
            match self.members.is_connected(node) {
                true => self.trials.witnesses.not_answered(&trial.contents, inputs.now_ms),
                false => self.trials.witnesses.stream_ended(&trial.contents, inputs.now_ms),
            }
            return None;
        }
        self.trials.strikes += 1;
        if self.trials.strikes < STRIKES_MAX {
            return None;
        }
        if !self.members.others_answer(node) {
            // If no other Envoy answers, silence proves nothing about the suspects: other suspects are tried before
            // them.
            self.trials.strikes = 0;
            if let Some(readmission) = &mut self.trials.readmission {
                readmission.not_answered(inputs.now_ms);
            }
            return None;
        }
        for ((kind, name), version) in trial.waiting {
            self.hold.refuse_version(kind, &name, version, &self.id.build.clone(), message);
        }
        Some(self.trial_refused(None, message, inputs))
    }

    /// Returns the forms that all Envoys have acknowledged of the resources of a trial.
    pub(super) fn before_trial(&self, waiting: &Waiting) -> Before {
        let known = |(kind, name): &(ResourceType, Arc<str>)| {
            let resource = self.hold.acknowledged(*kind, name)?.clone();
            let form = self.evidence.forms.acknowledged(name).filter(|form| form.version == resource.version).cloned();
            Some((*kind, resource, form))
        };
        Before(waiting.keys().filter_map(known).collect())
    }

    /// Ends a trial without a rollout of its content. Forms that only one Envoy accepted do not count as acknowledged
    /// by all Envoys.
    pub(crate) fn end_trial(&mut self) -> Option<TrialRun> {
        let mut trial = self.trials.current.take()?;
        self.hold.expect_no_more(&trial.waiting);
        for (kind, resource, form) in std::mem::take(&mut trial.before.0) {
            let everyone =
                self.configurations.everyone.as_ref().and_then(|everyone| everyone.get(kind, &resource.name));
            if everyone.is_none_or(|everyone| everyone.version != resource.version) {
                continue;
            }
            if !self.hold.is_acknowledged(kind, &resource) {
                self.records.note_acknowledged();
                if let (ResourceType::Route, Some(form)) = (kind, form) {
                    self.evidence.forms.acknowledged.insert(resource.name.clone(), form);
                }
                self.hold.restore(kind, resource);
            }
        }
        Some(trial)
    }

    /// Checks whether there is work that only the clock triggers: suspects that have waited for their owner's turn, or
    /// wanted content that has waited for a trial.
    pub(crate) fn has_work(&self, now_ms: u64) -> bool {
        match &self.trials.current {
            None => self.trials.readmission.is_some() || self.has_verdict_to_confirm(now_ms),
            Some(_) => {
                !self.trials.is_undisturbed(now_ms)
                    && !self.configurations.unproven(&self.evidence, &self.hold).is_empty()
            }
        }
    }
}
