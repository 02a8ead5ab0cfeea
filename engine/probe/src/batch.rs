//! Trials of one order: which are tried together, which separately, and when silence becomes a verdict.
//!
//! No I/O and no clock. A probe that is lost with trials in progress is replaced, and then each of these trials is
//! repeated separately. A trial with which a probe is lost again, twice, is `Silent`: each of these probes had answered
//! to good content, within the same timeout, just before.

use std::collections::VecDeque;

use holdfast_fallback::trial::{Outcome, Trial, Tried};

/// Maximum number of lost probes for one order; after that the remaining trials have no verdict.
const PROBE_LOSSES_MAX: usize = 64;
/// Number of probes that must be lost over a separate trial before its content counts as silent.
const STRIKES: usize = 2;

/// An order.
#[derive(Debug, Default)]
pub(crate) struct TrialBatch {
    fresh: Vec<Trial>,
    suspects: VecDeque<(Trial, usize)>,
    losses: usize,
    answered: Vec<Tried>,
}

/// The next trials.
#[derive(Debug)]
pub(crate) enum TrialStep {
    /// Try all of these together.
    Together(Vec<Trial>),
    /// Try this one separately.
    Alone(Trial),
}

/// How the probe was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The probe died, or no longer answered at all.
    Probe,
    /// The probe answered to other content meanwhile: the answer to this trial is delayed by a dependency.
    Held,
}

impl TrialBatch {
    pub(crate) fn new(trials: Vec<Trial>) -> Self {
        Self { fresh: trials, ..Self::default() }
    }

    /// The next step; `None` if all trials have a result.
    pub(crate) fn step(&mut self) -> Option<TrialStep> {
        match self.suspects.front() {
            Some((trial, _)) => Some(TrialStep::Alone(trial.clone())),
            None if self.fresh.is_empty() => None,
            None => Some(TrialStep::Together(std::mem::take(&mut self.fresh))),
        }
    }

    /// Records results, also of trials that were answered before the probe was lost.
    pub(crate) fn answer(&mut self, tried: impl IntoIterator<Item = Tried>) {
        for tried in tried {
            self.suspects.retain(|(trial, _)| trial.id != tried.id);
            self.answered.push(tried);
        }
    }

    /// Records that the probe was lost during a common run: some trials were in progress, some had not begun.
    pub(crate) fn lost_together(&mut self, under_way: Vec<Trial>, not_begun: Vec<Trial>) {
        self.suspects.extend(under_way.into_iter().map(|trial| (trial, 0)));
        self.fresh.extend(not_begun);
        self.lost();
    }

    /// Records that the probe was lost during a separate trial.
    pub(crate) fn lost_alone(&mut self, loss: Loss) {
        if let Some((trial, strikes)) = self.suspects.pop_front() {
            match loss {
                Loss::Held => self.answered.push(Tried { id: trial.id, outcome: Outcome::Unavailable }),
                Loss::Probe if strikes + 1 >= STRIKES => {
                    self.answered.push(Tried { id: trial.id, outcome: Outcome::Silent });
                }
                Loss::Probe => self.suspects.push_front((trial, strikes + 1)),
            }
        }
        self.lost();
    }

    /// Records that the probe was lost before a separate trial began, which counts against no trial.
    pub(crate) fn lost_between(&mut self) {
        self.lost();
    }

    /// Ends the order without a probe: the remaining trials have no verdict.
    pub(crate) fn give_up(&mut self) {
        let suspects = std::mem::take(&mut self.suspects).into_iter().map(|(trial, _)| trial);
        let rest = suspects.chain(std::mem::take(&mut self.fresh));
        self.answered.extend(rest.map(|trial| Tried { id: trial.id, outcome: Outcome::Unavailable }));
    }

    /// Takes the results since the last call.
    pub(crate) fn take_answered(&mut self) -> Vec<Tried> {
        std::mem::take(&mut self.answered)
    }

