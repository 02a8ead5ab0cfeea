//! Trials of suspects and of convicted subjects on Envoys of the fleet.

use std::collections::BTreeSet;

use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Snapshot;

use super::admission::{PreparedTrial, TRIAL_UNDISTURBED_MS, TrialRun};
use super::readmission::Readmission;
use super::witnesses::Witnesses;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::plan::budget::Budget;
use crate::rollout::Waiting;

/// The trials of a scope.
#[derive(Debug, Default)]
pub struct EnvoyTrials {
    /// The trial on one Envoy.
    pub current: Option<TrialRun>,
    /// At a follower: the resources of the current trial that the Envoy has accepted. The acknowledged form of a resource
    /// is the one that any Envoy accepted last, which may be that of all others.
    pub(crate) accepted: Waiting,
    /// The next trial, until its configuration is translated.
    pub(crate) prepared: Option<PreparedTrial>,
    /// The number of times that an Envoy was lost while it tried the suspects on trial.
    pub(crate) strikes: u32,
    /// The trial of contents that were refused earlier.
    pub readmission: Option<Readmission>,
    /// The time since which suspects wait for an Envoy that accepts the configuration of all Envoys, in milliseconds of
    /// Unix time.
    pub(crate) waits_since_ms: Option<u64>,
    /// Verdicts that depend on the refusal of one Envoy.
    pub(crate) witnesses: Witnesses,
}

impl EnvoyTrials {
    /// Returns the configuration of the Envoy that tries suspects.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.current.as_ref().map(|trial| &trial.snapshot)
    }

    /// Returns the subjects on trial, suspected or convicted.
    pub(crate) fn testing(&self) -> &[Subject] {
        match self.current.as_ref().filter(|trial| trial.is_second) {
            Some(trial) => self.witnesses.subject(&trial.contents).map_or(&[], std::slice::from_ref),
            None => self.readmission.as_ref().and_then(Readmission::testing).unwrap_or_default(),
        }
    }

    /// Checks whether the current trial is on a second Envoy.
    pub(super) fn is_second(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| trial.is_second)
    }

    /// Checks whether suspects are on trial and may not be interrupted yet.
    pub(crate) fn is_undisturbed(&self, now_ms: u64) -> bool {
        self.current.as_ref().is_some_and(|trial| now_ms < trial.began_ms.saturating_add(TRIAL_UNDISTURBED_MS))
    }

    /// Returns the next suspects for a trial. Suspects that can only be tried together are combined when no others are
    /// left.
    pub(super) fn next(
        &mut self,
        budget: &Budget,
        gateway: &ObjectKey,
        inputs: &StepInputs<'_>,
    ) -> Option<Vec<Subject>> {
        let now_ms = inputs.now_ms;
        let used = |owner: &str| budget.wait_until(owner, now_ms).is_none().then(|| budget.used(owner, now_ms));
        let readmission = self.readmission.as_mut()?;
        readmission.unpark(now_ms);
        if readmission.next(used).is_none() && !readmission.waits() && !readmission.absent().is_empty() {
            let groups = inputs.translator.published_together(gateway);
            let is_in = |subject: &Subject, group: &BTreeSet<Content>| {
                subject.contents.keys().any(|content| group.contains(content))
            };
            readmission.tie(|one, other| groups.iter().any(|group| is_in(one, group) && is_in(other, group)));
        }
        readmission.next(used).map(<[Subject]>::to_vec)
    }

    /// Handles an Envoy that has not answered this trial, which proves nothing: the subjects are tried again later.
    pub(crate) fn not_answered(&mut self, trial: &TrialRun, now_ms: u64) {
        if trial.is_second {
            self.witnesses.not_answered(&trial.contents, now_ms);
        } else if let Some(readmission) = &mut self.readmission {
            readmission.not_answered(now_ms);
        }
    }

    /// Ends all trials: another replica becomes the leader.
    pub(crate) fn drop_all(&mut self) {
        *self = Self { strikes: self.strikes, ..Self::default() };
    }
}
