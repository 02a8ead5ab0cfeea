//! What a rule must not lack while it is served in another version: the protections of its desired version, and the
//! backends that its desired version has.

use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteConfiguration};
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::apis::{Body, kinds};
use holdfast_check::header::modifiable_name;
use holdfast_engine::engine::Event;
use holdfast_envoy::encode::names::{EXTERNAL_AUTH, backend, kind_of_filter};
use holdfast_graph::ObjectKey;
use holdfast_test_support::scopes::ScopeSeen;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;
use serde::Serialize;
use serde_json::Value;

use super::envoy::Envoy;
use super::stage::StoryStage;

/// The status of a rule without a backend.
const NO_BACKEND: u32 = 500;

/// Checks a route that forwards; `key` is its object.
pub(super) fn protected(stage: &StoryStage, envoy: &Envoy, route: &Route, key: &ObjectKey, wrong: &mut Vec<String>) {
    let Some(rule) = desired(stage, route, key) else { return };
    let Some(Action::Route(action)) = &route.action else { return };
    let mut lost = |what: &str| wrong.push(format!("{} serves {} without {what}", envoy.id.node, route.name));
    let filters = written(&rule.filters);
    if filters.iter().any(|filter| filter["requestRedirect"]["scheme"] == "https") {
        lost("the redirect to https that is desired");
    }
    let is_authorized = || route.typed_per_filter_config.keys().any(|name| kind_of_filter(name) == EXTERNAL_AUTH);
    if filters.iter().any(|filter| filter["type"] == "ExternalAuth") && !is_authorized() {
        lost("the external authorization that is desired");
    }
    if filters.iter().any(|filter| filter["urlRewrite"]["hostname"].is_string())
        && action.host_rewrite_specifier.is_none()
    {
        lost("the rewrite of the host that is desired");
    }
    let at_backends = rule.backend_refs.iter().flatten().map(|backend| removed(&written(&backend.filters)));
    let by_all = at_backends.reduce(|one, other| one.into_iter().filter(|name| other.contains(name)).collect());
    for name in removed(&filters).into_iter().chain(by_all.unwrap_or_default()) {
        if !is_removed(route, action, &name) {
            lost(&format!("the removal of the request header {name} that is desired"));
        }
    }
    if let Some(what) = lost_at_backends(rule, action, &key.namespace, is_authorized()) {
        lost(what);
    }
    let withheld = filters.iter().flat_map(|filter| names(&filter["responseHeaderModifier"]["remove"]));
    for name in withheld {
        if !removes(&route.response_headers_to_remove, &route.response_headers_to_add, &name) {
            lost(&format!("the removal of the response header {name} that is desired"));
        }
    }
}

/// Returns the protection that every reference of the desired rule to one of the backends of a route has, and that the
/// route does not have.
fn lost_at_backends(
    rule: &HttpRule,
    action: &RouteAction,
    namespace: &str,
    is_authorized: bool,
) -> Option<&'static str> {
    let clusters: Vec<&str> = match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => vec![name],
        Some(ClusterSpecifier::WeightedClusters(all)) => all.clusters.iter().map(|cluster| &*cluster.name).collect(),
        _ => vec![],
    };
    let references = |cluster: &str| -> Vec<Vec<Value>> {
        let Some((key, _)) = backend(cluster) else { return vec![] };
        let own = rule.backend_refs.iter().flatten().filter(|reference| {
            *reference.name == *key.name && reference.namespace.as_deref().unwrap_or(namespace) == &*key.namespace
        });
        own.map(|reference| written(&reference.filters)).collect()
    };
    let all_have = |wanted: &dyn Fn(&Value) -> bool| {
        let each = clusters.iter().map(|cluster| references(cluster));
        each.into_iter().any(|all| !all.is_empty() && all.iter().all(|filters| filters.iter().any(wanted)))
    };
    if all_have(&|filter| filter["requestRedirect"]["scheme"] == "https") {
        return Some("the redirect to https that is desired for its backend");
    }
    let is_open = !is_authorized && all_have(&|filter| filter["type"] == "ExternalAuth");
    is_open.then_some("the external authorization that is desired for its backend")
}

