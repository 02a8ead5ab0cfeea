//! Inputs of a scope, borrowed for one step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_api::ledger::Ledger;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::{Graph, ObjectKey};
use holdfast_translate::Translator;

use crate::context::trial::Trial;

/// The inputs of a scope, borrowed for one step.
pub struct StepInputs<'a> {
    /// The translation of the current objects.
    pub translator: &'a mut Translator,
    /// The dependencies of the current objects.
    pub graph: &'a mut Graph,
    /// The current objects.
    pub objects: &'a ObjectSnapshot,
    /// Objects that exist with content that cannot be used at all.
    pub unusable: &'a BTreeSet<ObjectKey>,
    /// Objects in their stored version, because their current content cannot be read.
    pub unread: &'a BTreeSet<ObjectKey>,
    /// The faults that were found when objects were decoded.
    pub decoding: &'a BTreeMap<ObjectKey, Vec<Fault>>,
    /// The settings.
    pub settings: &'a Settings,
    /// Milliseconds of Unix time.
    pub now_ms: u64,
    /// The time since which each object is at fault, across retries and restarts.
    pub ledger: &'a Ledger,
    /// Whether another replica is the leader.
    pub follows: bool,
    /// The build of the probe, if there is a probe.
    pub probe: Option<&'a Arc<str>>,
    /// The number of the next trial.
    pub next_trial: &'a mut u64,
    /// The number of fallbacks that were put into force.
    pub fallbacks: &'a mut u64,
    /// The requested trials.
    pub trials: &'a mut Vec<Trial>,
}

impl StepInputs<'_> {
    /// The current time, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the time since which an object that is at fault now has been at fault. `refused`: Envoy or the probe
    /// refuses it.
    pub fn began(&self, key: &ObjectKey, refused: bool) -> i64 {
        let generation = self.objects.get(key).map(|object| object.metadata.generation);
        self.ledger.began(key, generation, refused, self.now())
    }

    /// Checks whether all of an object could be read. A part that could not be read is not served, so such a version is
    /// never whole.
    pub(crate) fn is_whole(&self, key: &ObjectKey) -> bool {
        !self.decoding.get(key).is_some_and(|faults| faults.iter().any(Fault::is_error))
    }
}
