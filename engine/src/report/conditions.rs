//! Conditions of an object at one Gateway that the fallback adds: `holdfast.dev/Fallback`, and `PartiallyInvalid` if
//! the last valid version is served.
//!
//! Translation reports the faults of the desired version; this module reports what is served instead.

use std::collections::BTreeSet;

use holdfast_api::fault::without_field;
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_check::time::Moment;
use holdfast_fallback::derive::Broken;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{BackfilledObject, FallbackReport, Identity};
use holdfast_graph::{Detected, Node, ObjectKey, Step};
use holdfast_translate::claims::Parent;
use holdfast_translate::conditions_at;
use holdfast_translate::route::RoutePlan;

use super::survey::field;
use crate::engine::Engine;
use crate::report::below::{EarlierAbove, OvertakenBelow};
use crate::report::events::{explained, left_out, serving, why};

/// The condition of a route that is served in part; the specification prescribes the beginning of its message.
const PARTIALLY_INVALID: &str = "PartiallyInvalid";

/// The conditions of a route at one parent.
pub(crate) struct ParentConditions {
    /// `Accepted`.
    pub accepted: Condition,
    /// All other conditions.
    pub others: Vec<Condition>,
}

/// What conditions of routes are made from.
#[derive(Clone, Copy)]
pub(crate) struct ConditionInputs<'a> {
    pub engine: &'a Engine,
    pub report: &'a FallbackReport,
    pub earlier: &'a EarlierAbove<'a>,
    pub overtaken: &'a OvertakenBelow<'a>,
}

/// Returns the conditions of a route at its parent with this index, as the route is served there.
pub(crate) fn conditions_at_parent(
    inputs: ConditionInputs<'_>,
    key: &ObjectKey,
    plan: &RoutePlan,
    parent: usize,
) -> Option<ParentConditions> {
    let ConditionInputs { engine, report, .. } = inputs;
    let desired = plan.parents.get(parent)?;
    let as_desired = ParentConditions { accepted: desired.accepted.clone(), others: conditions_at(plan, desired) };
    let name = desired.gateway.namespaced_name();
    let Some(condition) = condition(report, key, &name) else {
        return Some(without_step(inputs, key, (plan, desired), as_desired));
    };
    if condition.reason == "Backfilled" {
        return Some(backfilled(engine, key, plan, &name, as_desired, condition));
    }
    let scope = speaking(engine.scopes.of(&name)).find(|scope| scope.derived.plan.of(key).next().is_some());
    let served = scope
        .filter(|scope| !scope.derived.overlay.hidden.contains(key))
        .and_then(|scope| engine.translator.served_route(&scope.id.fleet, key));
    let Some(served) = served else {
        let mut conditions = as_desired;
        conditions.others.retain(|known| ![PARTIALLY_INVALID, FALLBACK_CONDITION].contains(&known.kind));
        conditions.others.push(condition);
        return Some(conditions);
    };
    // Below other versions of other routes, the parents can be others.
    let is_same = |parent: &&Parent| (&parent.reference, &parent.gateway) == (&desired.reference, &desired.gateway);
    let here = served.parents.get(parent).filter(is_same).or_else(|| served.parents.iter().find(is_same));
    let accepted = here.map_or(as_desired.accepted, |parent| parent.accepted.clone());
    let mut others = conditions_at(served, desired);
    match others.iter_mut().find(|known| known.kind == FALLBACK_CONDITION) {
        // The condition describes each rule; the time is added.
        Some(known) => {
            let since = scope.and_then(|scope| scope.verdicts.since.get(key)).copied().filter(|since| *since > 0);
            let since = since.map(|since| format!("; since {}", Moment(since))).unwrap_or_default();
            let message = explained(report, key, &known.message);
            *known = Condition::new(FALLBACK_CONDITION, true, &*known.reason, format!("{message}{since}"));
        }
        // Below another HTTPRoute the rules are replaced, and not here.
        None if !served.replaced.is_empty() && desired.is_route() => {}
        None => others.push(condition),
    }
    Some(ParentConditions { accepted, others })
}

/// Returns the conditions of a route that is served in its desired version. What it is served with may be in an earlier
/// version: a policy, or an HTTPRoute above it.
fn without_step(
    inputs: ConditionInputs<'_>,
    key: &ObjectKey,
    (plan, desired): (&RoutePlan, &Parent),
    as_desired: ParentConditions,
) -> ParentConditions {
    let ConditionInputs { engine, report, earlier, overtaken } = inputs;
    let scopes = speaking(engine.scopes.of(&desired.gateway.namespaced_name()));
    let Some(served) = scopes.filter_map(|scope| engine.translator.served_route(&scope.id.fleet, key)).next() else {
        return as_desired;
    };
    let mut others = conditions_at(served, desired);
    if others.iter().all(|known| known.kind != FALLBACK_CONDITION) {
        let below = earlier.condition((report, overtaken), key, (served, desired));
        others.extend(below.or_else(|| with_earlier_policies(engine, report, (plan, served), desired)));
    }
    ParentConditions { others, ..as_desired }
}

/// Returns the condition `holdfast.dev/Fallback` of a route with rules that are served at a parent because earlier versions
/// of their policies, or of objects that these read, are in use.
fn with_earlier_policies(
    engine: &Engine,
    report: &FallbackReport,
    (plan, served): (&RoutePlan, &RoutePlan),
    parent: &Parent,
) -> Option<Condition> {
    let closed = served.replaced.iter().filter(|replaced| served.is_replaced_at(replaced, parent));
    let closed: BTreeSet<&str> = closed.map(|replaced| &*replaced.section).collect();
    let here = plan.replaced.iter().filter(|replaced| plan.is_replaced_at(replaced, parent));
    let replaced = here.filter(|replaced| !closed.contains(&*replaced.section));
    let policies: BTreeSet<&ObjectKey> = replaced.filter_map(|replaced| replaced.policy.as_ref()).collect();
    let read = policies.iter().flat_map(|policy| engine.graph().read_by(policy)).map(|edge| &edge.to.key);
    with_earlier("served", report, &policies.iter().copied().chain(read).collect())
}

