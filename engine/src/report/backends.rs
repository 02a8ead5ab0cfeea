//! Statuses of policies of backends, and of Backends.

use std::collections::BTreeMap;

use holdfast_api::apis::Body;
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use holdfast_translate::backend_policy::plan::BackendPlan;
use holdfast_translate::query::effects::PolicyEffect;
use serde_json::{Value, json};

use super::conditions;
use super::policies::{ANCESTORS_MAX, reference};
use crate::engine::Engine;
use crate::report::events::explained;

/// Effect of backends that are closed.
const CLOSED: &str = "requests to the target backends of the policy are answered with status 500";
/// Effect of a policy that Envoys refuse: where each rule is replaced, its status is a setting.
const REFUSED: &str = "requests to the target backends of the policy get an error response";

/// Returns the status of a policy of backends.
pub(super) fn backend_policy_status(engine: &Engine, report: &FallbackReport, object: &Object) -> Option<Value> {
    let plan = engine.translator.backend(&object.key)?;
    let effects = engine.translator.policy_effects(&object.key, engine.objects());
    let mut ancestors: Vec<(Value, Vec<Condition>)> = effects
        .into_iter()
        .map(|(gateway, effect)| {
            let closed = if plan.unenforceable.is_some() { CLOSED } else { REFUSED };
            let served = PolicyAtEnvoys::at(engine, report, &object.key, &gateway, closed);
            (reference(&gateway, None), conditions(object, plan, effect, served))
        })
        .collect();
    // A target without an effective ancestor is the ancestor itself.
    for target in &plan.targets {
        let Some(why) = &target.missing else { continue };
        let conditions = match &object.body {
            Body::BackendTlsPolicy(_) => {
                vec![Condition::new("Accepted", false, "TargetNotFound", &**why), resolved(plan)]
            }
            _ => {
                let missing = Condition::new("Accepted", false, "TargetNotFound", &**why);
                let accepted = Some(accepted(plan)).filter(|_| plan.unenforceable.is_some()).unwrap_or(missing);
                vec![accepted, Condition::new("Attached", false, "TargetNotFound", &**why)]
            }
        };
        ancestors.push((reference(&target.key, target.section.as_deref()), conditions));
    }
    let generation = object.metadata.generation;
    let ancestors = ancestors.into_iter().take(ANCESTORS_MAX).map(|(ancestor, conditions)| {
        let conditions = conditions.into_iter().map(|condition| condition.of_generation(generation));
        json!({
            "ancestorRef": ancestor,
            "controllerName": engine.settings().controller_name,
            "conditions": conditions.collect::<Vec<_>>(),
        })
    });
    Some(json!({ "ancestors": ancestors.collect::<Vec<_>>() }))
}

/// Returns whether a policy of backends cannot be enforced because of its own content.
pub(super) fn is_invalid(engine: &Engine, policy: &ObjectKey) -> bool {
    let Some(plan) = engine.translator.backend(policy).filter(|plan| plan.unenforceable.is_some()) else {
        return false;
    };
    let mut errors = plan.faults.iter().filter(|fault| fault.is_error()).peekable();
    // Faults of decoding are not among those of the plan.
    errors.peek().is_none() || errors.any(|fault| fault.class == Class::Invalid)
}

/// Returns the status of a Backend.
pub(super) fn backend_status(engine: &Engine, report: &FallbackReport, object: &Object) -> Option<Value> {
    let plan = engine.translator.backend(&object.key)?;
    let accepted = match &plan.unenforceable {
        None => Condition::new("Accepted", true, "Accepted", "the Backend can be used"),
        Some(why) => {
            let message = format!("requests to the Backend are answered with status 500: {why}");
            Condition::new("Accepted", false, "Invalid", explained(report, &object.key, &message))
        }
    };
    Some(json!({ "conditions": [accepted.of_generation(object.metadata.generation)] }))
}

/// Returns the policies that configure each backend.
pub(super) fn backend_origins(engine: &Engine) -> Value {
    let mut origins: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for plan in engine.translator.routes().into_values() {
        for backend in &plan.backends {
            let configured = backend.tuned.iter().filter_map(|tuned| tuned.upstream.configured.as_ref());
            let policies: Vec<String> =
                configured.flat_map(|configured| &configured.origins).map(ToString::to_string).collect();
            if !policies.is_empty() {
                origins.insert(holdfast_envoy::encode::names::cluster(backend), policies);
            }
        }
    }
    json!(origins)
}

