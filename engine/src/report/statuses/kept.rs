//! The statuses of the last collection. A collection computes the statuses that may have changed since the last one.
//!
//! The status of a route or HTTPProxy depends on the object, on its plan or those of the roots that include it, and on few
//! states that many routes share; so the statuses of those that nothing concerned are taken over. The statuses of all other
//! kinds are computed each time.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::status::StatusMap;
use holdfast_graph::ObjectKey;

use super::inputs::{StatusInputs, Surroundings};
use crate::engine::Engine;

/// The statuses of the last collection, and what may have changed since then.
#[derive(Debug, Default)]
pub(crate) struct KeptStatuses {
    statuses: StatusMap,
    /// The objects that changed, and the routes with a plan that changed, since the last collection.
    changed: BTreeSet<ObjectKey>,
    /// The objects with a status that each collection computes.
    each_time: BTreeSet<ObjectKey>,
    /// What the statuses of many routes depend on, as the last collection saw it; `None` before the first one.
    surroundings: Option<Surroundings>,
}

impl KeptStatuses {
    /// Records that an object, or the plan of a route, changed.
    pub(crate) fn changed(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.changed.extend(keys);
    }

    fn collect(&mut self, engine: &Engine) {
        let inputs = StatusInputs::of(engine);
        let special = inputs.special(engine);
        let mut keys = take(&mut self.changed);
        keys.append(&mut self.each_time);
        keys.extend(special.iter().cloned());
        if self.surroundings.as_ref() != Some(&inputs.surroundings) {
            keys.extend(super::existing(engine));
        }
        for key in keys {
            let status = super::status_of(engine, &key, &inputs);
            if special.contains(&key) || (depends_on_others(&key) && engine.is_there(&key)) {
                self.each_time.insert(key.clone());
            }
            match status {
                Some(status) if self.statuses.get(&key).is_some_and(|known| **known == status) => {}
                Some(status) => drop(self.statuses.insert(key, Arc::new(status))),
                None => drop(self.statuses.remove(&key)),
            }
        }
        self.surroundings = Some(inputs.surroundings);
    }
}

/// Returns the status of every object that has one, and keeps them for the next call.
pub(in crate::report) fn collect(engine: &mut Engine) -> StatusMap {
    let mut kept = engine.kept.take().unwrap_or_default();
    kept.collect(engine);
    let statuses = kept.statuses.clone();
    engine.kept = Some(kept);
    statuses
}

/// Returns whether an object is of a kind with statuses that depend on the state of any other objects.
fn depends_on_others(key: &ObjectKey) -> bool {
    const KEPT_OR_WITHOUT: [&str; 7] = [
        kinds::HTTP_PROXY,
        kinds::SERVICE,
        kinds::ENDPOINT_SLICE,
        kinds::SECRET,
        kinds::CONFIG_MAP,
        kinds::NAMESPACE,
        kinds::REFERENCE_GRANT,
    ];
    !kinds::ROUTES.contains(&&*key.kind) && !KEPT_OR_WITHOUT.contains(&&*key.kind)
}