/// Checks that no rule answers 500 for a missing backend where its desired version has one and is not broken. What is
/// held, or kept by an Envoy that refuses newer content, is older than its backends.
pub(super) fn answered(envoy: &Envoy, scope: &ScopeSeen, wanted: &Snapshot, wrong: &mut Vec<String>) {
    if scope.held_as_a_whole || scope.alone.contains(&envoy.id.node) {
        return;
    }
    for ((_, name), resource) in envoy.taken.iter().filter(|((kind, _), _)| *kind == ResourceType::Route) {
        let Some(wanted) = wanted.get(ResourceType::Route, name).filter(|_| !scope.held.contains(&**name)) else {
            continue;
        };
        let desired = routes(&wanted.body);
        // A guard that needs a broken client certificate closes its routes.
        let lacks_certificate = scope.broken.keys().any(|node| &*node.key.kind == kinds::SECRET);
        let is_closed = |route: &Route| lacks_certificate && !route.typed_per_filter_config.is_empty();
        let forwards =
            |name: &str| desired.iter().any(|route| route.name == name && has_backend(route) && !is_closed(route));
        let failing = routes(&resource.body).into_iter().filter(|route| fails(route) && !is_broken(scope, route));
        for route in failing.filter(|route| forwards(&route.name)) {
            wrong.push(format!("{} answers {NO_BACKEND} for {}, which has a backend", envoy.id.node, route.name));
        }
    }
}

/// Returns whether the rule of a route, or its object as a whole, is broken.
fn is_broken(scope: &ScopeSeen, route: &Route) -> bool {
    let parts: Vec<&str> = route.name.split('/').collect();
    let [_, namespace, name, rule, ..] = parts[..] else { return false };
    let section = format!("rules[{rule}]");
    let mut broken = scope.broken.keys().filter(|node| *node.key.namespace == *namespace && *node.key.name == *name);
    broken.any(|node| node.section.is_empty() || *node.section == *section)
}

fn routes(body: &[u8]) -> Vec<Route> {
    let configuration = RouteConfiguration::decode(body).unwrap_or_default();
    configuration.virtual_hosts.into_iter().flat_map(|host| host.routes).collect()
}

fn has_backend(route: &Route) -> bool {
    !super::never::clusters(route).is_empty()
}

fn fails(route: &Route) -> bool {
    let is_rule = route.name.starts_with("httproute/");
    is_rule && matches!(&route.action, Some(Action::DirectResponse(answer)) if answer.status == NO_BACKEND)
}

/// Returns the desired version of the rule of a route.
fn desired<'a>(stage: &'a StoryStage, route: &Route, key: &ObjectKey) -> Option<&'a HttpRule> {
    let Event::Applied(object, _) = stage.objects.get(key)? else { return None };
    let Body::HttpRoute(body) = &object.body else { return None };
    let index: usize = route.name.split('/').nth(3)?.parse().ok()?;
    match body.rules.get(index)? {
        RuleEntry::Decoded(rule) => Some(rule),
        RuleEntry::Broken { .. } => None,
    }
}

fn written(filters: &impl Serialize) -> Vec<Value> {
    match serde_json::to_value(filters) {
        Ok(Value::Array(filters)) => filters,
        _ => Vec::new(),
    }
}

/// Returns the request headers that filters remove or overwrite.
fn removed(filters: &[Value]) -> Vec<String> {
    let edits = filters.iter().map(|filter| &filter["requestHeaderModifier"]);
    edits.flat_map(|edits| names(&edits["remove"]).into_iter().chain(names(&edits["set"]))).collect()
}

/// Returns the names of a list of headers, or of names, that can be changed.
fn names(list: &Value) -> Vec<String> {
    let entries = list.as_array().into_iter().flatten();
    let names = entries.filter_map(|entry| entry.as_str().or_else(|| entry["name"].as_str()));
    names.filter(|name| modifiable_name(name).is_ok()).map(str::to_ascii_lowercase).collect()
}

/// Returns whether no backend of a route receives a header from clients.
fn is_removed(route: &Route, action: &RouteAction, name: &str) -> bool {
    let at_backends = match &action.cluster_specifier {
        Some(ClusterSpecifier::WeightedClusters(weighted)) => weighted
            .clusters
            .iter()
            .all(|cluster| removes(&cluster.request_headers_to_remove, &cluster.request_headers_to_add, name)),
        _ => false,
    };
    at_backends || removes(&route.request_headers_to_remove, &route.request_headers_to_add, name)
}

/// Returns whether these edits remove or overwrite a header.
fn removes(removed: &[String], added: &[HeaderValueOption], name: &str) -> bool {
    let overwrite = HeaderAppendAction::OverwriteIfExistsOrAdd;
    let mut set = added.iter().filter(|option| option.append_action() == overwrite);
    removed.iter().any(|removed| removed.eq_ignore_ascii_case(name))
        || set.any(|option| option.header.as_ref().is_some_and(|header| header.key.eq_ignore_ascii_case(name)))
}
