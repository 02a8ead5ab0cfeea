//! Second witnesses: a verdict about content that one Envoy refused has that Envoy as its only witness, until another
//! Envoy of the build has refused the content as well.
//!
//! The verdict is in force meanwhile, so that clients are served the fallback. The subject is tried on a second Envoy
//! as soon as there is one. A refusal confirms the verdict. An acknowledgement voids it, and the first Envoy is an
//! outlier, so that every other verdict with that Envoy as the only witness is void too. Content on which an Envoy
//! died, or which it did not answer, is tried on no second Envoy.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node};
use holdfast_store::Change;
use holdfast_xds::{Answer, ResourceType, Snapshot, Version};

use super::admission::{Purpose, TrialOffer, TrialRun, Tried};
use super::readmission::{PARKED_DOUBLINGS, PARKED_MS};
use super::taking_part::{self, Untried};
use super::{blame, untried_at};
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::{Subject, owners};
use crate::rollout::answerable::answerable;
use crate::rollout::untried::has_untried_of_everyone;
use crate::scope::FallbackScope;

/// Limit of verdicts of one Gateway and build that are known to depend on one Envoy; beyond the limit, the oldest one
/// counts as confirmed.
pub(crate) const LONE_VERDICTS_MAX: usize = 4_096;
/// The number of ended streams of second Envoys on a subject after which the verdict counts as confirmed.
const STREAMS_ENDED_MAX: u32 = 2;

/// The Envoy that refused content before its conviction, with the refusal.
#[derive(Clone, Debug)]
pub(crate) struct Refuser {
    node: Arc<str>,
    slot: (ResourceType, Arc<str>),
    version: Version,
    message: String,
}

/// A verdict that depends on one Envoy.
#[derive(Clone, Debug)]
struct Lone {
    subject: Subject,
    refuser: Refuser,
    /// The earliest time of a trial on a second Envoy, in milliseconds of Unix time.
    not_before_ms: u64,
    unanswered: u32,
    streams_ended: u32,
    /// Refusals of second Envoys that proved nothing about the subject: no such Envoy is sent that version again.
    refused: BTreeSet<(Arc<str>, Version)>,
}

/// The verdicts that depend on one Envoy, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    lone: VecDeque<Lone>,
}

impl Lone {
    fn is_about(&self, contents: &BTreeSet<Content>) -> bool {
        self.subject.contents.keys().eq(contents)
    }
}

impl Witnesses {
    fn note(&mut self, subject: Subject, refuser: Refuser, now_ms: u64) {
        self.lone.retain(|lone| lone.subject.contents != subject.contents);
        self.lone.push_back(Lone {
            subject,
            refuser,
            not_before_ms: now_ms,
            unanswered: 0,
            streams_ended: 0,
            refused: BTreeSet::new(),
        });
        if self.lone.len() > LONE_VERDICTS_MAX {
            self.lone.pop_front();
        }
    }

    fn of(&self, contents: &BTreeSet<Content>) -> Option<&Lone> {
        self.lone.iter().find(|lone| lone.is_about(contents))
    }

    /// Returns the convicted subject with these contents, if its verdict depends on one Envoy.
    pub(super) fn subject(&self, contents: &BTreeSet<Content>) -> Option<&Subject> {
        self.of(contents).map(|lone| &lone.subject)
    }

    fn take(&mut self, contents: &BTreeSet<Content>) -> Option<Lone> {
        let at = self.lone.iter().position(|lone| lone.is_about(contents))?;
        self.lone.remove(at)
    }

    /// Removes and returns the verdicts that depend on one of these Envoys.
    fn take_of(&mut self, is_outlier: impl Fn(&str) -> bool) -> Vec<Lone> {
        let (void, lone) = std::mem::take(&mut self.lone).into_iter().partition(|lone| is_outlier(&lone.refuser.node));
        self.lone = lone;
        let void: VecDeque<Lone> = void;
        void.into()
    }