    fn lost(&mut self) {
        self.losses += 1;
        if self.losses >= PROBE_LOSSES_MAX {
            self.give_up();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use bytes::Bytes;
    use holdfast_xds::ResourceType;

    use super::*;

    fn trial(id: u64) -> Trial {
        Trial { id, kind: ResourceType::Route, name: "r".into(), body: Bytes::new() }
    }

    fn alone(batch: &mut TrialBatch) -> u64 {
        let Some(TrialStep::Alone(trial)) = batch.step() else { panic!("nothing is tried alone") };
        trial.id
    }

    fn accepted(id: u64) -> Tried {
        Tried { id, outcome: Outcome::Accepted }
    }

    /// Three trials, of which the first two were in progress when the probe was lost.
    fn after_a_loss() -> TrialBatch {
        let mut batch = TrialBatch::new((0..3).map(trial).collect());
        let Some(TrialStep::Together(trials)) = batch.step() else { panic!() };
        assert_eq!(trials.len(), 3);
        batch.lost_together(vec![trial(0), trial(1)], vec![trial(2)]);
        batch
    }

    #[test]
    fn contents_under_way_are_tried_alone_before_the_others() {
        let mut batch = after_a_loss();
        for id in [0, 1] {
            assert_eq!(alone(&mut batch), id);
            batch.answer([accepted(id)]);
        }
        assert!(matches!(batch.step(), Some(TrialStep::Together(trials)) if trials.len() == 1));
        batch.answer([accepted(2)]);
        assert!(batch.step().is_none());
        assert_eq!(batch.take_answered(), [0, 1, 2].map(accepted));
    }

    #[test]
    fn silence_convicts_only_a_content_that_was_alone_twice() {
        let mut batch = after_a_loss();
        assert_eq!(alone(&mut batch), 0);
        batch.lost_alone(Loss::Probe);
        assert_eq!(batch.take_answered(), []);
        assert_eq!(alone(&mut batch), 0);
        batch.lost_alone(Loss::Probe);
        assert_eq!(batch.take_answered(), [Tried { id: 0, outcome: Outcome::Silent }]);
        assert_eq!(alone(&mut batch), 1);
        batch.lost_alone(Loss::Probe);
        batch.answer([accepted(1)]);
        assert_eq!(batch.take_answered(), [accepted(1)]);
    }

    #[test]
    fn a_probe_lost_between_trials_counts_against_no_content() {
        let mut batch = after_a_loss();
        batch.lost_alone(Loss::Probe);
        batch.lost_between();
        batch.lost_between();
        assert_eq!(alone(&mut batch), 0);
        batch.answer([accepted(0)]);
        assert_eq!(batch.take_answered(), [accepted(0)]);
    }

    #[test]
    fn a_held_answer_convicts_no_content() {
        let mut batch = after_a_loss();
        batch.lost_alone(Loss::Probe);
        batch.lost_alone(Loss::Held);
        assert_eq!(batch.take_answered(), [Tried { id: 0, outcome: Outcome::Unavailable }]);
    }

    #[test]
    fn without_a_probe_no_content_is_convicted() {
        let mut batch = after_a_loss();
        batch.lost_alone(Loss::Probe);
        batch.give_up();
        assert!(batch.step().is_none());
        let answered = batch.take_answered();
        assert_eq!(answered.len(), 3);
        assert!(answered.iter().all(|tried| tried.outcome == Outcome::Unavailable));
    }

    #[test]
    fn one_order_does_not_go_through_probes_without_end() {
        let mut batch = TrialBatch::new((0..1000).map(trial).collect());
        batch.step();
        batch.lost_together((0..1000).map(trial).collect(), Vec::new());
        let mut losses = 1;
        while let Some(TrialStep::Alone(_)) = batch.step() {
            batch.lost_alone(Loss::Probe);
            losses += 1;
        }
        assert_eq!(losses, PROBE_LOSSES_MAX);
        assert_eq!(batch.take_answered().len(), 1000);
    }
}
