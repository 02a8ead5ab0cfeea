//! Audit of policies: each policy that is attached to an object now is enforced there, or the object is closed.
//!
//! Attachments are read from policies and targets in their written form; enforcement is read from what would be served.
//! Whether a stand-in version of a policy has the required settings is checked by independent code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::filter::RouteFilter;
use holdfast_api::apis::gateway::route::{RouteRule, RuleEntry};
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_envoy::model::{Action, Precedence, Route};
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::ListenerState;
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::policy::level::Level;
use holdfast_translate::precedence::merge::Origins;
use holdfast_translate::route::RoutePlan;
use serde_json::Value;

use super::today::Today;
use super::{About, Objection, delegation, listener_policies, traffic};
use crate::eligibility::annotation::FALLBACK_ANNOTATION;
use crate::plan::world::World;

/// Fields that protect nothing: fields for observability, and fields that only change how requests are forwarded or
/// answered.
const FREE: [&str; 23] = [
    "tracing",
    "statPrefix",
    "httpSettings.accessLog",
    "httpSettings.tracing",
    "timeouts",
    "retry",
    "urlRewrite",
    "autoHostRewrite",
    "requestMirror",
    "internalRedirect",
    "faultInjection",
    "compression",
    "compression.responseCompression",
    "compression.requestDecompression",
    "httpSettings.localReplies",
    "httpSettings.serverHeaderTransformation",
    "httpSettings.serverName",
    "httpSettings.upgradeConfig",
    "httpSettings.healthCheck",
    "httpSettings.proxy100Continue",
    "httpSettings.generateRequestId",
    "httpSettings.preserveExternalRequestId",
    "httpSettings.uuidRequestIdConfig",
];

/// Returns objections to policies with settings other than the desired ones.
pub(super) fn stand_ins(overlay: &Overlay, world: &World<'_>, today: &Today<'_>) -> Vec<Objection> {
    let mut found = Vec::new();
    for (key, plan) in &overlay.policies {
        let mut object = |about, why: &str| found.push(Objection::whole(key, about, why));
        let Some(desired) = today.object(key) else {
            object(About::Existence, "the policy was deleted, and would be served again");
            continue;
        };
        if plan.unenforceable.is_some() {
            continue;
        }
        match overlay.objects.get(key) {
            // The policy is read from an object that is served in another version, and has its desired settings with
            // that version.
            None => {
                let read =
                    BTreeMap::from_iter(overlay.objects.iter().map(|(key, object)| (key.clone(), object.clone())));
                let under = Overlay { objects: read, ..Overlay::default() };
                let expected = world.translator.try_policy_under(key, &under, world.objects);
                let is_same = |expected: &PolicyPlan| {
                    expected.unenforceable.is_none()
                        && expected.settings == plan.settings
                        && expected.ports == plan.ports
                };
                if !expected.is_some_and(|expected| is_same(&expected))
                    && let Some(why) = not_only_left_out(desired, plan, world)
                {
                    object(About::Security, &why);
                }
            }
            Some(stand_in) => {
                let expected = world.translator.try_policy(stand_in, world.objects);
                if expected
                    .is_none_or(|expected| expected.settings != plan.settings || expected.unenforceable.is_some())
                {
                    object(About::Security, "its settings would not be those of the stand-in version");
                }
                if let Some(why) = weaker(desired, stand_in) {
                    object(About::Security, &why);
                }
            }
        }
    }
    let policies = overlay.objects.keys().chain(&overlay.hidden).filter(|key| is_policy(key));
    for key in policies.filter(|key| !overlay.policies.contains_key(*key)) {
        found.push(Objection::whole(
            key,
            About::Security,
            "the served version of the policy would not be its enforced version",
        ));
    }
    found
}

/// Returns why a policy would lack a protecting setting, or would have a setting that differs from the desired one;
/// `None` if it would only lack settings that protect nothing.
fn not_only_left_out(desired: &Object, plan: &PolicyPlan, world: &World<'_>) -> Option<String> {
    let Some(current) = world.translator.policy(&desired.key) else { return Some("no version of it is known".into()) };
    if current.unenforceable.is_some() {
        return Some("the desired policy cannot be enforced, and would be treated as enforced".into());
    }
    if !current.ports.keys().eq(plan.ports.keys()) {
        return Some("it would apply to other ports than the desired version".into());
    }
    let written = spec(desired);
    let pairs = current.ports.iter().zip(plan.ports.values()).map(|((_, now), then)| (now, then));
    for (now, then) in pairs.chain([(&current.settings, &plan.settings)]) {
        if then.iter().any(|(field, piece)| now.get(field) != Some(piece)) {
            return Some("it would have a setting that no version of it has".into());
        }
        let lacks = now.keys().filter(|field| !then.contains_key(*field));
        if let Some(field) = lacks.into_iter().find(|field| !is_free(field, &written)) {
            return Some(format!("it would lack a setting that protects: {field}"));
        }
    }
    None
}

