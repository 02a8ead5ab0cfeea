//! Deadlines: the clock ends every wait of a scope, with or without an answer.
//!
//! - Answers of the probe: `PROBE_SILENT_MS_MAX` after its last answer, the probe counts as absent for
//!   `PROBE_PAUSE_MS`; contents are tried on one Envoy meanwhile.
//! - An interrupted search on the probe: the search begins again after `PROBE_PAUSE_MS`.
//! - Answers of the Envoy that tries new content: `--ack-timeout`. The wait for an Envoy that answers other resources
//!   is not extended. A silent Envoy has that time twice; then another Envoy that answers tries the content, and
//!   without such an Envoy the new content is suspected.
//! - Answers of an Envoy that tries suspects, or that is the second witness: `--ack-timeout`; then the suspects are
//!   tried in halves, and again later (`readmission.rs`, `witnesses.rs`).
//! - An Envoy that connected without a configuration and accepts no routes: `--ack-timeout`; then suspects are tried on
//!   it as on any other Envoy.
//! - Suspects of an owner with a used-up budget of refusals: until the budget refills (`budget.rs`).
//! - An Envoy that refused a resource for a reason of its host: at most 30 seconds (`hold/unavailable.rs`).
//!
//! A follower waits for the leader or for the end of the leader's Lease, and serves no new content before.

use std::sync::Arc;

use holdfast_xds::ResourceType;

use super::FallbackScope;
use crate::attribution::blame::{self, BLAMED};
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::rollout::{Stage, Waiting};

/// Limit of resources that one Envoy left without an answer while it answered others; beyond the limit, all are
/// forgotten.
const UNANSWERED_MAX: usize = 4_096;

/// The check of the configuration that all other Envoys have while one Envoy, or the probe, tries new content.
///
/// The check decodes whole route configurations, and each event comes with a clock event. It is therefore repeated only
/// after an event that can change its result, and when the new content has had its time.
#[derive(Debug, Default)]
pub(crate) struct MeanwhileCheck {
    /// Whether the new content had had its time at the last check; `None` if the result may have changed since.
    was_late: Option<bool>,
}

impl MeanwhileCheck {
    /// Handles an event after which other routes may have to be closed.
    pub(crate) fn repeat(&mut self) {
        self.was_late = None;
    }

    /// Records a check at this time; returns false if its result is known from the last one.
    fn begin(&mut self, is_late: bool) -> bool {
        self.was_late.replace(is_late) != Some(is_late)
    }
}

impl FallbackScope {
    /// Returns all current waits with their latest ends, in milliseconds of Unix time.
    ///
    /// A new stage does not compile before it has a deadline here.
    pub fn waits(&self) -> Vec<(&'static str, u64)> {
        let stage = match &self.stage {
            // There is no wait; or the wait is for the leader, see the module documentation.
            Stage::Settled | Stage::Following => None,
            Stage::Probing { until_ms } => Some(("the probe", *until_ms)),
            Stage::Canary { deadline, .. } => Some(("the Envoy that tries what is new", *deadline)),
        };
        let trial = self.trials.current.as_ref().filter(|trial| trial.deadline != u64::MAX);
        let trial = trial.map(|trial| ("the Envoy that tries suspects", trial.deadline));
        let again = self.searches.again_at().map(|at| ("the next search", at));
        let outliers =
            self.members.outliers_until_ms().map(|at| ("an Envoy that takes what all that are connected refuse", at));
        let pause = self.members.pause_until_ms().map(|at| ("the end of a pause of an Envoy that refuses content", at));
        stage.into_iter().chain(trial).chain(again).chain(outliers).chain(pause).collect()
    }

    /// Schedules the next search if a wanted resource was refused and no search for the object at fault is in progress.
    /// Without this, an edit of any owner would wait for an edit of the owner at fault.
    pub(super) fn search_what_is_held(&mut self, inputs: &StepInputs<'_>) {
        let is_held = BLAMED.into_iter().any(|kind| !self.hold.refused_now(kind).is_empty());
        if !is_held {
            self.searches.note_nothing_held();
        }
        let is_searched = self.searches.current.is_some() || self.trials.readmission.is_some();
        if is_held && !is_searched && !self.whole.held && !inputs.follows && inputs.settings.fallback.isolate {
            self.searches.search_held_again(inputs.now_ms);
        }
    }

    /// Ends overdue waits for the probe; returns true if there were any.
    pub(super) fn watch_probe(&mut self, inputs: &mut StepInputs<'_>) -> bool {
        let now_ms = inputs.now_ms;
        let is_silent = matches!(self.stage, Stage::Probing { until_ms } if until_ms <= now_ms);
        if is_silent {
            self.stage = Stage::Settled;
            self.searches.pause_probe(now_ms);
        }
        let is_over = self.searches.is_due(now_ms) | is_silent;
        if is_over {
            self.searches.begin_again(now_ms);
            self.settle(Next::Replan, inputs);
        }
        is_over
    }

