//! The published configuration of Envoy against the configuration that the desired objects have when they are translated
//! alone, without refusals and without last valid versions.
//!
//! Only a subset of the routes is translated. So a resource that is made from all routes is compared in the parts that
//! belong to the subset: routes by their rule, virtual hosts and listeners without their lists of routes and filters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_api::section;
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_envoy::encode::names;
use holdfast_envoy::inspect::routes;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot, to_json};
use serde_json::Value;

use super::facts::DiffFacts;
use super::lines::{DiffLine, compare};
use super::manifest::text;
use super::subset::is_route;
use crate::explain::rule_section;

/// Kinds with objects that belong to routes, and not to virtual hosts.
const OF_ROUTES: [&str; 4] = [kinds::SERVICE, kinds::ENDPOINT_SLICE, kinds::SECRET, kinds::BACKEND];

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

/// The parts of the resources of a Gateway, by name.
type PartsByName = BTreeMap<String, ResourcePart>;

/// Returns the differences at all Gateways. A part that the desired objects do not have, and what an object with a fault
/// of translation is in, has no desired configuration to compare with.
pub(super) fn differences(facts: &DiffFacts) -> Vec<ConfigurationDifference> {
    let desired = DesiredConfiguration::new(facts);
    let mut differences = Vec::new();
    for (gateway, snapshot) in &desired.published {
        let is_wanted = |kind, name: &str| snapshot.get(kind, name).is_some();
        let published = facts.published.get(gateway);
        let served = published.map(|published| parts(published, facts, &is_wanted)).unwrap_or_default();
        for (name, wanted) in parts(snapshot, facts, &|_, _| true) {
            let served = served.get(&name);
            let owners = served.into_iter().chain([&wanted]).flat_map(|part| part.owners.iter().cloned()).collect();
            if !desired.is_known(&owners, wanted.section.as_deref()) {
                continue;
            }
            let served = served.map(|part| yaml(&part.content)).unwrap_or_default();
            let lines = compare(&served, &yaml(&wanted.content), &BTreeMap::new());
            if !lines.is_empty() {
                differences.push(ConfigurationDifference { gateway: gateway.clone(), part: name, owners, lines });
            }
        }
    }
    differences
}

/// The configuration that the desired objects of the subset have.
struct DesiredConfiguration {
    published: BTreeMap<Arc<str>, Snapshot>,
    /// The objects with a fault of translation, with the section of the fault.
    at_fault: BTreeSet<(ObjectKey, String)>,
}

impl DesiredConfiguration {
    fn new(facts: &DiffFacts) -> Self {
        let mut engine = Engine::new(facts.settings.clone());
        let now = u64::try_from(facts.now).unwrap_or_default().saturating_mul(1000);
        let is_compared = |key: &ObjectKey| !is_route(key) || facts.subset.routes.contains(key);
        let mut objects: Vec<_> = facts.objects.iter().filter(|object| is_compared(&object.key)).collect();
        objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let applied = objects.into_iter().map(|object| Event::Applied(Box::new((**object).clone()), Vec::new()));
        let actions = engine.handle(std::iter::once(Event::Clock(now)).chain(applied).collect());
        let published = actions.into_iter().filter_map(|action| match action {
            Action::Publish { gateway, offers } => Some((gateway, offers.everyone)),
            _ => None,
        });
        let published = published.collect();
        // Faults of decoding, and conflicts with routes that are not in the subset, are known to the running engine only.
        let faults = engine.faults().into_iter().chain(facts.faults.iter().cloned()).filter(Fault::is_error);
        let faults = faults.flat_map(|fault| {
            let section = section::unit(&fault.field).to_owned();
            let cause = fault.cause.map(|cause| (cause, String::new()));
            cause.into_iter().chain([(fault.object, section)])
        });
        let replaced = engine.replacements().into_iter().map(|replacement| (replacement.object, replacement.section));
        let unreadable = facts.unreadable.iter().map(|key| (key.clone(), String::new()));
        // A version with desired sections has rules at other positions.
        let mixed = facts
            .reports
            .fallback
            .backfilled_objects
            .iter()
            .filter(|backfilled| !backfilled.desired_sections.is_empty());
        let mixed = mixed.map(|backfilled| (backfilled.object.key(), String::new()));
        Self { published, at_fault: faults.chain(replaced).chain(unreadable).chain(mixed).collect() }
    }

    /// Returns whether the desired content of a part is known. `section` is the rule of a route.
    fn is_known(&self, owners: &BTreeSet<ObjectKey>, section: Option<&str>) -> bool {
        // A fault of another rule does not concern this one; a fault of anything else of a route concerns all its rules.
        let is_other_rule = |other: &str| match section {
            Some(section) => *other != *section && (other.starts_with("rules[") || other.starts_with("routes[")),
            None => false,
        };
        !self.at_fault.iter().any(|(object, other)| owners.contains(object) && !is_other_rule(other))
    }
}

/// Returns the parts of these resources.
fn parts(snapshot: &Snapshot, facts: &DiffFacts, is_wanted: &dyn Fn(ResourceType, &str) -> bool) -> PartsByName {
    let mut parts = PartsByName::new();
    let wanted = |kind| snapshot.of(kind).values().filter(move |resource| is_wanted(kind, &resource.name));
    // Most routes of a large Gateway are not in the subset.
    let is_compared =
        |name: &str| names::object_of_route(name).is_some_and(|owner| facts.subset.routes.contains(&owner));
    for resource in wanted(ResourceType::Route) {
        let table = to_json(ResourceType::Route, &routes::only(&resource.body, &is_compared));
        route_parts(&table, facts, &resource.origins.iter().cloned().collect(), &mut parts);
    }
    for kind in [ResourceType::Listener, ResourceType::Cluster] {
        for resource in wanted(kind) {
            let owners: BTreeSet<ObjectKey> = resource.origins.iter().cloned().collect();
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
    let is_wanted = origins.intersection(&facts.targets).any(|key| !is_route(key));
    let is_setting = |key: &&ObjectKey| is_wanted && !is_route(key) && !OF_ROUTES.contains(&&*key.kind);
    let owners: BTreeSet<ObjectKey> = origins.iter().filter(is_setting).cloned().collect();
    for host in table.get("virtualHosts").and_then(Value::as_array).into_iter().flatten() {
        let place = format!("RDS {name}, virtual host {}", text(host, "name"));
        let mut is_compared = false;
        for route in host.get("routes").and_then(Value::as_array).into_iter().flatten() {
            let route_name = text(route, "name");
            let owner = names::object_of_route(&route_name).filter(|owner| facts.subset.routes.contains(owner));
            let Some((owner, rule)) = owner.zip(names::rule_of_route(&route_name)) else { continue };
            let section = rule_section(&facts.objects, &owner, &rule);
            let part =
                parts.entry(format!("{place}, {} {} {section}", owner.kind, owner.namespaced_name())).or_default();
            part.section = Some(section);
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
