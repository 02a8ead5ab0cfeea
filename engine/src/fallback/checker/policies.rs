//! Policies: whatever is attached to something today is enforced there, or what it is attached to is closed.
//!
//! What is attached is read from the policies and their targets as they are written; what is enforced from what would be
//! served. That a policy would say what it is to say is asked of the version that stands in, by its own code.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::{Node, ObjectKey};
use serde_json::Value;

use super::today::Today;
use super::{About, Objection, listener_policies};
use crate::apis::Body;
use crate::apis::gateway::route::{Rule as _, RuleEntry};
use crate::apis::kgateway::GROUP;
use crate::fallback::world::{FALLBACK_ANNOTATION, World};
use crate::model::Action;
use crate::object::Object;
use crate::policies::merge::Origins;
use crate::translate::gateway::GatewayPlan;
use crate::translate::listener::Standing;
use crate::translate::overlay::Overlay;
use crate::translate::policy::PolicyPlan;
use crate::translate::policy::level::Level;
use crate::translate::route::RoutePlan;

/// Fields that say who may enter: they are today's.
const WHO_MAY_ENTER: [&str; 8] =
    ["/basicAuth", "/apiKeyAuth", "/rbac", "/acl", "/jwtAuth", "/oauth2", "/cors", "/csrf"];
/// Fields that guard in another way: what is there today is there then, and switched on.
const GUARDS: [&str; 5] = ["/extAuth", "/extProc", "/buffer", "/rateLimit/local", "/rateLimit/global"];
/// Lists of headers that are taken away.
const REMOVALS: [&str; 4] = [
    "/headerModifiers/request/remove",
    "/headerModifiers/response/remove",
    "/transformation/request/remove",
    "/transformation/response/remove",
];

/// What is wrong with policies that would say something else than they are desired to.
pub(super) fn stand_ins(overlay: &Overlay, world: &World<'_>, today: &Today<'_>) -> Vec<Objection> {
    let mut found = Vec::new();
    for (key, plan) in &overlay.policies {
        let mut object = |about, why: &str| found.push(Objection::whole(key, about, why));
        let Some(desired) = today.object(key) else {
            object(About::Existence, "the policy was deleted, and would come back");
            continue;
        };
        if plan.unenforceable.is_some() {
            continue;
        }
        match overlay.objects.get(key) {
            None => object(About::Security, "it would say something that no version of it says"),
            Some(stand_in) => {
                let says = world.translator.try_policy(stand_in, world.objects);
                if says.is_none_or(|says| says.settings != plan.settings || says.unenforceable.is_some()) {
                    object(About::Security, "it would not say what the version that stands in says");
                }
                if let Some(why) = weaker(desired, stand_in) {
                    object(About::Security, &why);
                }
            }
        }
    }
    let policies = overlay.objects.keys().chain(&overlay.hidden).filter(|key| is_policy(key));
    for key in policies.filter(|key| !overlay.policies.contains_key(*key)) {
        found.push(Objection::whole(key, About::Security, "it would be read in another version than it is enforced"));
    }
    found
}

fn is_policy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && matches!(&*key.kind, "TrafficPolicy" | "ListenerPolicy")
}

/// What of today's policy an earlier version lacks, in a sentence.
fn weaker(today: &Object, then: &Object) -> Option<String> {
    let trusted = today.metadata.annotations.get(FALLBACK_ANNOTATION).is_some_and(|value| value == "last-valid");
    if let (Body::ListenerPolicy(now), Body::ListenerPolicy(last)) = (&today.body, &then.body) {
        return listener_policies::weaker(now, last, trusted);
    }
    let (Body::TrafficPolicy(now), Body::TrafficPolicy(last)) = (&today.body, &then.body) else {
        return Some("what would stand in for it is no policy".into());
    };
    if !trusted && (!now.unread.is_empty() || now.spec.is_none()) {
        return Some("nobody can read all that it is to protect".into());
    }
    let written = |spec: &Option<_>| serde_json::to_value(spec).unwrap_or_default();
    let (now, then) = (written(&now.spec), written(&last.spec));
    let at = |value: &Value, field: &str| value.pointer(field).filter(|value| !value.is_null()).cloned();
    let is_off = |value: &Value| value.get("disable").is_some_and(|off| !off.is_null());
    for field in WHO_MAY_ENTER {
        let (now, then) = (at(&now, field), at(&then, field));
        let on = |value: &Option<Value>| value.as_ref().is_some_and(|value| !is_off(value));
        if now != then && (!trusted || (on(&now) && !on(&then))) {
            return Some(format!("who may enter would not be who may today: {field}"));
        }
    }
    for field in GUARDS {
        let (now, then) = (at(&now, field), at(&then, field));
        let limits = |value: &Value| field != "/rateLimit/local" || at(value, "/tokenBucket").is_some();
        let on = |value: &Value| !is_off(value) && limits(value);
        let kept = match (&now, &then) {
            (Some(now), Some(then)) => on(now) == on(then),
            (Some(_), None) => false,
            (None, then) => then.as_ref().is_none_or(on),
        };
        if !kept {
            return Some(format!("what guards today would not be there: {field}"));
        }
    }
    let names = |value: &Value, field: &str| -> BTreeSet<String> {
        let names = at(value, field).and_then(|names| names.as_array().cloned()).unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(str::to_ascii_lowercase).collect()
    };
    let of_way = |value: &Value, way: &str| -> BTreeSet<String> {
        let fields = REMOVALS.into_iter().filter(|field| field.contains(way));
        fields.flat_map(|field| names(value, field)).collect()
    };
    let lacks = |way: &str| !of_way(&now, way).is_subset(&of_way(&then, way));
    (lacks("/request/") || lacks("/response/")).then(|| "headers that are taken away today would pass".into())
}

