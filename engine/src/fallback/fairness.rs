//! Fairness between owners, which are namespaces: what of an owner is not proven waits while it has used up its
//! refusals, or while others have their turn after something of it was refused on the probe. No other owner waits for
//! an owner that waits.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node, ObjectKey};

use super::budget::Budget;
use super::derive::WAITS;
use super::line::Line;
use super::readmission::Subject;
use super::world::World;

/// For how many milliseconds suspects are tried on an Envoy before a newer configuration may take its place.
pub(crate) const TRIAL_UNDISTURBED_MS: u64 = 500;
/// What is said of what waits for its owner.
const OWNER_WAITS: &str = "Envoys refused much of this namespace within a minute: what is new in it is tried a few seconds \
                           later, and what was served before goes on";
/// What is said of what waits for others.
const YIELDS: &str = "something of this namespace was refused just now: other namespaces are served first";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// Refusals of late.
    pub(crate) budget: Budget,
    /// Owners of which something was refused on the probe since all Envoys were offered something new last.
    yielding: BTreeSet<Arc<str>>,
    /// Owners of which the search that is under way has convicted something.
    convicted: BTreeSet<Arc<str>>,
    /// What the probe took alone in a search: it does not wait.
    cleared: HashSet<Content>,
}

impl Fairness {
    /// The probe refused something of an object.
    pub(crate) fn convicted_on_probe(&mut self, key: &ObjectKey) {
        self.convicted.insert(key.namespace.clone());
    }

    /// The probe took this alone.
    pub(crate) fn cleared(&mut self, subject: &Subject) {
        self.cleared.extend(subject.contents.keys());
    }

    /// A search on the probe has ended: those of which something was refused let others go first.
    pub(crate) fn searched(&mut self, now_ms: u64) {
        for owner in std::mem::take(&mut self.convicted) {
            self.budget.convicted(owner.clone(), now_ms);
            self.yielding.insert(owner);
        }
    }

    /// All Envoys are offered what is wanted: each owner has had a turn. True where an owner has waited for others.
    pub(crate) fn released(&mut self) -> bool {
        self.cleared.clear();
        !std::mem::take(&mut self.yielding).is_empty()
    }
}

/// Why something waits, and until when (milliseconds of Unix time).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// When it is tried again.
    pub(crate) until: u64,
    /// What is said of it.
    pub(crate) message: &'static str,
}

impl World<'_> {
    /// Why a content of an object waits that no Envoy has taken, besides being refused: the longest wait, where there
    /// is any.
    pub(crate) fn waits(&self, node: &Node, content: &Content) -> Option<Wait> {
        let key = &node.key;
        let own = self.quarantine.wait_until(key, self.now_ms).map(|until| Wait { until, message: WAITS });
        let of_owner = (!self.fairness.cleared.contains(content)).then(|| self.owner_waits(&key.namespace)).flatten();
        let now = own.into_iter().chain(of_owner).max_by_key(|wait| wait.until);
        now.or_else(|| self.goes_on_waiting(node))
    }

    /// Why something waited when the trial of others began: it is no part of that trial, whatever the time is by now.
    fn goes_on_waiting(&self, node: &Node) -> Option<Wait> {
        let broken = self.beside?.get(node)?;
        let message = [WAITS, OWNER_WAITS, YIELDS].into_iter().find(|message| **message == *broken.message)?;
        Some(Wait { until: self.now_ms, message })
    }

    /// Why everything of an owner waits that no Envoy has taken.
    fn owner_waits(&self, owner: &Arc<str>) -> Option<Wait> {
        let Fairness { budget, yielding, .. } = self.fairness;
        if !self.settings.fallback.isolate || self.held.is_some() {
            return None;
        }
        let next = budget.wait_until(owner, self.now_ms);
        // What is suspected already goes before what is newer, where refusals are short.
        let queued = || self.queued.contains(owner) && budget.is_short(owner, self.now_ms);
        let until = next.or_else(|| queued().then(|| self.now_ms.saturating_add(1_000)));
        let until = until.map(|until| Wait { until, message: OWNER_WAITS });
        until.or_else(|| yielding.contains(owner).then_some(Wait { until: self.now_ms, message: YIELDS }))
    }

    /// Of routes or policies those of owners that wait, and all that waited when a trial of others began.
    pub(crate) fn of_waiting_owners(&self, keys: impl Iterator<Item = ObjectKey>) -> BTreeSet<ObjectKey> {
        let waited = self.beside.into_iter().flatten().filter(|(node, _)| self.goes_on_waiting(node).is_some());
        let mut waiting: BTreeSet<ObjectKey> = waited.map(|(node, _)| node.key.clone()).collect();
        if !self.fairness.yielding.is_empty() || !self.fairness.budget.is_plentiful(self.now_ms) {
            waiting.extend(keys.filter(|key| self.owner_waits(&key.namespace).is_some()));
        }
        waiting
    }
}

impl Line {
    /// Is there something that the clock alone goes on with: suspects that have waited for their owner's turn, or what
    /// is wanted and has waited for a trial?
    pub(crate) fn has_work(&self, now_ms: u64) -> bool {
        match &self.trial {
            None => self.readmission.is_some() || self.has_a_second_witness_to_ask(now_ms),
            Some(_) => !self.is_undisturbed(now_ms) && !self.unproven().is_empty(),
        }
    }

    /// Are suspects on trial that are not to be disturbed yet?
    pub(crate) fn is_undisturbed(&self, now_ms: u64) -> bool {
        self.trial.as_ref().is_some_and(|trial| now_ms < trial.began_ms.saturating_add(TRIAL_UNDISTURBED_MS))
    }
}
