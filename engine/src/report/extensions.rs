//! Statuses of objects that policies and rules reference: DirectResponses and GatewayExtensions.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::apis::kgateway::extension::GatewayExtension;
use holdfast_api::fault::Class;
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use serde_json::{Value, json};

use super::policies::{ANCESTORS_MAX, reference};
use crate::engine::Engine;
use crate::report::conditions;
use crate::report::events::explained;

/// Returns the status of a DirectResponse, for each Gateway with a route that references it.
pub(super) fn answer_status(
    engine: &Engine,
    report: &FallbackReport,
    key: &ObjectKey,
    generation: i64,
) -> Option<Value> {
    let mut gateways: BTreeMap<&ObjectKey, BTreeSet<&str>> = BTreeMap::new();
    for route in engine.translator.routes_reading(key) {
        let Some(plan) = engine.translator.route(&route) else { continue };
        let closed = plan.replaced.iter().filter(|replaced| replaced.policy.as_ref() == Some(key));
        let closed: BTreeSet<&str> = closed.map(|replaced| &*replaced.message).collect();
        for parent in &plan.parents {
            gateways.entry(&parent.gateway).or_default().extend(closed.iter().copied());
        }
    }
    let own = format!("{} {}: ", key.kind, key.namespaced_name());
    let ancestors = gateways.into_iter().take(ANCESTORS_MAX).map(|(gateway, closed)| {
        let messages = closed.iter().map(|message| message.strip_prefix(&own).unwrap_or(message));
        let message = messages.collect::<Vec<_>>().join("; ");
        let fallback = backfilled_at(report, key, &gateway.namespaced_name());
        let attached = || Condition::new("Attached", true, "Attached", "a rule references the DirectResponse");
        let conditions = match fallback {
            _ if closed.is_empty() => {
                vec![Condition::new("Accepted", true, "Valid", "the direct response is served"), attached()]
            }
            Some(fallback) => {
                let message = format!("an earlier version of the DirectResponse is served: {message}");
                vec![Condition::new("Accepted", false, "Invalid", message), attached(), fallback]
            }
            None => {
                let message = format!("the rules that reference the DirectResponse are closed: {message}");
                let effect = "requests to the rules that reference the DirectResponse get an error response";
                vec![
                    Condition::new("Accepted", false, "Invalid", message),
                    Condition::new("Attached", false, "Pending", "the direct response cannot be served"),
                    Condition::new(FALLBACK_CONDITION, true, "Replaced", explained(report, key, effect)),
                ]
            }
        };
        let conditions = conditions.into_iter().map(|condition| condition.of_generation(generation));
        json!({
            "ancestorRef": reference(gateway, None),
            "controllerName": engine.settings().controller_name,
            "conditions": conditions.collect::<Vec<_>>(),
        })
    });
    Some(json!({ "ancestors": ancestors.collect::<Vec<_>>() }))
}

/// Returns the condition `holdfast.dev/Fallback` of an object with its last valid version in use at a Gateway.
fn backfilled_at(report: &FallbackReport, key: &ObjectKey, gateway: &str) -> Option<Condition> {
    conditions::condition(report, key, gateway).filter(|condition| condition.reason == "Backfilled")
}

/// Returns the status of a GatewayExtension: whether the policies that reference it can use it.
pub(super) fn extension_status(
    engine: &Engine,
    report: &FallbackReport,
    key: &ObjectKey,
    extension: &GatewayExtension,
    generation: i64,
) -> Value {
    let unread = extension.unread.iter().map(|unread| format!("{}: {}", unread.field, unread.message));
    let mut wrong: BTreeSet<String> = unread.collect();
    let refused = engine.translator.plans().into_keys().filter_map(|gateway| engine.refused_policy(key, gateway));
    wrong.extend(refused);
    let mut invalid = !wrong.is_empty();
    for (_, plan) in engine.translator.policies() {
        let Some((class, message)) = plan.blamed.get(key) else { continue };
        invalid |= *class == Class::Invalid;
        wrong.extend(message.split("; ").map(str::to_owned));
    }
    let fallback = report.gateways.iter().find_map(|gateway| backfilled_at(report, key, &gateway.name));
    let accepted = match wrong.is_empty() {
        true => Condition::new("Accepted", true, "Accepted", "policies can use the GatewayExtension"),
        false => {
            let mut readers = engine.translator.policies_reading(key).into_iter();
            let is_in_use = fallback.is_some() && !readers.any(|policy| engine.is_unenforced_anywhere(&policy));
            let effect = match is_in_use {
                true => "policies use an earlier version of the GatewayExtension",
                false => "routes of policies that use the GatewayExtension are closed",
            };
            let reasons = wrong.into_iter().collect::<Vec<_>>().join("; ");
            let message = explained(report, key, &format!("{effect}: {reasons}"));
            Condition::new("Accepted", false, if invalid { "Invalid" } else { "Pending" }, message)
        }
    };
    let conditions = std::iter::once(accepted).chain(fallback);
    json!({ "conditions": conditions.map(|condition| condition.of_generation(generation)).collect::<Vec<_>>() })
}
