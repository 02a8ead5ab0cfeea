//! Suspects on trial at one Envoy of the fleet, group by group, as `readmission.rs` says.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::{Content, Detected, ObjectKey};
use holdfast_xds::{ResourceType, Snapshot};

use super::around::Around;
use super::line::Line;
use super::readmission::{Finding, Subject};
use super::rollout::{STRIKES_MAX, Stage, TRIED, Waiting, changes};
use crate::translate::fleet::FleetId;

/// Suspects on trial at one Envoy.
#[derive(Clone, Debug)]
pub(crate) struct TrialRun {
    /// Which Envoy.
    pub(crate) node: Arc<str>,
    /// What it is offered.
    pub(crate) snapshot: Snapshot,
    /// What it has not answered yet.
    pub(crate) waiting: Waiting,
    /// When it counts as silent, in milliseconds of Unix time.
    pub(crate) deadline: u64,
    /// What is tried.
    pub(crate) contents: BTreeSet<Content>,
    /// The objects of which that is tried apart from the rest.
    pub(crate) apart: BTreeSet<ObjectKey>,
}

impl Line {
    /// The next group of suspects is offered to one Envoy.
    pub(crate) fn start_trial(&mut self, around: &mut Around<'_>) {
        if self.trial.is_some() || !matches!(self.stage, Stage::Settled) {
            return;
        }
        let Some(node) = self.trial_node() else { return };
        let Some(readmission) = &mut self.readmission else { return };
        let Some(subjects) = readmission.next().map(<[Subject]>::to_vec) else {
            self.readmission = None;
            around.translator.close(&self.trial_fleet());
            self.attribution.end(around.now_ms);
            return;
        };
        let on_trial: BTreeSet<_> = subjects.iter().flat_map(|subject| subject.contents.keys().copied()).collect();
        // A unit is tried apart from the rest of its object, which is closed meanwhile.
        let apart = subjects.iter().filter(|subject| !subject.node.section.is_empty());
        let apart: BTreeSet<_> = apart.map(|subject| subject.node.key.clone()).collect();
        let Some((snapshot, waiting)) = self.on_trial(&on_trial, &apart, around) else { return };
        // With one half cleared, the other half makes what was refused as a whole.
        let known = waiting.iter().find_map(|((kind, name), version)| self.hold.refusal_of(*kind, name, *version));
        if let Some(message) = known.map(|refusal| refusal.message.clone()) {
            return self.trial_refused(&message, around);
        }
        self.attribution.round();
        self.hold.expect(&snapshot, &waiting);
        let nothing_to_learn = waiting.is_empty();
        let deadline = around.now_ms.saturating_add(around.settings.fallback.ack_timeout_ms);
        self.trial = Some(TrialRun { node, snapshot, waiting, deadline, contents: on_trial, apart });
        if nothing_to_learn {
            // Their content is served already, or not at all.
            self.trial_accepted(around);
        }
    }

    /// What an Envoy is offered that tries these contents, and what of it is to be answered.
    pub(super) fn on_trial(
        &mut self,
        contents: &BTreeSet<Content>,
        apart: &BTreeSet<ObjectKey>,
        around: &mut Around<'_>,
    ) -> Option<(Snapshot, Waiting)> {
        let fleet = self.trial_fleet();
        around.translator.open(&fleet, &self.fleet);
        let derived = self.derive(around, contents, apart);
        around.translator.lay_over(&fleet, derived.overlay);
        around.translator.translate(around.objects, around.graph);
        let snapshot = around.translator.snapshot(&fleet).cloned()?;
        self.note_forms(&fleet, &snapshot, around.translator);
        let nothing = Snapshot::default();
        let mut waiting = Waiting::new();
        for kind in TRIED {
            let changed = changes(self.everyone.as_ref().unwrap_or(&nothing), &snapshot, kind);
            // A cluster that was taken is not asked for again: who has it says nothing more.
            let unknown =
                changed.filter(|resource| kind != ResourceType::Cluster || !self.is_known_good(kind, resource));
            waiting.extend(unknown.map(|resource| ((kind, resource.name.clone()), resource.version)));
        }
        Some((snapshot, waiting))
    }

    /// Who tries: an Envoy that has what is proven, where anything is; one of another replica, where there is no other.
    fn trial_node(&self) -> Option<Arc<str>> {
        let anything = self.hold.has_acknowledged_routes();
        let fit = self.envoys.keys().filter(|node| !self.alone.contains_key(*node));
        let fit = fit.filter(|node| !anything || !self.fresh.contains(*node));
        fit.min_by_key(|node| (self.afar.contains(*node), self.silent.contains(*node))).cloned()
    }

    /// The Envoy took the suspects that were on trial.
    pub(crate) fn trial_accepted(&mut self, around: &mut Around<'_>) {
        self.trial = None;
        self.trial_strikes = 0;
        let Some(readmission) = &mut self.readmission else { return };
        if let Finding::Cleared(subjects) = readmission.accepted() {
            for content in subjects.iter().flat_map(|subject| subject.contents.keys()) {
                self.acquit(content);
            }
        }
        self.settle(around);
    }

    /// The Envoy refused the suspects that were on trial.
    pub(crate) fn trial_refused(&mut self, message: &str, around: &mut Around<'_>) {
        self.trial = None;
        self.trial_strikes = 0;
        let Some(readmission) = &mut self.readmission else { return };
        if let Finding::Convicted(subject) = readmission.refused() {
            match subject.units() {
                units if units.len() > 1 => readmission.search_in(units),
                _ => self.convict_subject(&subject, Detected::Nack, message, around),
            }
        }
        self.settle(around);
    }

    /// The Envoy that tries suspects is lost or silent. Twice, while others stay, is a refusal without a word.
    pub(crate) fn trial_lost(&mut self, node: &str, message: &str, around: &mut Around<'_>) -> bool {
        let Some(trial) = self.trial.take_if(|trial| *trial.node == *node) else { return false };
        self.trial_strikes += 1;
        if self.trial_strikes < STRIKES_MAX || !self.envoys.keys().any(|known| **known != *node) {
            return false;
        }
        for ((kind, name), version) in trial.waiting {
            self.hold.refuse_version(kind, &name, version, &self.build.clone(), message);
        }
        self.trial_refused(message, around);
        true
    }

    pub(super) fn trial_fleet(&self) -> FleetId {
        let label = format!("{}?trial", self.fleet.label).into();
        FleetId { gateway: self.gateway.clone(), label }
    }
}