/// Rules of a route that would be served without a policy that is attached to them today.
pub(super) fn of_route(
    object: &Object,
    plan: &RoutePlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    let attached = today.attached(object);
    let mut found = Vec::new();
    let nothing = (BTreeSet::new(), Origins::new());
    for rendered in plan.routes.iter().filter(|rendered| !is_closed(&rendered.route.action, world)) {
        let (name, named) = rule(object, rendered.route.precedence.rule);
        let own = attached.iter().filter(|(_, section)| section.is_none_or(|section| Some(section) == name.as_deref()));
        let (keys, origins) = plan.merged.get(&rendered.route.section).unwrap_or(&nothing);
        for policy in own.map(|(policy, _)| *policy).chain(&named) {
            if let Some(why) = missing(policy, keys.contains(policy), origins, 0, overlay, world) {
                let node = Node::section(object.key.clone(), rendered.route.section.clone());
                found.push(Objection::new(node, About::Security, why));
            }
        }
    }
    found
}

/// The name of a rule, and the policies that it names.
fn rule(object: &Object, index: usize) -> (Option<Arc<str>>, Vec<ObjectKey>) {
    let namespace = &*object.key.namespace;
    let named = |filters: &[gateway_api::httproutes::HttpRouteRulesFilters]| {
        let references = filters.iter().filter_map(|filter| filter.extension_ref.as_ref());
        let policies = references.filter(|reference| reference.group == GROUP && reference.kind == "TrafficPolicy");
        policies.map(|reference| ObjectKey::new(GROUP, "TrafficPolicy", namespace, &*reference.name)).collect()
    };
    match &object.body {
        Body::HttpRoute(route) => match route.rules.get(index) {
            Some(RuleEntry::Decoded(rule)) => (rule.name.clone(), named(rule.filters())),
            Some(RuleEntry::Broken { name, .. }) => (name.clone(), Vec::new()),
            None => (None, Vec::new()),
        },
        Body::GrpcRoute(route) => match route.rules.get(index) {
            Some(RuleEntry::Decoded(rule)) => (rule.name.clone(), named(rule.filters())),
            Some(RuleEntry::Broken { name, .. }) => (name.clone(), Vec::new()),
            None => (None, Vec::new()),
        },
        _ => (None, Vec::new()),
    }
}

/// Does an answer open nothing?
fn is_closed(action: &Action, world: &World<'_>) -> bool {
    let replaced = world.settings.replacement.as_ref().map(|replacement| replacement.code);
    matches!(action, Action::Respond(response) if response.status >= 400 || Some(response.status) == replaced)
}

/// Why a policy is not enforced in a scope that is served, at a port.
fn missing(
    policy: &ObjectKey,
    takes_part: bool,
    origins: &Origins,
    port: i32,
    overlay: &Overlay,
    world: &World<'_>,
) -> Option<String> {
    let plan: Option<&PolicyPlan> =
        overlay.policies.get(policy).or_else(|| world.translator.policy(policy)).map(|plan| &**plan);
    let Some(plan) = plan.filter(|plan| plan.unenforceable.is_none()) else {
        return Some(format!("{policy} cannot be enforced, and what it is for would be served"));
    };
    let unsaid = plan.settings_at(port).keys().find(|field| !origins.contains_key(*field));
    match (takes_part, unsaid) {
        (false, _) => Some(format!("{policy} is attached to it and takes no part in it")),
        (true, Some(field)) => Some(format!("nobody says {field} to it, which {policy} does")),
        (true, None) => None,
    }
}

/// Policies of the Gateway and its listeners that would not be enforced there.
pub(super) fn of_gateway(
    gateway: &GatewayPlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    let Some(object) = today.object(world.gateway) else { return Vec::new() };
    let attached = today.attached(object);
    if attached.is_empty() {
        return Vec::new();
    }
    let levels = world.translator.try_levels(world.gateway, overlay, world.objects);
    let mut found = Vec::new();
    for listener in gateway.listeners.iter().filter(|listener| listener.standing != Standing::Out) {
        let table = levels.tables.get(&listener.table());
        let own = levels.listeners.get(&listener.name);
        let all: Vec<&Level> = table.into_iter().chain(own).map(|level| &**level).collect();
        if all.iter().any(|level| level.closed.is_some()) {
            continue;
        }
        let meant = attached.iter().filter(|(_, section)| section.is_none_or(|section| *section == *listener.name));
        for (policy, _) in meant {
            let part = all.iter().find(|level| level.keys.contains(policy));
            let nothing = Origins::new();
            let origins = part.map_or(&nothing, |level| &level.merged.origins);
            if let Some(why) = missing(policy, part.is_some(), origins, listener.declared_port, overlay, world) {
                let why = format!("listener {}: {why}", listener.name);
                found.push(Objection::whole(policy, About::Security, why));
            }
        }
    }
    found
}