/// What the Envoys of a Gateway have instead of a desired policy.
struct PolicyAtEnvoys {
    /// The condition of an earlier version.
    fallback: Option<Condition>,
    /// Why the desired version is not served, although translation accepts it.
    refused: Option<String>,
    /// What clients get while it is closed, and why no earlier version is served.
    closed: String,
}

impl PolicyAtEnvoys {
    fn at(engine: &Engine, report: &FallbackReport, key: &ObjectKey, gateway: &ObjectKey, effect: &str) -> Self {
        let fallback = conditions::condition(report, key, &gateway.namespaced_name());
        Self {
            fallback: fallback.filter(|condition| condition.reason == "Backfilled"),
            refused: engine.refused_policy(key, gateway),
            closed: explained(report, key, effect),
        }
    }
}

fn conditions(object: &Object, plan: &BackendPlan, effect: PolicyEffect, served: PolicyAtEnvoys) -> Vec<Condition> {
    let is_tls = matches!(&object.body, Body::BackendTlsPolicy(_));
    let desired = match (is_tls, &plan.unenforceable, &plan.conflicted) {
        (true, None, Some(other)) => Condition::new("Accepted", false, "Conflicted", &**other),
        (true, ..) => accepted_as_upstream(plan),
        (false, ..) => accepted(plan),
    };
    let is_closed = served.fallback.is_none() && (served.refused.is_some() || plan.unenforceable.is_some());
    let accepted = match (&served.fallback, &served.refused) {
        (Some(_), refused) => {
            let why = refused.as_deref().or(plan.unenforceable.as_deref());
            let message = format!("an earlier version of the policy is enforced: {}", why.unwrap_or_default());
            Condition::new("Accepted", false, "Invalid", message)
        }
        (None, Some(why)) if plan.unenforceable.is_none() => {
            Condition::new("Accepted", false, "Invalid", format!("{REFUSED}: {why}"))
        }
        _ => desired,
    };
    let mut conditions = vec![accepted, if is_tls { resolved(plan) } else { attached(is_closed, effect) }];
    if effect.tls_overridden {
        let message = "a BackendTLSPolicy for the same backend overrides spec.tls";
        conditions.push(Condition::new("Overridden", true, "ConflictedWithBackendTLSPolicy", message));
    }
    let closed = is_closed && plan.conflicted.is_none();
    let closed = closed.then(|| Condition::new(FALLBACK_CONDITION, true, "Replaced", &*served.closed));
    conditions.extend(served.fallback.or(closed));
    conditions
}

fn accepted(plan: &BackendPlan) -> Condition {
    match &plan.unenforceable {
        None => Condition::new("Accepted", true, "Valid", "the policy is enforced"),
        Some(why) => Condition::new("Accepted", false, "Invalid", format!("{CLOSED}: {why}")),
    }
}

fn attached(is_closed: bool, effect: PolicyEffect) -> Condition {
    if is_closed {
        return Condition::new("Attached", false, "Pending", "the policy cannot be enforced");
    }
    match effect {
        PolicyEffect { overridden: true, .. } => {
            Condition::new("Attached", false, "Overridden", "other policies override every field of the policy")
        }
        PolicyEffect { merged: true, .. } => {
            Condition::new("Attached", true, "Merged", "other policies override some fields of the policy")
        }
        _ => Condition::new("Attached", true, "Attached", "the policy is attached"),
    }
}

/// Returns `Accepted` with the reasons of Gateway API.
fn accepted_as_upstream(plan: &BackendPlan) -> Condition {
    match &plan.unenforceable {
        None => Condition::new("Accepted", true, "Accepted", "the policy is enforced"),
        Some(why) => {
            let reason = if plan.lacks_authorities { "NoValidCACertificate" } else { "Invalid" };
            Condition::new("Accepted", false, reason, format!("{CLOSED}: {why}"))
        }
    }
}

fn resolved(plan: &BackendPlan) -> Condition {
    match &plan.unresolved {
        None => Condition::new("ResolvedRefs", true, "ResolvedRefs", "every reference was resolved"),
        Some((reason, why)) => Condition::new("ResolvedRefs", false, *reason, why.to_string()),
    }
}
