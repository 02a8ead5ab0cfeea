//! Inputs of a scope, borrowed for one step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Graph, ObjectKey};

use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::trial::Trial;

/// The inputs of a scope, borrowed for one step.
pub(crate) struct StepInputs<'a> {
    pub(crate) translator: &'a mut Translator,
    pub(crate) graph: &'a mut Graph,
    pub(crate) objects: &'a ObjectSnapshot,
    pub(crate) unusable: &'a BTreeSet<ObjectKey>,
    /// Objects in their stored version, because their current content cannot be read.
    pub(crate) unread: &'a BTreeSet<ObjectKey>,
    /// The faults that were found when objects were decoded.
    pub(crate) decoding: &'a BTreeMap<ObjectKey, Vec<Fault>>,
    pub(crate) settings: &'a Settings,
    /// Milliseconds of Unix time.
    pub(crate) now_ms: u64,
    /// The time since which each object is at fault, across retries and restarts.
    pub(crate) ledger: &'a Ledger,
    /// Whether another replica is the leader.
    pub(crate) follows: bool,
    /// The build of the probe, if there is a probe.
    pub(crate) probe: Option<&'a Arc<str>>,
    pub(crate) next_trial: &'a mut u64,
    /// The number of fallbacks that were put into force.
    pub(crate) fallbacks: &'a mut u64,
    pub(crate) trials: &'a mut Vec<Trial>,
}

impl StepInputs<'_> {
    /// The current time, in seconds of Unix time.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the time since which an object that is at fault now has been at fault.
    pub(crate) fn began(&self, key: &ObjectKey) -> i64 {
        let generation = self.objects.get(key).map(|object| object.metadata.generation);
        self.ledger.began(key, generation, self.now())
    }

    /// Checks whether all of an object could be read. A part that could not be read is not served, so such a version is
    /// never whole.
    pub(super) fn is_whole(&self, key: &ObjectKey) -> bool {
        !self.decoding.get(key).is_some_and(|faults| faults.iter().any(Fault::is_error))
    }
}
