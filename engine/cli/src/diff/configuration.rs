//! The published configuration of Envoy against the configuration that the desired objects have when they are translated
//! alone, without refusals and without last valid versions.
//!
//! Only a subset of the routes is translated. So a resource that is made from all routes is compared in the parts that
//! belong to the subset: routes by their rule, virtual hosts and listeners without their lists of routes and filters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_envoy::encode::names;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot, to_json};
use serde_json::Value;

use super::facts::DiffFacts;
use super::lines::{DiffLine, compare};
use super::manifest::text;
use super::subset::is_route;
use crate::explain::rule_section;

/// A part of Envoy's configuration that differs.
#[derive(Debug)]
pub(super) struct ConfigurationDifference {
    /// `namespace/name` of the Gateway.
    pub(super) gateway: Arc<str>,
    /// The resource and the part of it.
    pub(super) part: String,
    /// The objects that the part belongs to.
    pub(super) owners: BTreeSet<ObjectKey>,
    /// The differences.
    pub(super) lines: Vec<DiffLine>,
}

/// A part of a resource as text, with its owners.
#[derive(Default)]
struct ResourcePart {
    owners: BTreeSet<ObjectKey>,
    /// The rule, of a route.
    section: Option<String>,
    content: Vec<Value>,
}

impl ResourcePart {
    /// Returns whether it belongs to one of the replaced rules.
    fn is_of(&self, replaced: &RulesReplaced) -> bool {
        let section = self.section.as_ref();
        section
            .is_some_and(|section| self.owners.iter().any(|owner| replaced.contains(&(owner.clone(), section.clone()))))
    }
}

/// The rules that translation replaces, by object and section.
type RulesReplaced = BTreeSet<(ObjectKey, String)>;

/// The parts of the resources of a Gateway, by name.
type PartsByName = BTreeMap<String, ResourcePart>;

/// Returns the differences at all Gateways.
pub(super) fn differences(facts: &DiffFacts) -> Vec<ConfigurationDifference> {
    let (desired, replaced) = desired(facts);
    let mut differences = Vec::new();
    for (gateway, snapshot) in &desired {
        let served = facts.published.get(gateway).map(|published| parts(published, facts)).unwrap_or_default();
        let wanted = parts(snapshot, facts);
        let names: BTreeSet<&String> = wanted.keys().chain(served.keys()).collect();
        for name in names {
            let one = |parts: &PartsByName| parts.get(name).map(|part| yaml(&part.content)).unwrap_or_default();
            let lines = compare(&one(&served), &one(&wanted), &BTreeMap::new());
            let owners: BTreeSet<ObjectKey> = [&served, &wanted]
                .into_iter()
                .filter_map(|parts| parts.get(name))
                .flat_map(|part| part.owners.clone())
                .collect();
            // What cannot be translated has no configuration to compare with.
            let is_replaced = wanted.get(name).is_some_and(|part| part.is_of(&replaced));
            if !lines.is_empty() && !is_replaced {
                differences.push(ConfigurationDifference {
                    gateway: gateway.clone(),
                    part: name.clone(),
                    owners,
                    lines,
                });
            }
        }
    }
    differences
}

/// Returns the configuration that the desired objects of the subset have, and the rules that translation replaces.
fn desired(facts: &DiffFacts) -> (BTreeMap<Arc<str>, Snapshot>, RulesReplaced) {
    let mut engine = Engine::new(facts.settings.clone());
    let now = u64::try_from(facts.now).unwrap_or_default().saturating_mul(1000);
    let is_compared = |key: &ObjectKey| !is_route(key) || facts.subset.routes.contains(key);
    let objects = facts.objects.sorted().into_iter().filter(|object| is_compared(&object.key));
    let applied = objects.map(|object| Event::Applied(Box::new((**object).clone()), Vec::new()));
    let actions = engine.handle(std::iter::once(Event::Clock(now)).chain(applied).collect());
    let published = actions.into_iter().filter_map(|action| match action {
        Action::Publish { gateway, offers } => Some((gateway, offers.everyone)),
        _ => None,
    });
    let replaced = engine.replacements().into_iter().map(|replacement| (replacement.object, replacement.section));
    (published.collect(), replaced.collect())
}

fn parts(snapshot: &Snapshot, facts: &DiffFacts) -> PartsByName {
    let mut parts = PartsByName::new();
    for resource in snapshot.of(ResourceType::Route).values() {
        route_parts(
            &to_json(ResourceType::Route, &resource.body),
            facts,
            &resource.origins.iter().cloned().collect(),
            &mut parts,
        );
    }
    for kind in [ResourceType::Listener, ResourceType::Cluster] {
        for resource in snapshot.of(kind).values() {
            let owners: BTreeSet<ObjectKey> = resource.origins.iter().cloned().collect();
            if owners.is_disjoint(&facts.targets) {
                continue;
            }
            let mut content = to_json(kind, &resource.body);
            // The filters are those that any route of the listener needs.
            without_filters(&mut content);
            let part = format!("{} {}", kind.short_name(), resource.name);
            parts.insert(part, ResourcePart { owners, section: None, content: vec![content] });
        }
    }
    parts
}

/// Adds the routes of the subset by their rules, and each virtual host without its routes.
fn route_parts(table: &Value, facts: &DiffFacts, origins: &BTreeSet<ObjectKey>, parts: &mut PartsByName) {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text(table, "name");
    // Policies of Gateways and listeners are settings of virtual hosts.
    let owners: BTreeSet<ObjectKey> =
        origins.intersection(&facts.targets).filter(|key| !is_route(key)).cloned().collect();
    for host in table.get("virtualHosts").and_then(Value::as_array).into_iter().flatten() {
        let place = format!("RDS {name}, virtual host {}", text(host, "name"));
        let mut is_compared = false;
        for route in host.get("routes").and_then(Value::as_array).into_iter().flatten() {
            let route_name = text(route, "name");
            let owner = names::object_of_route(&route_name).filter(|owner| facts.subset.routes.contains(owner));
            let Some((owner, rule)) = owner.zip(names::rule_of_route(&route_name)) else { continue };
            let part = parts.entry(format!("{place}, {} {} {rule}", owner.kind, owner.namespaced_name())).or_default();
            part.section = Some(rule_section(&facts.objects, &owner, &rule));
            part.owners.insert(owner);
            part.content.push(route.clone());
            is_compared = true;
        }
        if is_compared && !owners.is_empty() {
            let mut host = host.clone();
            host.as_object_mut().map(|fields| fields.remove("routes"));
            parts.insert(place, ResourcePart { owners: owners.clone(), section: None, content: vec![host] });
        }
    }
}

fn without_filters(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("httpFilters");
            fields.values_mut().for_each(without_filters);
        }
        Value::Array(values) => values.iter_mut().for_each(without_filters),
        _ => {}
    }
}

fn yaml(content: &[Value]) -> String {
    content.iter().map(text).collect::<Vec<_>>().join("---\n")
}
