//! Loans of the last valid version to listeners: their hostnames and TLS options, where today's cannot be used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gateway_api::gateways::GatewayListeners;
use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::gateway::{LentListener, LentListeners};
use holdfast_translate::listener::ListenerPlan;

use super::scopes::FallbackScopes;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::served_now::{EarlierUnit, why_not_now};
use crate::eligibility::tls_options;

impl FallbackScopes {
    /// Lends hostnames and TLS options of the last valid version to listeners where today's are unusable, or ends the
    /// loan. Returns true if this requires a translation.
    pub(super) fn lend(&self, gateways: &BTreeSet<ObjectKey>, inputs: &mut StepInputs<'_>) -> bool {
        let mut lends = false;
        for key in gateways {
            let Some(plan) = inputs.translator.gateway(key).cloned() else {
                lends |= inputs.translator.lend(key, LentListeners::new());
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

    /// Returns what can be lent to the listeners of a Gateway, or of a ListenerSet that joined it.
    fn lendable(
        &self,
        gateway: &ObjectKey,
        plan: &GatewayPlan,
        set: Option<&ObjectKey>,
        inputs: &StepInputs<'_>,
    ) -> LentListeners {
        let key = set.unwrap_or(gateway);
        let gates = &inputs.settings.fallback;
        if !gates.isolate || !gates.use_last_valid {
            return LentListeners::new();
        }
        let (Some(desired), Some(last)) = (inputs.objects.get(key), self.last_valid(key)) else {
            return LentListeners::new();
        };
        let began = self.of(&plan.name).iter().filter_map(|scope| scope.verdicts.since.get(key)).min().copied();
        let is_too_old = |age: i64| began.is_some_and(|began| inputs.now().saturating_sub(began) > age);
        let unit =
            EarlierListeners { desired, last: &last, is_too_old: gates.max_backfill_age.is_some_and(is_too_old) };
        match why_not_now(&unit) {
            None => lent(plan, set, desired, &last),
            Some(()) => LentListeners::new(),
        }
    }
}

/// The listeners of an earlier version.
struct EarlierListeners<'a> {
    desired: &'a Object,
    last: &'a Object,
    /// Whether the object has been broken for longer than the maximum age of earlier versions.
    is_too_old: bool,
}

impl EarlierUnit for EarlierListeners<'_> {
    type Why = ();

    fn lacks_claim(&self) -> Option<()> {
        let is_same = self.desired.metadata.uid == self.last.metadata.uid;
        let may = is_same && !self.is_too_old && may_stand_in(self.desired) && may_stand_in(self.last);
        (!may).then_some(())
    }

    // The listener keeps all other fields of its desired version, its certificates and policies among them. Each TLS
    // option is compared with today's value where it is lent.
    fn lacks_protection(&self) -> Option<()> {
        None
    }

    // A hostname and TLS options refer to nothing.
    fn lacks_reference(&self) -> Option<()> {
        None
    }
}

/// Returns what the listeners with unusable hostnames and TLS options are lent.
fn lent(plan: &GatewayPlan, set: Option<&ObjectKey>, desired: &Object, last: &Object) -> LentListeners {
    let needing = |listener: &&ListenerPlan| listener.hostname_fault.is_some() || !listener.option_faults.is_empty();
    let then = plan.of(set).filter(needing).filter_map(|listener| {
        let section = listener.section();
        let earlier = written(last, section)?;
        let hostname = listener
            .hostname_fault
            .as_ref()
            .map(|_| earlier.hostname.as_deref().filter(|hostname| !hostname.is_empty()).map(Arc::from));
        let unusable = listener.option_faults.iter().map(|(option, _)| *option);
        let options = match (options(written(desired, section)?), options(earlier)) {
            (Some(desired), Some(earlier)) => tls_options::lent(unusable, desired, earlier),
            _ => BTreeMap::new(),
        };
        let lent = LentListener { hostname, options };
        (lent != LentListener::default()).then(|| (section.clone(), lent))
    });
    then.collect()
}

/// Returns a listener as a Gateway or ListenerSet has it.
fn written<'a>(object: &'a Object, section: &str) -> Option<&'a GatewayListeners> {
    let listeners = match &object.body {
        Body::Gateway(gateway) => &gateway.listeners,
        Body::ListenerSet(set) => &set.listeners,
        _ => return None,
    };
    listeners.iter().find(|entry| &*entry.name == section)?.written.as_ref()
}

fn options(listener: &GatewayListeners) -> Option<&BTreeMap<String, String>> {
    listener.tls.as_ref()?.options.as_ref()
}