/// Returns the condition `holdfast.dev/Fallback` of a policy that is enforced as written, with earlier versions of objects
/// that it reads; `None` if there are none.
pub(super) fn enforced_with_earlier(engine: &Engine, report: &FallbackReport, key: &ObjectKey) -> Option<Condition> {
    with_earlier("enforced", report, &engine.graph().read_by(key).iter().map(|edge| &edge.to.key).collect())
}

fn with_earlier(how: &str, report: &FallbackReport, objects: &BTreeSet<&ObjectKey>) -> Option<Condition> {
    let earlier = report.backfilled_objects.iter().filter(|known| objects.iter().any(|key| known.object.is(key)));
    let earlier: BTreeSet<String> = earlier.map(earlier_version).collect();
    (!earlier.is_empty()).then(|| {
        let message = format!("{how} with {}", earlier.into_iter().collect::<Vec<_>>().join(" and "));
        Condition::new(FALLBACK_CONDITION, true, "Backfilled", message)
    })
}

/// Returns `generation 4 of HTTPRoute infra/top (last valid, since …)`.
pub(super) fn earlier_version(backfilled: &BackfilledObject) -> String {
    let BackfilledObject { object, served_generation, served_since, .. } = backfilled;
    let name = object.key().namespaced_name();
    format!("generation {served_generation} of {} {name} (last valid, since {served_since})", object.kind)
}

/// Returns the conditions of a route with its last valid version served. The faults of the desired version stay
/// reported.
fn backfilled(
    engine: &Engine,
    key: &ObjectKey,
    plan: &RoutePlan,
    gateway: &str,
    desired: ParentConditions,
    condition: Condition,
) -> ParentConditions {
    let ParentConditions { mut accepted, mut others } = desired;
    others.retain(|known| ![PARTIALLY_INVALID, FALLBACK_CONDITION].contains(&known.kind));
    let scopes = speaking(engine.scopes.of(gateway));
    // A suspicion is not a verdict.
    let own = |(node, broken): &(&Node, &Broken)| node.key == *key && broken.detected != Detected::Suspected;
    let broken: Vec<(&Node, &Broken)> = scopes.flat_map(|scope| &scope.derived.broken).filter(own).collect();
    let reasons: BTreeSet<String> = broken
        .iter()
        .map(|(node, broken)| {
            let field = field(node, broken);
            format!("({}): {field}: {}", node.section, without_field(&broken.message, &field))
        })
        .collect();
    let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
    let sections: BTreeSet<&str> = broken.iter().map(|(node, _)| &*node.section).collect();
    let all = rules(plan);
    if sections.contains("") || (!sections.is_empty() && all.iter().all(|rule| sections.contains(rule.as_str()))) {
        if accepted.status == "True" {
            accepted = Condition::new("Accepted", false, "UnsupportedValue", reasons);
        }
    } else if !sections.is_empty() && accepted.status == "True" {
        let message = format!("Fall Back {reasons}; {}", condition.message);
        others.push(Condition::new(PARTIALLY_INVALID, true, "UnsupportedValue", message));
    }
    others.push(condition);
    ParentConditions { accepted, others }
}

/// Returns the condition `holdfast.dev/Fallback` of an object at a Gateway; `None` if the object is current there.
pub fn condition(report: &FallbackReport, key: &ObjectKey, gateway: &str) -> Option<Condition> {
    let steps = &report.gateway(gateway)?.deviations.steps;
    let own = steps.range(Node::whole(key.clone())..).take_while(|(node, _)| node.key == *key);
    let own: Vec<_> = own.map(|(node, (step, served))| (node, *step, *served)).collect();
    let step = own.iter().map(|(_, step, _)| *step).max()?;
    let mut object = None::<&Identity>;
    let mut forms = BTreeSet::new();
    for (node, _, served) in own.iter().filter(|(_, of, _)| *of == step) {
        match step {
            Step::Backfilled => {
                let known = report.backfilled_objects.iter().filter(|known| known.object.is(key));
                let Some(known) = known.into_iter().find(|known| known.served_generation == *served) else { continue };
                object = Some(&known.object);
                forms.insert(serving(known));
            }
            Step::Replaced => {
                object = report.replaced_by_steps().map(|known| &known.object).find(|known| known.is(key));
                forms.insert(format!(
                    "{} answers {served}",
                    if node.section.is_empty() { "it" } else { &*node.section }
                ));
            }
            Step::Excluded | Step::Current => {
                object = report.excluded_by_steps().map(|known| &known.object).find(|known| known.is(key));
                forms.insert(left_out(&node.section));
            }
        }
    }
    let reason = match step {
        Step::Backfilled => "Backfilled",
        Step::Replaced => "Replaced",
        Step::Excluded | Step::Current => "Excluded",
    };
    let forms = forms.into_iter().collect::<Vec<_>>().join("; ");
    let why = object.map(|object| why(report, object)).unwrap_or_default();
    Some(Condition::new(FALLBACK_CONDITION, true, reason, format!("{forms}; {why}")))
}

/// Returns the rules of a route: `rules[0]` and so on.
fn rules(plan: &RoutePlan) -> BTreeSet<String> {
    let served = plan.routes.iter().map(|route| route.node().section.to_string());
    served.chain(plan.replaced.iter().map(|replaced| replaced.section.clone())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
