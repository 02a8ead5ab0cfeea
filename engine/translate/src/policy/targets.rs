//! Targets of a policy, and whether they exist.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kgateway::targets::{TargetRef, Targets, may_be_written};
use holdfast_api::apis::kinds;
use holdfast_api::fault::at;
use holdfast_graph::ObjectKey;

use super::reading::Reading;
use crate::outcome::listener::Traffic;
use crate::precedence::attachment::{Target, strange};

/// Kinds that TrafficPolicies can be attached to.
const OF_TRAFFIC: [&str; 4] = [kinds::GATEWAY, kinds::LISTENER_SET, kinds::HTTP_ROUTE, kinds::GRPC_ROUTE];

/// Reads the targets of a policy. A missing target is reported: users must not assume that the policy is effective.
pub(super) fn read(key: &ObjectKey, targets: &Targets, reading: &mut Reading<'_, '_>) -> Vec<Target> {
    let mut found = Vec::new();
    for (index, target) in &targets.references {
        let field = at("spec.targetRefs", *index);
        let named = ObjectKey::new(&*target.group, &*target.kind, &*key.namespace, &*target.name);
        let missing = missing(key, target, &named, reading);
        if let Some(message) = &missing {
            reading.ignored(field, "TargetNotFound", message);
        }
        let missing = missing.map(Arc::from);
        found.push(Target { key: named, section: target.section_name.clone(), missing });
    }
    for (index, target) in &targets.selectors {
        let field = at("spec.targetSelectors", *index);
        if target.match_labels.is_empty() {
            reading.ignored(&field, "TargetNotFound", "matchLabels is empty and selects nothing");
        }
        let is_accepted = may_be_written(&key.kind, &target.group, &target.kind);
        if is_accepted && !may_target(key, &target.group, &target.kind) {
            reading.ignored(field, "TargetNotFound", strange(key, &target.group, &target.kind));
        }
    }
    found
}

/// Checks whether policies of this kind can be attached to objects of that kind.
pub(super) fn may_target(key: &ObjectKey, group: &str, kind: &str) -> bool {
    group == GROUP && (kind == kinds::GATEWAY || (&*key.kind == kinds::TRAFFIC_POLICY && OF_TRAFFIC.contains(&kind)))
}

/// Returns why an accepted target is ineffective.
fn missing(key: &ObjectKey, target: &TargetRef, named: &ObjectKey, reading: &mut Reading<'_, '_>) -> Option<String> {
    if !may_be_written(&key.kind, &target.group, &target.kind) {
        return None;
    }
    if !may_target(key, &target.group, &target.kind) {
        return Some(strange(key, &target.group, &target.kind));
    }
    let Some(object) = reading.reader.object(named) else {
        return Some(format!("{} {} does not exist", named.kind, named.namespaced_name()));
    };
    let section = target.section_name.as_ref()?;
    if forwards_connections(&object.body, section) && *key.kind == *kinds::TRAFFIC_POLICY {
        return Some(format!(
            "listener {section:?} of {} {} forwards connections: a {} applies to requests, so that this \
             target is ignored",
            named.kind,
            named.namespaced_name(),
            key.kind
        ));
    }
    let has = match &object.body {
        Body::Gateway(gateway) => gateway.listeners.iter().any(|listener| listener.name == *section),
        Body::ListenerSet(set) => set.listeners.iter().any(|listener| listener.name == *section),
        body => body.route().is_some_and(|route| route.rule_names().contains(&Some(&**section))),
    };
    let part = if matches!(&*target.kind, kinds::GATEWAY | kinds::LISTENER_SET) { "listener" } else { "rule" };
    (!has).then(|| format!("{} {} has no {part} {section:?}", named.kind, named.namespaced_name()))
}

/// Returns whether a listener, by its name in a Gateway or ListenerSet, forwards connections.
fn forwards_connections(body: &Body, section: &str) -> bool {
    let entries = match body {
        Body::Gateway(gateway) => &gateway.listeners,
        Body::ListenerSet(set) => &set.listeners,
        _ => return false,
    };
    let named = entries.iter().filter(|listener| *listener.name == *section);
    let mut written = named.filter_map(|listener| listener.written.as_ref());
    written.any(|written| Traffic::of(&written.protocol, written.tls.as_ref()) != Traffic::Requests)
}
