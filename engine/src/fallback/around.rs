//! What a line works with: lent for one step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Graph, ObjectKey};

use crate::fault::Fault;
use crate::health::Ledger;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::trial::Trial;

/// What a line works with: lent for one step.
pub(crate) struct Around<'a> {
    pub(crate) translator: &'a mut Translator,
    pub(crate) graph: &'a mut Graph,
    pub(crate) objects: &'a ObjectSnapshot,
    pub(crate) unusable: &'a BTreeSet<ObjectKey>,
    /// Objects that are as they were stored, since nothing can be read of them.
    pub(crate) unread: &'a BTreeSet<ObjectKey>,
    /// What was found wrong when objects were decoded.
    pub(crate) decoding: &'a BTreeMap<ObjectKey, Vec<Fault>>,
    pub(crate) settings: &'a Settings,
    /// Milliseconds of Unix time.
    pub(crate) now_ms: u64,
    /// Since when objects are at fault, over retries and restarts.
    pub(crate) ledger: &'a Ledger,
    /// Does another replica lead?
    pub(crate) follows: bool,
    /// The build of the probe, where there is one.
    pub(crate) probe: Option<&'a Arc<str>>,
    pub(crate) next_trial: &'a mut u64,
    /// How many fallbacks were put into force.
    pub(crate) fallbacks: &'a mut u64,
    pub(crate) trials: &'a mut Vec<Trial>,
}

impl Around<'_> {
    /// Seconds of Unix time.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Since when an object is at fault that is found to be so now.
    pub(crate) fn began(&self, key: &ObjectKey) -> i64 {
        let generation = self.objects.get(key).map(|object| object.metadata.generation);
        self.ledger.began(key, generation, self.now())
    }

    /// Could all of an object be read? What could not be is not served: such a version is never whole.
    pub(super) fn is_whole(&self, key: &ObjectKey) -> bool {
        !self.decoding.get(key).is_some_and(|faults| faults.iter().any(Fault::is_error))
    }
}