    /// Handles a second Envoy that has not answered: this Envoy, or another one, tries the subject again later.
    pub(crate) fn not_answered(&mut self, contents: &BTreeSet<Content>, now_ms: u64) {
        let Some(mut lone) = self.take(contents) else { return };
        lone.not_before_ms = now_ms.saturating_add(PARKED_MS << lone.unanswered.min(PARKED_DOUBLINGS));
        lone.unanswered = lone.unanswered.saturating_add(1);
        self.lone.push_back(lone);
    }

    /// Records that the second Envoy refused a resource, which proves nothing about the subject.
    fn refused_beside(&mut self, contents: &BTreeSet<Content>, node: &Arc<str>, version: Version) {
        if let Some(lone) = self.lone.iter_mut().find(|lone| lone.is_about(contents)) {
            lone.refused.insert((node.clone(), version));
        }
    }

    /// Handles the end of the second Envoy's stream during the trial: content can end an Envoy.
    pub(crate) fn stream_ended(&mut self, contents: &BTreeSet<Content>, now_ms: u64) {
        self.not_answered(contents, now_ms);
        if let Some(lone) = self.lone.back_mut().filter(|lone| lone.is_about(contents)) {
            lone.streams_ended += 1;
            if lone.streams_ended >= STREAMS_ENDED_MAX {
                self.lone.pop_back();
            }
        }
    }
}