fn spec(object: &Object) -> Value {
    match &object.body {
        Body::TrafficPolicy(policy) => serde_json::to_value(&policy.spec).unwrap_or_default(),
        Body::ListenerPolicy(policy) => serde_json::to_value(&policy.spec).unwrap_or_default(),
        _ => Value::Null,
    }
}

/// Checks whether a field of a policy protects nothing, as the policy is written.
pub(super) fn is_free_of(field: &str, policy: &Object) -> bool {
    is_free(field, &spec(policy))
}

/// Checks whether a field can be left out because it protects nothing.
fn is_free(field: &str, spec: &Value) -> bool {
    let adds_only = |field: &str| {
        let ways = spec.get(field).and_then(Value::as_object).into_iter().flat_map(|ways| ways.values());
        let lists = |way: &Value| ["set", "remove"].into_iter().any(|list| way.get(list).is_some_and(is_filled));
        let secret = spec.get(field).is_some_and(|written| written.to_string().contains("secretRef\":{"));
        !secret && !ways.into_iter().any(lists)
    };
    FREE.contains(&field) || (matches!(field, "headerModifiers" | "transformation") && adds_only(field))
}

fn is_filled(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

fn is_policy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && matches!(&*key.kind, kinds::TRAFFIC_POLICY | kinds::LISTENER_POLICY)
}

/// Returns, in a sentence, what an earlier version of a policy lacks; `None` if it lacks nothing.
fn weaker(today: &Object, then: &Object) -> Option<String> {
    let trusted = today.metadata.annotations.get(FALLBACK_ANNOTATION).is_some_and(|value| value == "last-valid");
    if let (Body::ListenerPolicy(now), Body::ListenerPolicy(last)) = (&today.body, &then.body) {
        return listener_policies::weaker(now, last, trusted);
    }
    let (Body::TrafficPolicy(now), Body::TrafficPolicy(last)) = (&today.body, &then.body) else {
        return Some("its stand-in version is not a policy".into());
    };
    if !trusted && (!now.unread.is_empty() || now.spec.is_none()) {
        return Some("not every field that protects can be decoded".into());
    }
    let (Some(now), Some(then)) = (now.spec.as_ref(), last.spec.as_ref()) else {
        return last.spec.is_none().then(|| "the earlier version cannot be decoded".into());
    };
    traffic::weaker(now, then, trusted)
}

/// Returns objections to rules of a route that would be served without a policy that is attached to them now.
pub(super) fn of_route(
    object: &Object,
    plan: &RoutePlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    let attached = today.attached(object);
    // Rules are the rules of the served version.
    let served = overlay.objects.get(&object.key).map_or(object, |served| &**served);
    let mut found = Vec::new();
    let nothing = (BTreeSet::new(), Origins::new());
    for rendered in plan.routes.iter().filter(|rendered| !is_closed(&rendered.route.action, world)) {
        let (name, mut named) = rule(served, rendered.route.precedence.rule);
        named.extend(named_by_backend(served, &rendered.route));
        let own = attached.iter().filter(|(_, section)| section.is_none_or(|section| Some(section) == name.as_deref()));
        let merged = rendered.delegated().map(|of| &of.policies);
        let (keys, origins) = merged.or(plan.merged.get(&rendered.route.section)).unwrap_or(&nothing);
        let inherited = delegation::inherited(rendered, overlay, today);
        for policy in own.map(|(policy, _)| *policy).chain(&named).chain(inherited) {
            if let Some(why) = missing(policy, keys.contains(policy), origins, 0, overlay, world) {
                let node = Node::section(object.key.clone(), rendered.route.section.clone());
                found.push(Objection::new(node, About::Security, why));
            }
        }
        if let Some(why) = delegation::weakened(rendered, origins, overlay, world, today) {
            let node = Node::section(object.key.clone(), rendered.route.section.clone());
            found.push(Objection::new(node, About::Security, why));
        }
    }
    found
}

/// Returns, for each rule of a route, the protecting policies that are attached to it by its name or that it names.
pub(super) fn of_rules(object: &Object, today: &Today<'_>) -> Vec<BTreeSet<ObjectKey>> {
    let count = object.body.route().map_or(0, |route| route.rule_count());
    let attached = today.attached(object);
    let of = |index| {
        let (name, named) = rule(object, index);
        let own = attached.iter().filter(|(_, section)| section.is_some() && *section == name.as_deref());
        own.map(|(policy, _)| (*policy).clone()).chain(named).filter(|policy| guards(policy, today)).collect()
    };
    (0..count).map(of).collect()
}

