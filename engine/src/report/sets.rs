//! Statuses of listeners, and of the ListenerSets that add listeners to a Gateway.

use std::collections::BTreeMap;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::status::Condition;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use holdfast_translate::claims::ListenerId;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::gateway::SetPlan;
use serde_json::{Value, json};

use super::{attached_at, listener_programmed, programmed_of};
use crate::engine::Engine;
use crate::report::conditions;

impl Engine {
    /// Returns the statuses of the listeners of a Gateway, or of a ListenerSet that joined the Gateway.
    pub(super) fn listener_statuses(
        &self,
        gateway: &ObjectKey,
        plan: &GatewayPlan,
        set: Option<&ObjectKey>,
        attached: &BTreeMap<ListenerId, i32>,
        generation: i64,
    ) -> Vec<Value> {
        let seen = self.seen(gateway, plan);
        let status = plan.of(set).map(|listener| {
            let conditions = [
                self.listener_closed(gateway, listener).unwrap_or_else(|| listener.accepted.clone()),
                listener.conflicted.clone(),
                listener_programmed(listener, &seen),
                listener.resolved_refs.clone(),
            ];
            let kinds = listener.kinds.iter().map(|kind| json!({"group": GROUP, "kind": kind}));
            json!({
                "name": listener.section(),
                "attachedRoutes": attached_at(attached, gateway, listener),
                "supportedKinds": kinds.collect::<Vec<_>>(),
                "conditions": conditions.map(|condition| condition.of_generation(generation)),
            })
        });
        status.collect()
    }

    /// Returns the number of ListenerSets that joined a Gateway.
    pub(super) fn attached_sets(&self, gateway: &ObjectKey, plan: &GatewayPlan) -> usize {
        let accepted =
            |(set, known): &(&ObjectKey, &SetPlan)| self.set_accepted(gateway, plan, set, known).status == "True";
        plan.sets.iter().filter(accepted).count()
    }

    fn set_accepted(&self, gateway: &ObjectKey, plan: &GatewayPlan, set: &ObjectKey, known: &SetPlan) -> Condition {
        // With earlier versions of certificates, the served state may differ from the desired state.
        let served = self.seen(gateway, plan).served.into_iter().filter_map(|plan| plan.sets.get(set));
        let mut accepted: Vec<&Condition> = served.map(|set| &set.accepted).collect();
        accepted.sort_by_key(|condition| condition.status == "True");
        let accepted = accepted.first().copied().unwrap_or(&known.accepted);
        let closed = self.all_closed(gateway, plan, Some(set)).filter(|_| accepted.status == "True");
        closed.unwrap_or_else(|| accepted.clone())
    }

    /// Returns the status of a ListenerSet; none if its Gateway belongs to another controller.
    pub(super) fn set_status(
        &self,
        report: &FallbackReport,
        key: &ObjectKey,
        attached: &BTreeMap<ListenerId, i32>,
        generation: i64,
    ) -> Option<Value> {
        let gateway = self.translator.set(key)?.gateway.as_ref()?;
        let plan = self.translator.gateway(gateway)?;
        let known = plan.sets.get(key)?;
        let accepted = self.set_accepted(gateway, plan, key, known);
        let programmed = match &*accepted.reason {
            "ParentNotAccepted" => Condition::new("Programmed", false, "ParentNotProgrammed", &accepted.message),
            _ if accepted.status == "True" => programmed_of(plan.of(Some(key)), &self.seen(gateway, plan)),
            reason => Condition::new("Programmed", false, reason, &accepted.message),
        };
        let fallback = conditions::condition(report, key, &plan.name);
        let conditions = [accepted, programmed].into_iter().chain(fallback);
        Some(json!({
            "conditions": conditions.map(|condition| condition.of_generation(generation)).collect::<Vec<_>>(),
            "listeners": self.listener_statuses(gateway, plan, Some(key), attached, generation),
        }))
    }
}