    /// Closes, at all other Envoys, everything that must no longer be served while one Envoy tries new content. Returns
    /// true if this changed something.
    pub(super) fn close_while_waiting(&mut self, inputs: &StepInputs<'_>) -> bool {
        if self.stage == Stage::Settled {
            return false;
        }
        let Some(mut everyone) = self.configurations.everyone.clone() else { return false };
        let is_late = self.configurations.is_late(inputs.settings.fallback.ack_timeout_ms, inputs.now_ms);
        if !self.meanwhile.begin(is_late) {
            return false;
        }
        let closed = self.revocation(inputs).close_meanwhile(&mut everyone);
        self.hold.expect_meanwhile(&everyone, &closed);
        self.configurations.everyone = Some(everyone);
        !closed.is_empty()
    }

    /// Counts Envoys that connected without a configuration like the others once their time to accept one has passed;
    /// returns true if there were any.
    pub(super) fn watch_fresh(&mut self, inputs: &mut StepInputs<'_>) -> bool {
        let patience = inputs.settings.fallback.ack_timeout_ms;
        let any = self.members.end_waits_for_first_answers(inputs.now_ms, patience);
        if any {
            let next = self.start_trial(inputs);
            self.settle(next, inputs);
        }
        any
    }

    /// Ends the time in which a fleet of outliers waits for another Envoy; returns true if it has ended.
    pub(super) fn watch_outlier_fleet(&mut self, inputs: &mut StepInputs<'_>) -> bool {
        let next = self.watch_outliers(inputs);
        next.into_iter().for_each(|next| self.settle(next, inputs));
        next.is_some()
    }

    /// Handles an Envoy that has not answered in time an offer that only it was sent.
    pub(super) fn overdue(&mut self, node: &Arc<str>, message: &str, inputs: &mut StepInputs<'_>) {
        let began_ms = match (&self.stage, &self.trials.current) {
            (Stage::Canary { began_ms, .. }, _) => *began_ms,
            (_, Some(trial)) => trial.began_ms,
            _ => return,
        };
        if !self.members.has_answered_since(node, began_ms) {
            self.members.fell_silent(node);
            return self.lost(node, message, inputs);
        }
        // The Envoy answers other resources: it is not going to answer this one.
        if let Stage::Canary { waiting, .. } = &self.stage {
            if self.evidence.unanswered.len().saturating_add(waiting.len()) > UNANSWERED_MAX {
                self.evidence.unanswered.clear();
            }
            self.evidence.unanswered.extend(waiting.values());
            self.stage = Stage::Settled;
            return self.settle(Next::Advance, inputs);
        }
        let Some(trial) = self.end_trial() else { return };
        self.trials.not_answered(&trial, inputs.now_ms);
        self.settle(Next::Replan, inputs);
    }

    /// Suspects new content on which the only Envoy ended twice, or was silent for twice its time. The Envoy is then
    /// offered the proven configuration, and tries the new content again part by part.
    pub(super) fn suspect_unanswered(
        &mut self,
        waiting: &Waiting,
        is_there: bool,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        self.stage = Stage::Settled;
        if !inputs.settings.fallback.isolate {
            if !is_there {
                self.hold_as_a_whole(inputs);
                return Next::Replan;
            }
            return self.release(inputs);
        }
        let others = waiting.iter().filter(|((kind, _), _)| *kind != ResourceType::Secret);
        let first = others.clone().next().map(|((kind, _), _)| *kind);
        let mut subjects = Vec::new();
        for ((kind, name), version) in others.filter(|((kind, _), _)| Some(*kind) == first) {
            for subject in blame::subjects_of(&SuspectInputs::of(self), *kind, name, *version, inputs) {
                if !subjects.contains(&subject) {
                    subjects.push(subject);
                }
            }
        }
        if subjects.is_empty() {
            return self.release(inputs);
        }
        self.searches.durations.begin(inputs.now_ms);
        self.suspect(&subjects, inputs);
        self.trials.readmission.get_or_insert_default().add(subjects);
        Next::Replan
    }
}

#[cfg(test)]
mod tests {
    use super::MeanwhileCheck;

    #[test]
    fn a_check_is_repeated_after_events_and_when_the_time_is_over() {
        let mut check = MeanwhileCheck::default();
        assert_eq!([false, false].map(|late| check.begin(late)), [true, false]);
        check.repeat();
        assert_eq!([false, false, true, true].map(|late| check.begin(late)), [true, false, true, false]);
    }
}