/// Checks whether a policy protects, or may do so.
pub(super) fn guards(policy: &ObjectKey, today: &Today<'_>) -> bool {
    match today.object(policy).map(|policy| &policy.body) {
        Some(Body::TrafficPolicy(policy)) => {
            !policy.unread.is_empty() || policy.spec.as_ref().is_none_or(traffic::guards)
        }
        _ => false,
    }
}

/// Returns objections to rules of an earlier version of a route with content that cannot be read: a policy that is attached
/// to one of its rules may be meant for any of them.
pub(super) fn of_unreadable(served: &Object, plan: &RoutePlan, world: &World<'_>, today: &Today<'_>) -> Vec<Objection> {
    let attached = today.attached(served).into_iter().filter(|(_, section)| section.is_some());
    let guarding: Vec<&ObjectKey> = attached.map(|(policy, _)| policy).filter(|policy| guards(policy, today)).collect();
    let mut found = Vec::new();
    let nothing = BTreeSet::new();
    for rendered in plan.routes.iter().filter(|rendered| !is_closed(&rendered.route.action, world)) {
        let merged = rendered.delegated().map(|of| &of.policies).or(plan.merged.get(&rendered.route.section));
        let keys = merged.map_or(&nothing, |(keys, _)| keys);
        if let Some(policy) = guarding.iter().find(|policy| !keys.contains(**policy)) {
            let node = Node::section(served.key.clone(), rendered.route.section.clone());
            let why = format!(
                "it lacks the policy {policy}, which is attached to a rule: the content cannot be read, so that it is \
                 unknown which requests this rule has now"
            );
            found.push(Objection::new(node, About::Security, why));
        }
    }
    found
}

/// Returns the policies that the filters of a route of this object name.
fn policies_of(object: &Object, filters: &[RouteFilter]) -> Vec<ObjectKey> {
    let namespace = &*object.key.namespace;
    let references = filters.iter().filter_map(|filter| filter.extension_ref.as_ref());
    let policies = references.filter(|reference| reference.group == GROUP && reference.kind == kinds::TRAFFIC_POLICY);
    policies.map(|reference| ObjectKey::new(GROUP, kinds::TRAFFIC_POLICY, namespace, &*reference.name)).collect()
}

/// Returns the policies that the backend of a share of requests names.
fn named_by_backend(object: &Object, route: &Route) -> Vec<ObjectKey> {
    let Precedence { rule, share, .. } = &route.precedence;
    let backends = match &object.body {
        Body::HttpRoute(route) => route.rules.get(*rule).and_then(RuleEntry::guards).map(RouteRule::backends),
        Body::GrpcRoute(route) => route.rules.get(*rule).and_then(RuleEntry::guards).map(RouteRule::backends),
        _ => None,
    };
    // A backend without a weight has no share: the index is that of a route with all requests.
    let backend = backends.and_then(|backends| backends.get(*share)).filter(|backend| backend.weight != Some(0));
    backend.map(|backend| policies_of(object, backend.filters.as_deref().unwrap_or_default())).unwrap_or_default()
}

/// Returns the name of a rule, and the policies that it names.
fn rule(object: &Object, index: usize) -> (Option<Arc<str>>, Vec<ObjectKey>) {
    let named = |filters: &[RouteFilter]| policies_of(object, filters);
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

/// Checks whether a direct response exposes nothing.
pub(super) fn is_closed(action: &Action, world: &World<'_>) -> bool {
    let replaced = world.settings.replacement.as_ref().map(|replacement| replacement.code);
    matches!(action, Action::Respond(response) if response.status >= 400 || Some(response.status) == replaced)
}

/// Returns why a policy is not enforced in a served scope at a port; `None` if it is.
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
        return Some(format!("{policy} cannot be enforced, and its targets would be served"));
    };
    let missing_field = plan.settings_at(port).keys().find(|field| !origins.contains_key(*field));
    match (takes_part, missing_field) {
        (false, _) => Some(format!("{policy} is attached to it, and would not be enforced there")),
        (true, Some(field)) => Some(format!("it lacks {field}, which {policy} sets")),
        (true, None) => None,
    }
}

/// Returns objections to policies of the Gateway and its listeners that would not be enforced there.
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
    for listener in gateway.listeners.iter().filter(|listener| listener.state != ListenerState::Out) {
        let table = levels.tables.get(&listener.table());
        let own = levels.listeners.get(&listener.name);
        let all: Vec<&Level> = table.into_iter().chain(own).map(|level| &**level).collect();
        if all.iter().any(|level| level.closed.is_some()) {
            continue;
        }
        // A TrafficPolicy applies to requests.
        let applies = |policy: &ObjectKey| !(listener.forwards() && *policy.kind == *kinds::TRAFFIC_POLICY);
        let meant = attached.iter().filter(|(_, section)| section.is_none_or(|section| *section == *listener.name));
        for (policy, _) in meant.filter(|(policy, _)| applies(policy)) {
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
