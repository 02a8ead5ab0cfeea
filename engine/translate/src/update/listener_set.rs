//! Outcomes of ListenerSets.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::{Run, Translator, Unit};
use crate::listener_set;
use crate::outcome::listener_set::SetClaim;
use crate::reader::Input;

impl Translator {
    /// Reads the claim of a ListenerSet.
    pub(super) fn redo_set(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (claim, edges) =
            self.read(unit, run.objects, |settings, reader| listener_set::claim(key, settings, reader));
        let before = self.outcomes.sets.get(key).cloned();
        let failed = || run.objects.get(key).map(|object| listener_set::failed(object, before.as_deref()));
        run.graph.replace(key, edges);
        self.set_set(key, claim.unwrap_or_else(failed));
    }

    pub(crate) fn set_set(&mut self, key: &ObjectKey, claim: Option<SetClaim>) {
        if self.outcomes.sets.get(key).map(|known| &**known) == claim.as_ref() {
            return;
        }
        match claim {
            Some(claim) => drop(self.outcomes.sets.insert(key.clone(), Arc::new(claim))),
            None => {
                self.outcomes.sets.remove(key);
                self.outcomes.lent.remove(key);
                self.units.forget(&Unit::Set(key.clone()));
            }
        }
        self.units.mark(&Input::Outcome(key.clone()));
    }

    /// Returns the claim of a ListenerSet.
    pub fn set(&self, key: &ObjectKey) -> Option<&Arc<SetClaim>> {
        self.outcomes.sets.get(key)
    }
}
