//! Verdicts of a scope, with the state that their records depend on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_graph::{Content, Detected, ObjectKey, Quarantine, Verdict};
use holdfast_translate::Translator;
use holdfast_xds::Version;

use crate::context::step_inputs::StepInputs;
use crate::scope::FallbackScope;

/// Limit of refused resources of one scope that are stored beyond a run; beyond the limit, the oldest one may be tried
/// again.
const REMEMBERED_MAX: usize = 64;

/// The verdicts, and the objects at fault.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The contents that Envoys refused.
    pub quarantine: Quarantine,
    /// The time since which each broken object is at fault.
    pub since: BTreeMap<ObjectKey, i64>,
    /// Objects with a counted refusal since their last edit, with the refused generation.
    counted: BTreeMap<ObjectKey, i64>,
    /// Refused resources that are stored, the oldest first.
    remembered: VecDeque<Version>,
}

impl Verdicts {
    /// Records a verdict. The first firm verdict about a generation of an object counts as a refusal.
    pub(super) fn convict(&mut self, content: Content, verdict: Verdict, now_ms: u64) {
        let (key, generation) = (&verdict.node.key, verdict.generation);
        let is_firm = verdict.detected != Detected::Suspected;
        if is_firm && self.counted.insert(key.clone(), generation) != Some(generation) {
            self.quarantine.note_refusal(key, now_ms);
        }
        self.quarantine.convict(content, verdict);
    }

    /// Records a verdict of an earlier run, or of another replica.
    pub(crate) fn restore(&mut self, content: Content, verdict: Verdict) {
        self.since.entry(verdict.node.key.clone()).or_insert(verdict.since);
        self.quarantine.convict(content, verdict);
    }

    /// Returns the time since which an object that is refused now has been at fault.
    pub(super) fn began(&self, key: &ObjectKey, inputs: &StepInputs<'_>) -> i64 {
        self.since.get(key).copied().unwrap_or_else(|| inputs.began(key, true))
    }

    /// Records the objects that are at fault now, each with whether it is refused.
    pub(crate) fn note_broken(&mut self, broken: BTreeMap<ObjectKey, bool>, inputs: &StepInputs<'_>) {
        self.since.retain(|key, _| broken.contains_key(key));
        for (key, refused) in broken {
            self.since.entry(key).or_insert_with_key(|key| inputs.began(key, refused));
        }
    }

    /// Records the edit of an object: its next refusal counts again.
    pub(crate) fn edited(&mut self, key: &ObjectKey) {
        self.counted.remove(key);
    }

    /// Removes all state of a deleted object, except for its verdicts.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.since.remove(key);
        self.counted.remove(key);
    }

    /// Removes all verdicts, and the record of refused resources.
    pub(crate) fn clear(&mut self) {
        self.quarantine = Quarantine::new();
        self.remembered.clear();
    }

    /// Records a refused resource that is stored. Returns the oldest one, if it is no longer stored.
    pub(super) fn remember(&mut self, version: Version) -> Option<Version> {
        self.remembered.push_back(version);
        if self.remembered.len() > REMEMBERED_MAX { self.remembered.pop_front() } else { None }
    }

    /// Records a refused resource that an earlier run stored.
    pub(super) fn remember_stored(&mut self, version: Version) {
        self.remembered.push_back(version);
    }

    /// Removes a refused resource that was accepted after all; returns true if it is stored.
    pub(super) fn forget_refused(&mut self, version: Version) -> bool {
        let is_stored = self.remembered.contains(&version);
        self.remembered.retain(|known| *known != version);
        is_stored
    }

    /// Returns the newest refused resource that is stored.
    pub(crate) fn newest_remembered(&self) -> Option<Version> {
        self.remembered.back().copied()
    }
}

/// Marks the versions of translated routes as unproven in a scope.
pub(crate) fn edited(scope: &mut FallbackScope, routes: &BTreeSet<ObjectKey>, translator: &Translator) {
    routes.iter().for_each(|key| scope.verdicts.edited(key));
    scope.evidence.promotion.edited(&scope.id.gateway, routes, translator);
}
