//! Policies that protect a route today: no request is forwarded without them. Checked in the bytes that Envoys have.
//!
//! Every good version of a policy with the name prefix `guard` adds a header with its name. The settings of a route
//! override those of its virtual host, and these override those of the route configuration; therefore the most specific
//! guards must be visible.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use envoy_types::pb::google::protobuf::Any;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::object::Object;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;

use super::envoy::Envoy;
use super::stage::StoryStage;

/// Annotation of an HTTPRoute that delegates, about the order of its policies and those below.
const PRIORITY: &str = "kgateway.dev/inherited-policy-priority";

/// Checks a route that forwards; `key` is its object.
pub fn guarded(
    stage: &StoryStage,
    envoy: &Envoy,
    at: (&RouteConfiguration, &VirtualHost, &Route),
    key: &ObjectKey,
    wrong: &mut Vec<String>,
) {
    let (configuration, host, route) = at;
    let Some(object) = object(stage, key) else { return };
    let index = route.name.split('/').nth(3).and_then(|rule| rule.parse().ok());
    let mut levels: [(Vec<&str>, &HashMap<String, Any>); 3] = [
        (of_route_or_above(stage, object, (index, &route.name)), &route.typed_per_filter_config),
        (Vec::new(), &host.typed_per_filter_config),
        (Vec::new(), &configuration.typed_per_filter_config),
    ];
    let (namespace, name) = envoy.id.fleet.split_once('/').unwrap_or_default();
    let is_gateway = |own: &&ObjectKey| &*own.kind == "Gateway" && *own.namespace == *namespace && *own.name == *name;
    if let Some(gateway) = stage.objects.keys().find(is_gateway) {
        let domain = host.domains.first().map_or("*", String::as_str);
        let listener = match self::object(stage, gateway).map(|object| &object.body) {
            Some(Body::Gateway(gateway)) => listener(gateway, &configuration.name, domain),
            _ => None,
        };
        for (guard, section) in guards(stage, gateway) {
            match section {
                None => levels[2].0.push(guard),
                Some(section) if Some(section) == listener.as_deref() => {
                    let at = if configuration.name.starts_with("https/") { 2 } else { 1 };
                    levels[at].0.push(guard);
                }
                Some(_) => {}
            }
        }
    }
    let Some((guards, settings)) = levels.iter().find(|(guards, _)| !guards.is_empty()) else { return };
    let marks = guards.iter().map(|guard| format!("guarded-by-{guard} "));
    let is_there = |mark: String| {
        settings.values().any(|config| config.value.windows(mark.len()).any(|window| window == mark.as_bytes()))
    };
    if !marks.into_iter().any(is_there) {
        let node = &envoy.id.node;
        wrong.push(format!("{node} serves {} in {} without {}", route.name, configuration.name, guards.join(", ")));
    }
}

fn object<'a>(stage: &'a StoryStage, key: &ObjectKey) -> Option<&'a Object> {
    match stage.objects.get(key)? {
        Event::Applied(object, _) => Some(object),
        _ => None,
    }
}

/// Returns the guards that refer to an object, each with the section in the reference.
fn guards<'a>(stage: &'a StoryStage, target: &ObjectKey) -> Vec<(&'a str, Option<&'a str>)> {
    // A deleted policy still applies for a moment.
    let known = stage.engine.iter().flat_map(|engine| engine.objects().iter()).map(|object| &**object);
    let waiting = known.filter(|object| !stage.objects.contains_key(&object.key));
    let written = stage.objects.keys().filter_map(|key| self::object(stage, key));
    let policies = written.chain(waiting).filter(|object| {
        let key = &object.key;
        &*key.kind == "TrafficPolicy" && key.name.starts_with("guard") && key.namespace == target.namespace
    });
    let mut found = Vec::new();
    for object in policies {
        let key = &object.key;
        let Body::TrafficPolicy(policy) = &object.body else { continue };
        let named = policy.targets.references.iter().map(|(_, reference)| reference);
        let named = named.filter(|reference| reference.kind == target.kind && reference.name == target.name);
        found.extend(named.map(|reference| (&*key.name, reference.section_name.as_deref())));
    }
    found
}

/// Returns the guards that apply to a rule of a route: its own, or those of the HTTPRoute that delegates to it, which the
/// name of the served route contains. Those above come first for a route of another namespace, unless the annotation of
/// the route above allows others; every guard sets a header, which protects.
fn of_route_or_above<'a>(
    stage: &'a StoryStage,
    object: &'a Object,
    (index, name): (Option<usize>, &str),
) -> Vec<&'a str> {
    let own = of_route(stage, object, index);
    let Some((_, above)) = name.split_once("/below/") else { return own };
    let parts: Vec<&str> = above.split('/').collect();
    let [namespace, name, rule, ..] = parts[..] else { return own };
    let is_it = |key: &&ObjectKey| &*key.kind == "HTTPRoute" && (&*key.namespace, &*key.name) == (namespace, name);
    let Some(above) = stage.objects.keys().find(is_it).and_then(|key| self::object(stage, key)) else { return own };
    let inherited = of_route(stage, above, rule.parse().ok());
    let is_first = match above.metadata.annotations.get(PRIORITY).map(String::as_str) {
        Some("ShallowMergePreferChild") => false,
        Some(_) => true,
        None => *object.key.namespace != *namespace,
    };
    let [first, second] = if is_first { [inherited, own] } else { [own, inherited] };
    if first.is_empty() { second } else { first }
}

/// Returns the guards of a rule of a route.
fn of_route<'a>(stage: &'a StoryStage, object: &'a Object, index: Option<usize>) -> Vec<&'a str> {
    let Body::HttpRoute(route) = &object.body else { return Vec::new() };
    let rule = index.and_then(|index| route.rules.get(index)).and_then(|rule| match rule {
        RuleEntry::Decoded(rule) => Some(rule),
        RuleEntry::Broken { .. } => None,
    });
    let name = rule.and_then(|rule| rule.name.as_deref());
    let attached = guards(stage, &object.key).into_iter();
    let attached = attached.filter(|(_, section)| section.is_none_or(|section| Some(section) == name));
    let filters = rule.into_iter().flat_map(|rule| rule.filters.iter().flatten());
    let named = filters.filter_map(|filter| filter.extension_ref.as_ref()).map(|reference| &*reference.name);
    attached.map(|(guard, _)| guard).chain(named.filter(|name| name.starts_with("guard"))).collect()
}

/// Returns the listener that serves a host in a route configuration.
fn listener(gateway: &Gateway, configuration: &str, domain: &str) -> Option<String> {
    if let Some(name) = configuration.strip_prefix("https/") {
        return Some(name.to_owned());
    }
    let port: i32 = configuration.strip_prefix("http/")?.parse().ok()?;
    let covers = |pattern: &str| match pattern.strip_prefix('*') {
        Some(suffix) => domain.ends_with(suffix),
        None => pattern == domain,
    };
    let written = gateway.listeners.iter().filter_map(|entry| entry.written.as_ref());
    let here = written.filter(|listener| listener.port == port && &*listener.protocol == "HTTP");
    let here = here.map(|listener| (listener.hostname.as_deref().unwrap_or("*"), &listener.name));
    let own = here.filter(|(pattern, _)| covers(pattern));
    own.max_by_key(|(pattern, _)| (!pattern.starts_with('*'), pattern.len())).map(|(_, name)| name.to_string())
}
