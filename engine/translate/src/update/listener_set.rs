//! Outcomes of ListenerSets.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::{Run, Translator, Unit};
use crate::listener_set::{self, SetClaim};
use crate::reader::Input;

impl Translator {
    /// Reads the claim of a ListenerSet.
    pub(super) fn redo_set(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (claim, edges) =
            self.read(unit, run.objects, |settings, reader| listener_set::claim(key, settings, reader));
        let before = self.listener_set.claims.get(key).cloned();
        let failed = || run.objects.get(key).map(|object| listener_set::failed(object, before.as_deref()));
        run.graph.replace(key, edges);
        self.set_set(key, claim.unwrap_or_else(failed));
    }

    pub(crate) fn set_set(&mut self, key: &ObjectKey, claim: Option<SetClaim>) {
        if self.listener_set.claims.get(key).map(|known| &**known) == claim.as_ref() {
            return;
        }
        match claim {
            Some(claim) => drop(self.listener_set.claims.insert(key.clone(), Arc::new(claim))),
            None => {
                self.listener_set.claims.remove(key);
                self.gateway_api.lent.remove(key);
                self.units.forget(&Unit::Set(key.clone()));
            }
        }
        self.units.mark(&Input::Set(key.clone()));
    }

    /// Returns the claim of a ListenerSet.
    pub fn set(&self, key: &ObjectKey) -> Option<&Arc<SetClaim>> {
        self.listener_set.claims.get(key)
    }
}
