//! Loans of hostnames: listeners with unusable hostnames use those of the last valid version.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::gateway::LentHostnames;

use super::scopes::FallbackScopes;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::annotation::may_stand_in;

impl FallbackScopes {
    /// Lends the hostnames of the last valid version to listeners with unusable hostnames, or ends the loan. Returns
    /// true if this requires a translation.
    pub(super) fn lend(&self, gateways: &BTreeSet<ObjectKey>, inputs: &mut StepInputs<'_>) -> bool {
        let mut lends = false;
        for key in gateways {
            let Some(plan) = inputs.translator.gateway(key).cloned() else {
                lends |= inputs.translator.lend(key, LentHostnames::new());
                continue;
            };
            let sets = plan.sets.iter().filter(|(_, set)| set.joins).map(|(set, _)| Some(set));
            for set in std::iter::once(None).chain(sets) {
                let lent = self.lendable(key, &plan, set, inputs);
                lends |= inputs.translator.lend(set.unwrap_or(key), lent);
            }
        }
        lends
    }

    /// Returns the hostnames that can be lent to the listeners of a Gateway, or of a ListenerSet that joined it.
    fn lendable(
        &self,
        gateway: &ObjectKey,
        plan: &GatewayPlan,
        set: Option<&ObjectKey>,
        inputs: &StepInputs<'_>,
    ) -> LentHostnames {
        let key = set.unwrap_or(gateway);
        let gates = &inputs.settings.fallback;
        let began = self.of(&plan.name).iter().filter_map(|scope| scope.verdicts.since.get(key)).min().copied();
        let is_too_old = |age: i64| began.is_some_and(|began| inputs.now().saturating_sub(began) > age);
        if !gates.isolate || !gates.use_last_valid || gates.max_backfill_age.is_some_and(is_too_old) {
            return LentHostnames::new();
        }
        let (Some(desired), Some(last)) = (inputs.objects.get(key), self.last_valid(key)) else {
            return LentHostnames::new();
        };
        lent(plan, set, desired, &last)
    }
}

/// Returns the lent hostnames of the listeners with unusable hostnames.
fn lent(plan: &GatewayPlan, set: Option<&ObjectKey>, desired: &Object, last: &Arc<Object>) -> LentHostnames {
    let same = desired.metadata.uid == last.metadata.uid;
    if !same || !may_stand_in(desired) || !may_stand_in(last) {
        return LentHostnames::new();
    }
    let listeners = match &last.body {
        Body::Gateway(gateway) => &gateway.listeners,
        Body::ListenerSet(set) => &set.listeners,
        _ => return LentHostnames::new(),
    };
    let unusable = plan.of(set).filter(|listener| listener.hostname_fault.is_some());
    let then = unusable.filter_map(|listener| {
        let mut entries = listeners.iter().filter(|entry| entry.name == *listener.section());
        let written = entries.next()?.written.as_ref()?;
        let hostname = written.hostname.as_deref().filter(|hostname| !hostname.is_empty()).map(Arc::from);
        Some((listener.section().clone(), hostname))
    });
    then.collect()
}
