//! Fairness between owners, which are namespaces. Unproven content of an owner waits while the budget of the owner is
//! used up. It also waits after content of the owner was refused on the probe, until other owners had their turn. No
//! other owner waits for an owner that waits.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node, ObjectKey};

use super::budget::Budget;
use super::derive::WAITS;
use super::world::World;
use crate::evidence::subject::Subject;

/// The message for content that waits for the budget of its owner.
const OWNER_WAITS: &str = "Envoys refused many changes of this namespace within a minute: its new content is tried a \
                           few seconds later, and its previous content stays served";
/// The message for content that waits for other owners.
const YIELDS: &str = "content of this namespace was refused just now: changes of other namespaces are tried first";

/// The state of fairness between owners.
#[derive(Debug, Default)]
pub struct Fairness {
    /// The recent refusals.
    pub budget: Budget,
    /// Owners with content that was refused on the probe since new content was last offered to all Envoys.
    yielding: BTreeSet<Arc<str>>,
    /// Owners with content that was convicted in the search in progress.
    convicted: BTreeSet<Arc<str>>,
    /// Contents that the probe accepted alone in a search: these do not wait.
    cleared: HashSet<Content>,
}

impl Fairness {
    /// Records that the probe refused content of an object.
    pub(crate) fn convicted_on_probe(&mut self, key: &ObjectKey) {
        self.convicted.insert(key.namespace.clone());
    }

    /// Records that the probe accepted the subject alone.
    pub(crate) fn cleared(&mut self, subject: &Subject) {
        self.cleared.extend(subject.contents.keys());
    }

    /// Handles the end of a search on the probe: owners of refused content yield to other owners.
    pub fn searched(&mut self, now_ms: u64) {
        for owner in std::mem::take(&mut self.convicted) {
            self.budget.convicted(owner.clone(), now_ms);
            self.yielding.insert(owner);
        }
    }

    /// Handles the release of the wanted configuration to all Envoys: each owner has had a turn. Returns true if an
    /// owner has waited for others.
    pub fn released(&mut self) -> bool {
        self.cleared.clear();
        !std::mem::take(&mut self.yielding).is_empty()
    }
}

/// The reason why content waits, and the end of the wait (milliseconds of Unix time).
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The time of the next trial.
    pub until: u64,
    /// The message.
    pub message: &'static str,
}

impl World<'_> {
    /// Returns the longest wait of an object's content that no Envoy has accepted, for reasons other than a refusal of
    /// the content; `None` if it does not wait.
    pub fn waits(&self, node: &Node, content: &Content) -> Option<Wait> {
        let key = &node.key;
        let own = self.quarantine.wait_until(key, self.now_ms).map(|until| Wait { until, message: WAITS });
        let of_owner = (!self.fairness.cleared.contains(content)).then(|| self.owner_waits(&key.namespace)).flatten();
        let now = own.into_iter().chain(of_owner).max_by_key(|wait| wait.until);
        now.or_else(|| self.goes_on_waiting(node))
    }

    /// Returns the wait of a node that already waited when the trial of others began: it is not part of that trial,
    /// even if its wait has ended since.
    fn goes_on_waiting(&self, node: &Node) -> Option<Wait> {
        let broken = self.beside?.get(node)?;
        let message = [WAITS, OWNER_WAITS, YIELDS].into_iter().find(|message| **message == *broken.message)?;
        Some(Wait { until: self.now_ms, message })
    }

    /// Returns the wait of all unproven content of an owner.
    fn owner_waits(&self, owner: &Arc<str>) -> Option<Wait> {
        let Fairness { budget, yielding, .. } = self.fairness;
        if !self.settings.fallback.isolate || self.held.is_some() {
            return None;
        }
        let next = budget.wait_until(owner, self.now_ms);
        // When the budget is short, contents that are already suspected precede newer ones.
        let queued = || self.queued.contains(owner) && budget.is_short(owner, self.now_ms);
        let until = next.or_else(|| queued().then(|| self.now_ms.saturating_add(1_000)));
        let until = until.map(|until| Wait { until, message: OWNER_WAITS });
        until.or_else(|| yielding.contains(owner).then_some(Wait { until: self.now_ms, message: YIELDS }))
    }

    /// Returns the routes or policies of waiting owners, and all objects that waited when a trial of others began.
    pub(crate) fn of_waiting_owners<I: Iterator<Item = ObjectKey>>(
        &self,
        keys: impl FnOnce() -> I,
    ) -> BTreeSet<ObjectKey> {
        let waited = self.beside.into_iter().flatten().filter(|(node, _)| self.goes_on_waiting(node).is_some());
        let mut waiting: BTreeSet<ObjectKey> = waited.map(|(node, _)| node.key.clone()).collect();
        if !self.fairness.yielding.is_empty() || !self.fairness.budget.is_plentiful(self.now_ms) {
            waiting.extend(keys().filter(|key| self.owner_waits(&key.namespace).is_some()));
        }
        waiting
    }
}
