//! Outcomes of backend policies and Backends.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::{Run, Translator, Unit};
use crate::backend_policy;

impl Translator {
    /// Reports on a backend policy or Backend.
    pub(super) fn redo_backend(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (plan, edges) = self.read(unit, run.objects, |_, reader| backend_policy::plan::plan(key, reader));
        let failed = || run.objects.get(key).map(|_| backend_policy::plan::failed(key));
        run.graph.replace(key, edges);
        match plan.unwrap_or_else(failed) {
            Some(plan) => drop(self.backend_policy.plans.insert(key.clone(), Arc::new(plan))),
            None => {
                self.backend_policy.plans.remove(key);
                self.units.forget(unit);
            }
        }
    }
}
