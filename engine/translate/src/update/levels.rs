//! Policy settings of Gateways and their listeners.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::{Run, Translator, Unit};
use crate::policy;
use crate::policy::level::LevelPlan;

impl Translator {
    /// Computes the policy settings of a Gateway and its listeners.
    pub(super) fn redo_levels(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (plan, edges) = self.read(unit, run.objects, |_, reader| policy::level::plan(key, reader));
        // Translation failed: the last settings stay in force.
        let Some(plan) = plan else { return };
        run.changes.gateways.insert(key.clone());
        self.set_levels(key, plan);
        self.gateway_api.edges.entry(key.clone()).or_default().1 = edges;
        self.gateway_api.link(key, run.graph);
    }

    pub(crate) fn set_levels(&mut self, key: &ObjectKey, plan: LevelPlan) {
        if !self.outcomes.gateways.contains_key(key) {
            self.units.forget(&Unit::Levels(key.clone()));
        }
        let plan = Arc::new(plan);
        let before = if *plan == LevelPlan::default() {
            self.policy.levels.remove(key)
        } else {
            self.policy.levels.insert(key.clone(), plan.clone())
        };
        if before.as_ref() == Some(&plan) {
            return;
        }
        for id in self.assembly.fleets_of(key) {
            if self.variants.has_levels(&id) {
                self.units.schedule(Unit::LevelsVariant(id.clone()));
            } else if let Some(fleet) = self.assembly.fleets.get_mut(&id) {
                fleet.set_levels(plan.clone());
                self.assembly.touched.insert(id.clone());
            }
        }
        let before = before.unwrap_or_default();
        self.endpoints_wanted(&before.services(), &plan.services());
        self.certificates_shown(&before.shown(), &plan.shown());
    }
}
