//! The status of a route: its conditions at each parent, as the route is served there.

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::route::PARENTS_MAX;
use holdfast_api::apis::kinds;
use holdfast_api::status::{CONFLICT_CONDITION, Condition, FALLBACK_CONDITION};
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::claims::{NO_READY_LISTENERS, OVERRIDDEN, Parent};
use holdfast_translate::query::duplicates::{Duplicate, Duplicates};
use holdfast_translate::route::RoutePlan;
use serde_json::{Value, json};

use super::inputs::StatusInputs;
use crate::engine::Engine;
use crate::report::conditions::{ConditionInputs, ParentConditions, conditions_at_parent};
use crate::report::events::explained;

/// Returns the status of a route; `None` if none of its parents is a Gateway that Holdfast serves.
pub(super) fn route_status(
    engine: &Engine,
    inputs: &StatusInputs<'_>,
    key: &ObjectKey,
    plan: &RoutePlan,
    generation: i64,
) -> Option<Value> {
    let StatusInputs { report, duplicates, earlier, overtaken, .. } = inputs;
    let of_earlier = earlier.plan_of(key, plan);
    let plan = of_earlier.as_ref().unwrap_or(plan);
    let of_conditions = ConditionInputs { engine, report, earlier, overtaken };
    if plan.parents.is_empty() {
        return None;
    }
    // Below an HTTPRoute at several Gateways, a route has one entry: that of a Gateway at which it is accepted, if any.
    let rank = |index: usize, parent: &Parent| (parent.accepted.status != "True", index);
    let is_known = |(index, parent): &(usize, &Parent)| {
        let mut others = plan.parents.iter().enumerate();
        let is_before = |at: usize, other: &Parent| rank(at, other) < rank(*index, parent);
        parent.is_route() && others.any(|(at, other)| other.reference == parent.reference && is_before(at, other))
    };
    let own = plan.parents.iter().enumerate().filter(|entry| !is_known(entry)).take(PARENTS_MAX);
    let parents = own.filter_map(|(index, parent)| {
        let ParentConditions { accepted, mut others } = conditions_at_parent(of_conditions, key, plan, index)?;
        let accepted = without_listener(plan, parent).filter(|_| accepted.status == "True").unwrap_or(accepted);
        if let Some(message) = inputs.surroundings.closed_above(parent) {
            let before = others.iter().position(|known| known.kind == FALLBACK_CONDITION).map(|at| others.remove(at));
            // The message about the route's own rules is kept.
            let before = before.filter(|_| !plan.replaced.is_empty());
            let message = match before {
                Some(known) => format!("{message}; {}", known.message),
                None => explained(report, key, &message),
            };
            others.push(Condition::new(FALLBACK_CONDITION, true, "Replaced", message));
        }
        if let Some(message) = left_out_at(engine, inputs, key, parent) {
            let own = others.iter().position(|known| known.kind == FALLBACK_CONDITION).map(|at| others.remove(at));
            let own = own.map(|known| format!("; {}", known.message)).unwrap_or_default();
            others.push(Condition::new(FALLBACK_CONDITION, true, "Excluded", format!("{message}{own}")));
        }
        let duplicates = duplicates.get(&parent.gateway).and_then(|duplicates| conflicted(duplicates, key));
        others.extend(duplicates.or_else(|| without_connections(plan, parent)));
        let conditions = std::iter::once(accepted).chain(others);
        let conditions = conditions.map(|condition| condition.of_generation(generation));
        Some(json!({
            "parentRef": reference(parent),
            "controllerName": engine.settings().controller_name,
            "conditions": conditions.collect::<Vec<_>>(),
        }))
    });
    Some(json!({ "parents": parents.collect::<Vec<_>>() }))
}

/// Returns why a route is left out at a parent, and what its clients get, if no listener of the parent is served. A
/// step of the plan, and a Gateway that is held, are reported as such.
fn left_out_at(engine: &Engine, inputs: &StatusInputs<'_>, key: &ObjectKey, parent: &Parent) -> Option<String> {
    let deviations = &inputs.report.gateway(&parent.gateway.namespaced_name())?.deviations;
    let nodes = [Node::whole(key.clone()), Node::section(key.clone(), parent.section().as_str())];
    if deviations.held || nodes.iter().any(|node| deviations.steps.contains_key(node)) {
        return None;
    }
    inputs.surroundings.left_out_at(engine.translator.gateway(&parent.gateway)?, parent)
}

/// Returns the condition of a route at a parent of which every listener lost a conflict; none if one is served, or is not
/// served for another reason.
fn without_listener(plan: &RoutePlan, parent: &Parent) -> Option<Condition> {
    let field = parent.field();
    let fault = plan.faults.iter().find(|fault| fault.reason == NO_READY_LISTENERS && fault.field == field)?;
    Some(Condition::new("Accepted", false, NO_READY_LISTENERS, &fault.message))
}

/// Returns the condition that an older TCPRoute or UDPRoute has all that a listener receives; none if there is no
/// conflict.
fn without_connections(plan: &RoutePlan, parent: &Parent) -> Option<Condition> {
    let field = parent.field();
    let fault = plan.faults.iter().find(|fault| fault.reason == OVERRIDDEN && fault.field == field)?;
    let reason = if parent.attachments.is_empty() { OVERRIDDEN } else { "PartlyOverridden" };
    Some(Condition::new(CONFLICT_CONDITION, true, reason, &fault.message))
}
/// Returns the condition that an older route has the same matches; none if there is no conflict.
fn conflicted(duplicates: &Duplicates, key: &ObjectKey) -> Option<Condition> {
    let lost = duplicates.lost.get(key)?;
    let reason = if duplicates.wholly.contains(key) { "Overridden" } else { "PartlyOverridden" };
    let message = lost.iter().map(Duplicate::sentence).collect::<Vec<_>>().join("; ");
    Some(Condition::new(CONFLICT_CONDITION, true, reason, message))
}

fn reference(parent: &Parent) -> Value {
    let written = &parent.reference;
    let mut value = json!({
        "group": written.group.as_deref().unwrap_or(GROUP),
        "kind": written.kind.as_deref().unwrap_or(kinds::GATEWAY),
        "name": written.name,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.extend(written.namespace.iter().map(|namespace| ("namespace".to_owned(), json!(namespace))));
        fields.extend(written.section_name.iter().map(|name| ("sectionName".to_owned(), json!(name))));
        fields.extend(written.port.iter().map(|port| ("port".to_owned(), json!(port))));
    }
    value
}
