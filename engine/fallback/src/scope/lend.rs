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
use crate::eligibility::served_now::{EarlierUnit, why_not_now};

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
        if !gates.isolate || !gates.use_last_valid {
            return LentHostnames::new();
        }
        let (Some(desired), Some(last)) = (inputs.objects.get(key), self.last_valid(key)) else {
            return LentHostnames::new();
        };
        let began = self.of(&plan.name).iter().filter_map(|scope| scope.verdicts.since.get(key)).min().copied();
        let is_too_old = |age: i64| began.is_some_and(|began| inputs.now().saturating_sub(began) > age);
        let unit =
            EarlierHostnames { desired, last: &last, is_too_old: gates.max_backfill_age.is_some_and(is_too_old) };
        match why_not_now(&unit) {
            None => lent(plan, set, &last),
            Some(()) => LentHostnames::new(),
        }
    }
}

/// The hostnames of the listeners of an earlier version.
struct EarlierHostnames<'a> {
    desired: &'a Object,
    last: &'a Object,
    /// Whether the object has been broken for longer than the maximum age of earlier versions.
    is_too_old: bool,
}

impl EarlierUnit for EarlierHostnames<'_> {
    type Why = ();

    fn lacks_claim(&self) -> Option<()> {
        let is_same = self.desired.metadata.uid == self.last.metadata.uid;
        let may = is_same && !self.is_too_old && may_stand_in(self.desired) && may_stand_in(self.last);
        (!may).then_some(())
    }

    // The listener keeps all other fields of its desired version, its certificates and policies among them.
    fn lacks_protection(&self) -> Option<()> {
        None
    }

    // A hostname refers to nothing.
    fn lacks_reference(&self) -> Option<()> {
        None
    }
}

/// Returns the lent hostnames of the listeners with unusable hostnames.
fn lent(plan: &GatewayPlan, set: Option<&ObjectKey>, last: &Object) -> LentHostnames {
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