impl FallbackScope {
    /// Returns the only Envoy that refused a form, with its message; `None` if the probe refused the form, or if an
    /// Envoy was lost on it.
    pub(crate) fn refuser(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> Option<Refuser> {
        let refusal = self.hold.refusal_of(kind, name, version)?;
        let slot = (kind, name.clone());
        let is_known = !refusal.is_confirmed() && self.members.is_connected(&refusal.node);
        is_known.then(|| Refuser { node: refusal.node.clone(), slot, version, message: refusal.message.clone() })
    }

    /// Records the Envoy with the refusal for which a subject was convicted.
    pub(super) fn note_refuser(&mut self, subject: Subject, refuser: Option<Refuser>, inputs: &StepInputs<'_>) {
        if let Some(refuser) = refuser {
            self.trials.witnesses.note(subject, refuser, inputs.now_ms);
        }
    }

    /// Checks whether there is a verdict that a second Envoy can try now.
    pub(super) fn has_verdict_to_confirm(&self, now_ms: u64) -> bool {
        self.next_lone(now_ms).is_some()
    }

    /// Returns the verdict to be confirmed next, and the Envoy for it: the owner with the fewest recent refusals comes
    /// first.
    fn next_lone(&self, now_ms: u64) -> Option<(&Lone, Arc<str>)> {
        let budget = &self.fairness.budget;
        let used = |lone: &Lone| {
            let subjects = std::slice::from_ref(&lone.subject);
            owners(subjects).iter().try_fold(0, |most, owner| {
                budget.wait_until(owner, now_ms).is_none().then(|| budget.used(owner, now_ms).max(most))
            })
        };
        let due = self.trials.witnesses.lone.iter().filter(|lone| lone.not_before_ms <= now_ms);
        // If the refuser is the only Envoy, no budget is computed.
        let able = due.filter_map(|lone| Some((lone, self.second_witness(&lone.refuser.node)?)));
        let affordable = able.filter_map(|(lone, node)| Some((used(lone)?, lone, node)));
        let (_, lone, node) = affordable.min_by_key(|(used, ..)| *used)?;
        Some((lone, node))
    }

    /// Returns an Envoy of the build that has the proven configuration, other than the one that refused.
    fn second_witness(&self, refuser: &str) -> Option<Arc<str>> {
        let untried = |node: &str| has_untried_of_everyone(self, node);
        self.members.candidate_for_second_witness(refuser, self.hold.has_acknowledged_routes(), untried)
    }

    /// Prepares a trial of a subject that one Envoy refused on a second one; returns what follows if the state changed.
    pub(super) fn prepare_second_witness(&mut self, inputs: &mut StepInputs<'_>) -> Option<Next> {
        if inputs.follows || !inputs.settings.fallback.isolate {
            return None;
        }
        if self.void_of_outliers() {
            return Some(Next::Replan);
        }
        while let Some((lone, node)) = self.next_lone(inputs.now_ms) {
            let subject = lone.subject.clone();
            if untried_at::waits_for_acceptance(self, &node, inputs) {
                return None;
            }
            let contents: BTreeSet<Content> = subject.contents.keys().copied().collect();
            if !self.is_lone_verdict(&subject, inputs) {
                self.trials.witnesses.take(&contents);
                continue;
            }
            if blame::is_replacement(&self.id.fleet, &subject, inputs) {
                // The unit stays closed in another way: no second Envoy has to refuse that.
                self.trials.witnesses.not_answered(&contents, inputs.now_ms);
                continue;
            }
            self.prepare_trial(node, Tried::of(&[subject]), Purpose::SecondWitness, inputs);
            return Some(Next::Nothing);
        }
        None
    }

    /// Offers a subject that one Envoy refused to a second one, or prepares another trial if this one can prove nothing.
    pub(crate) fn try_on_second_witness(
        &mut self,
        node: Arc<str>,
        tried: Tried,
        mut offer: TrialOffer,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        offer.waiting = answerable(&self.hold, &node, offer.waiting, &offer.snapshot);
        let has_refused = |version: &Version| {
            let lone = self.trials.witnesses.of(&tried.contents);
            lone.is_some_and(|lone| lone.refused.contains(&(node.clone(), *version)))
        };
        if offer.waiting.is_empty() || offer.waiting.values().any(has_refused) {
            // The subject is not part of any current offer, or only of one with content that this Envoy refuses.
            self.trials.witnesses.not_answered(&tried.contents, inputs.now_ms);
            return self.start_trial(inputs);
        }
        let trial = TrialRun::new(node, tried, offer, inputs.now_ms);
        self.begin_trial(TrialRun { is_second: true, ..trial }, inputs);
        Next::Nothing
    }

    /// Checks whether a subject is desired in its convicted form, by a verdict that still holds.
    fn is_lone_verdict(&self, subject: &Subject, inputs: &StepInputs<'_>) -> bool {
        let is_convicted =
            |content| self.verdicts.quarantine.get(content).is_some_and(|v| v.detected == Detected::Nack);
        let certificates = || inputs.translator.certificates(&self.id.gateway);
        let is_certificate = || {
            let is_it = |(content, node): (&Content, &Node)| certificates().get(&node.key) == Some(content);
            subject.contents.iter().all(is_it)
        };
        subject.contents.keys().any(is_convicted)
            && (is_certificate() || blame::is_made(&self.id.fleet, subject, &self.derived.overlay, inputs))
    }

    /// Ends the trial on a second Envoy if its subject was edited: there is nothing to be confirmed.
    pub(super) fn drop_void_second_trial(&mut self, inputs: &StepInputs<'_>) {
        let Some(trial) = self.trials.current.as_ref().filter(|trial| trial.is_second) else { return };
        let contents = trial.contents.clone();
        let is_there =
            self.trials.witnesses.of(&contents).is_some_and(|lone| self.is_lone_verdict(&lone.subject, inputs));
        if !is_there {
            self.trials.witnesses.take(&contents);
            self.end_trial();
        }
    }

    /// Removes the first refusal of a form that the second Envoy accepts: that refusal proves nothing about the form.
    pub(crate) fn pardon_what_a_second_witness_takes(&mut self, answer: &Answer, name: &Arc<str>, version: Version) {
        let slot = (answer.kind, name.clone());
        let takes = self.trials.current.as_ref().is_some_and(|trial| {
            trial.is_second && *trial.node == *answer.node && trial.waiting.get(&slot) == Some(&version)
        });
        if takes {
            self.pardon(&slot, version);
        }
    }

    /// Removes the other refusals of an outlier as well, so that these resources may be offered to other Envoys. The
    /// outlier itself is not sent them again.
    fn pardon_refused_by(&mut self, node: &Arc<str>, last: &Snapshot) {
        let is_alone = |(kind, name): &(ResourceType, Arc<str>), version| {
            self.hold.refusal_of(*kind, name, version).is_some_and(|refusal| !refusal.is_confirmed())
        };
        let refused = self.hold.refused_by(node).into_iter().filter(|(slot, version, _)| is_alone(slot, *version));
        for (slot, version, message) in refused.collect::<Vec<_>>() {
            self.members.keeps(node, slot.clone(), version, &message, last);
            self.pardon(&slot, version);
        }
    }

    fn pardon(&mut self, slot: &(ResourceType, Arc<str>), version: Version) {
        self.hold.pardon(slot, version);
        self.forget_refused(version);
    }

    fn forget_refused(&mut self, version: Version) {
        if self.verdicts.forget_refused(version) {
            self.records.record(Change::Acquit(self.id.stored(), *version.as_bytes()));
        }
    }

    /// Handles a second Envoy that accepted everything it was offered. This proves nothing if the subject was not part
    /// of it.
    pub(super) fn second_witness_accepted(&mut self, took_part: bool, inputs: &mut StepInputs<'_>) -> Next {
        let is_unreached = self.trials.current.as_ref().is_some_and(|trial| trial.is_unreached);
        let trial = if took_part && !is_unreached { self.trials.current.take() } else { self.end_trial() };
        let Some(trial) = trial else { return Next::Nothing };
        inputs.translator.close(&self.id.trial_fleet());
        if !took_part {
            self.trials.witnesses.not_answered(&trial.contents, inputs.now_ms);
        } else if let Some(lone) = self.trials.witnesses.take(&trial.contents) {
            let Refuser { node, slot, version, message } = &lone.refuser;
            if self.members.is_connected(node) {
                let last = self.configurations.everyone.clone().unwrap_or_default();
                self.members.keeps(node, slot.clone(), *version, message, &last);
                self.pardon_refused_by(node, &last);
            }
            self.void(&lone);
            self.void_of_outliers();
        }
        Next::Replan
    }

    /// Handles a second Envoy that refused as well: the verdict is confirmed, unless the refused resource contains
    /// other new content.
    pub(super) fn second_witness_refused(
        &mut self,
        refused: Option<(ResourceType, &Arc<str>, Version)>,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        let is_untried = refused
            .is_some_and(|(kind, name, version)| untried_at::is_partly_untried_at_refuser(self, kind, name, version));
        let untried = refused.map(|(kind, name, version)| {
            taking_part::untried_in(&SuspectInputs::of(self), kind, name, version, inputs)
        });
        let on_trial = self.trials.testing().iter().flat_map(|subject| subject.contents.keys());
        let proves_nothing = is_untried
            || untried.is_some_and(|Untried { others, accused }| {
                !others.is_empty()
                    || accused.is_some_and(|accused| !on_trial.clone().any(|content| accused.contains(content)))
            });
        let Some(trial) = self.end_trial() else { return Next::Nothing };
        inputs.translator.close(&self.id.trial_fleet());
        if proves_nothing {
            if let Some((_, _, version)) = refused {
                self.trials.witnesses.refused_beside(&trial.contents, &trial.node, version);
            }
            self.trials.witnesses.not_answered(&trial.contents, inputs.now_ms);
        } else {
            self.trials.witnesses.take(&trial.contents);
        }
        Next::Replan
    }

    /// Removes the refusals of an outlier that gets a scope of its own: other Envoys may be offered these contents.
    pub(crate) fn forget_refusals_of(&mut self, node: &str) {
        self.void_of_outliers();
        for (_, version) in self.hold.forget_refuser(node) {
            self.forget_refused(version);
        }
    }

    /// Voids the verdicts that depend on an Envoy which refuses what others accept; returns true if there were any.
    fn void_of_outliers(&mut self) -> bool {
        let void = self.trials.witnesses.take_of(|node| self.members.is_outlier(node));
        void.iter().for_each(|lone| self.void(lone));
        !void.is_empty()
    }

    fn void(&mut self, lone: &Lone) {
        lone.subject.contents.keys().for_each(|content| self.acquit(content));
        self.pardon(&lone.refuser.slot, lone.refuser.version);
    }
}
