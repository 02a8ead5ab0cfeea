//! Health in stories: the findings in the form of expectations, and their consistency with what Envoys have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::ListenerEntry;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::{Body, kinds};
use holdfast_api::fault::Fault;
use holdfast_engine::engine::Engine;
use holdfast_engine::health::view::{DetectedBy, Gets, ServedInstead};
use holdfast_engine::health::{Health, HealthFinding, Outside, Severity, SourceState};
use holdfast_engine::report::ListenerView;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;
use holdfast_test_support::scopes::scopes;
use holdfast_xds::ResourceType;
use prost::Message as _;
use serde_json::Value;

use super::envoy::Envoy;
use super::expect::name;
use super::invariants;
use super::stage::StoryStage;

/// Returns the health of the story's Holdfast.
pub(super) fn health(stage: &StoryStage, engine: &Engine) -> Health {
    let mut connected: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for envoy in stage.envoys.values().filter(|envoy| envoy.connected) {
        *connected.entry(envoy.id.fleet.clone()).or_default() += 1;
    }
    let input = SourceState { read: true, objects: engine.objects().len(), ..SourceState::default() };
    engine.health(Outside { input, connected, ..Outside::default() })
}

fn findings(health: &Health) -> impl Iterator<Item = (Severity, &HealthFinding)> {
    Severity::ALL.into_iter().flat_map(|severity| health.of(severity).iter().map(move |finding| (severity, finding)))
}

/// Returns the objects that a finding names, except those at fault.
fn affected(finding: &HealthFinding) -> BTreeSet<ObjectKey> {
    let own: BTreeSet<ObjectKey> = finding.objects.iter().map(|subject| subject.object.key()).collect();
    let served = finding.served.iter().map(|served| &served.object);
    served.chain(&finding.affected).map(|object| object.key()).filter(|key| !own.contains(key)).collect()
}

/// Returns every finding about objects: by its objects, the severity and the other objects that it affects. An object
/// with several findings has one entry with all of them.
pub(super) fn shown(health: &Health) -> BTreeMap<String, String> {
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (severity, finding) in findings(health).filter(|(_, finding)| finding.detected_by != DetectedBy::Envoys) {
        let objects: BTreeSet<String> = finding.objects.iter().map(|subject| name(&subject.object.key())).collect();
        let others: Vec<String> = affected(finding).iter().map(name).collect();
        let others = if others.is_empty() { String::new() } else { format!(", affects {}", others.join(", ")) };
        let objects = objects.into_iter().collect::<Vec<_>>().join(", ");
        shown.entry(objects).or_default().insert(format!("{} {}{others}", severity.name(), finding.reason));
    }
    shown
        .into_iter()
        .map(|(objects, findings)| (objects, findings.into_iter().collect::<Vec<_>>().join("; ")))
        .collect()
}

/// Returns the fields at fault of an object in all findings, each after the generation that has it: `2 spec.rules[0]`.
pub(super) fn fields(health: &Health, object: &str) -> String {
    let subjects = findings(health).flat_map(|(_, finding)| &finding.objects);
    let own = subjects.filter(|subject| name(&subject.object.key()) == object);
    let fields: BTreeSet<String> =
        own.map(|subject| format!("{} {}", subject.generation.unwrap_or_default(), subject.field)).collect();
    fields.into_iter().collect::<Vec<_>>().join(", ")
}

/// Checks that a finding has a cause, that what it reports as not served is not served, and that each route that is not
/// accepted is in a finding.
pub(super) fn check(stage: &StoryStage, engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    consequences_are_no_findings(engine, health, wrong);
    what_is_not_served_is_not_there(stage, engine, health, wrong);
    plain_ports_that_are_open_refuse_nothing(engine, health, wrong);
    routes_that_are_not_accepted_are_in_a_finding(engine, health, wrong);
    routes_at_closed_listeners_are_in_their_findings(engine, health, wrong);
    routes_without_any_listener_are_not_there(stage, engine, health, wrong);
    routes_in_findings_of_listeners_refer_to_them(engine, health, wrong);
}

/// Checks that no finding of translation is about an object of which all faults follow from faults of other objects.
fn consequences_are_no_findings(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    let faults: Vec<Fault> = engine.faults().into_iter().filter(Fault::is_error).collect();
    let of = |key: &ObjectKey| faults.iter().filter(|fault| fault.object == *key).collect::<Vec<_>>();
    let follows = |fault: &&Fault| {
        fault.cause.as_ref().is_some_and(|cause| of(cause).iter().any(|behind| behind.cause.is_none()))
    };
    let translated = findings(health).filter(|(_, finding)| finding.detected_by == DetectedBy::Translation);
    for subject in translated.flat_map(|(_, finding)| &finding.objects) {
        let key = subject.object.key();
        let own: Vec<&Fault> = of(&key).into_iter().filter(|fault| fault.field == subject.field).collect();
        if !own.is_empty() && own.iter().all(follows) {
            wrong.push(format!("{key} has a finding, and its fault follows from another object: {own:?}"));
        }
    }
}

/// Checks that no Envoy has a route of an object with an outage that lists no part of it: such an outage reads "it is
/// not served".
fn what_is_not_served_is_not_there(stage: &StoryStage, engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    let routed = [kinds::HTTP_ROUTE, kinds::GRPC_ROUTE, kinds::HTTP_PROXY];
    for finding in health.outages.iter().filter(|finding| finding.served.is_empty()) {
        for key in finding.objects.iter().map(|subject| subject.object.key()) {
            let mut envoys = stage.envoys.values().filter(|envoy| is_served(envoy, engine));
            if routed.contains(&&*key.kind)
                && let Some(envoy) = envoys.find(|envoy| has_routes_of(envoy, &key))
            {
                wrong.push(format!("{key} is not served, and {} has routes of it: {finding:?}", envoy.id.node));
            }
        }
    }
}

/// Checks whether an Envoy applies what it is sent. An Envoy of a Gateway that was deleted keeps what it has.
fn is_served(envoy: &Envoy, engine: &Engine) -> bool {
    // During a trial, the other Envoys keep what they have.
    let is_busy = || invariants::scope_of(envoy, &scopes(engine)).is_some_and(|scope| scope.busy);
    let is_up_to_date = envoy.connected && !envoy.silent && !envoy.ignores;
    is_up_to_date && engine.fleet(&envoy.id.fleet).is_some() && !is_busy()
}

/// Checks whether an Envoy serves a route of an object.
fn has_routes_of(envoy: &Envoy, key: &ObjectKey) -> bool {
    let part = format!("{}/{}/{}/", key.kind.to_lowercase(), key.namespace, key.name);
    let mut tables = envoy.taken.iter().filter(|((kind, _), _)| *kind == ResourceType::Route);
    tables.any(|(_, resource)| serves(&resource.body, &part))
}

/// Checks whether a route configuration serves a route with this prefix of its name. A closed route has a direct response.
fn serves(body: &[u8], part: &str) -> bool {
    let routes =
        RouteConfiguration::decode(body).unwrap_or_default().virtual_hosts.into_iter().flat_map(|host| host.routes);
    let mut served = routes.filter(|route| !matches!(route.action, Some(Action::DirectResponse(_))));
    served.any(|route| route.name.starts_with(part))
}

/// Checks that connections are not reported as refused at a plain port with a served listener.
fn plain_ports_that_are_open_refuse_nothing(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    let gateways = engine.gateways();
    let refused = health.outages.iter().flat_map(|finding| &finding.served);
    let refused: Vec<_> = refused
        .filter(|served| served.gets == Gets::Refused && &*served.object.kind == kinds::GATEWAY)
        .filter_map(|served| {
            let gateway = gateways.iter().find(|gateway| gateway.name == served.gateway)?;
            let index = served.section.strip_prefix("listeners[")?.strip_suffix(']')?;
            Some((gateway, gateway.listeners.get(index.parse::<usize>().ok()?)?))
        })
        .collect();
    for (gateway, listener) in refused.iter().filter(|(_, listener)| &*listener.protocol == "HTTP") {
        let is_refused = |name: &str| refused.iter().any(|(of, one)| of.name == gateway.name && *one.name == *name);
        let is_open = |other: &ListenerView| other.serving && other.port == listener.port && !is_refused(&other.name);
        if gateway.listeners.iter().any(is_open) {
            wrong.push(format!("connections to {} are reported as refused, and its port is open", listener.name));
        }
    }
}

/// Checks that each route that a parent does not accept is in a finding.
fn routes_that_are_not_accepted_are_in_a_finding(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    let named: BTreeSet<ObjectKey> = findings(health)
        .flat_map(|(_, finding)| {
            affected(finding).into_iter().chain(finding.objects.iter().map(|subject| subject.object.key()))
        })
        .collect();
    for status in engine.statuses().into_iter().filter(|status| !named.contains(&status.object)) {
        let parents = status.status.get("parents").and_then(Value::as_array).into_iter().flatten();
        let conditions = parents.filter_map(|parent| parent.get("conditions")?.as_array()).flatten();
        let text = |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).map(str::to_owned);
        let is_refusal = |condition: &&Value| {
            text(condition, "type").as_deref() == Some("Accepted")
                && text(condition, "status").as_deref() == Some("False")
        };
        if let Some(condition) = conditions.into_iter().find(is_refusal) {
            wrong.push(format!("{} is in no finding, and has the condition {condition}", status.object));
        }
    }
}

/// Checks that the findings of a listener of a Gateway or ListenerSet that refuses connections list as many routes as are
/// attached to it. A more specific listener of the port can have all hosts of a route.
fn routes_at_closed_listeners_are_in_their_findings(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    for gateway in engine.gateways() {
        for (index, listener) in gateway.listeners.iter().enumerate() {
            let Some((owner, section)) = writer(engine, &gateway.name, index, &listener.name) else { continue };
            let is_it = |served: &&ServedInstead| {
                served.object.key() == owner
                    && served.gateway == gateway.name
                    && *served.section == *section
                    && is_without_connections(served)
            };
            let is_about = |finding: &&HealthFinding| finding.served.iter().any(|served| is_it(&served));
            let about: Vec<&HealthFinding> = health.outages.iter().filter(is_about).collect();
            let routes =
                about.iter().flat_map(|finding| &finding.served).filter(|served| served.gateway == gateway.name);
            let is_route = |key: &ObjectKey| kinds::ROUTES.contains(&&*key.kind) || &*key.kind == kinds::HTTP_PROXY;
            let routes: BTreeSet<ObjectKey> = routes.map(|served| served.object.key()).filter(is_route).collect();
            let attached = usize::try_from(listener.attached_routes).unwrap_or_default();
            let is_wider = gateway.listeners.iter().any(|other| is_more_specific(other, listener));
            if !about.is_empty() && !is_wider && routes.len() < attached {
                wrong.push(format!(
                    "{owner} {section} is closed, and of its {attached} routes its findings list {routes:?}: {about:?}"
                ));
            }
        }
    }
}

/// Returns the object that a listener is written in, and its section there. The listeners of the Gateway itself come
/// first; the name of a listener of a ListenerSet contains those of the set.
fn writer(engine: &Engine, gateway: &str, index: usize, listener: &str) -> Option<(ObjectKey, String)> {
    let mut parts = listener.splitn(3, '/');
    let key = |kind: &str, namespace: &str, name: &str| ObjectKey::new(GROUP, kind, namespace, name);
    let (Some(namespace), Some(name), Some(section)) = (parts.next(), parts.next(), parts.next()) else {
        let (namespace, name) = gateway.split_once('/')?;
        return Some((key(kinds::GATEWAY, namespace, name), format!("listeners[{index}]")));
    };
    let owner = key(kinds::LISTENER_SET, namespace, name);
    let Body::ListenerSet(set) = &engine.objects().get(&owner)?.body else { return None };
    let index = set.listeners.iter().position(|entry| &*entry.name == section)?;
    Some((owner, format!("listeners[{index}]")))
}

fn is_more_specific(one: &ListenerView, other: &ListenerView) -> bool {
    let host = |listener: &ListenerView| Host::new(listener.hostname.as_ref());
    one.port == other.port && one.hostname != other.hostname && host(other).covers(&host(one))
}

/// Returns a route and the HTTPRoutes above it, by their statuses.
fn routes_above(engine: &Engine, key: &ObjectKey) -> BTreeSet<ObjectKey> {
    let statuses = engine.statuses();
    let (mut all, mut next) = (BTreeSet::new(), vec![key.clone()]);
    while let Some(key) = next.pop() {
        if !all.insert(key.clone()) {
            continue;
        }
        let own = statuses.iter().filter(|status| status.object == key);
        let parents = own.filter_map(|status| status.status.get("parents")?.as_array()).flatten();
        let references = parents.filter_map(|parent| parent.get("parentRef"));
        next.extend(references.filter(|reference| reference["kind"] == kinds::HTTP_ROUTE).map(|reference| {
            let text = |field: &str| reference.get(field).and_then(Value::as_str);
            let namespace = text("namespace").unwrap_or(&key.namespace);
            ObjectKey::new(GROUP, kinds::HTTP_ROUTE, namespace, text("name").unwrap_or_default())
        }));
    }
    all
}

/// Checks that each route that a finding about listeners alone affects refers to one of these listeners, or is below an
/// HTTPRoute that does.
fn routes_in_findings_of_listeners_refer_to_them(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    for (_, finding) in findings(health) {
        let at_fault = finding.objects.iter().map(|subject| listener_at(engine, &subject.object.key(), &subject.field));
        let Some(listeners) = at_fault.collect::<Option<Vec<(ObjectKey, ListenerEntry)>>>() else { continue };
        let refers = |key: &ObjectKey, reference: &ParentRef| {
            listeners.iter().any(|(owner, listener)| {
                let namespace = reference.namespace.as_ref().unwrap_or(&key.namespace);
                let kind = reference.kind.as_deref().unwrap_or(kinds::GATEWAY);
                let is_owner = reference.name == owner.name && *namespace == owner.namespace && *kind == *owner.kind;
                let port = listener.written.as_ref().map(|written| written.port);
                let is_port = reference.port.is_none() || port.is_none() || reference.port == port;
                let section = reference.section_name.as_ref();
                is_owner && is_port && section.is_none_or(|section| *section == listener.name)
            })
        };
        for key in affected(finding) {
            let object = engine.objects().get(&key);
            let Some(route) = object.and_then(|object| object.body.route()) else { continue };
            let uses_default = || {
                let owners = listeners.iter().filter_map(|(owner, _)| engine.objects().get(owner));
                let mut defaults = owners.filter(|owner| matches!(&owner.body, Body::Gateway(own) if own.is_default));
                route.uses_default_gateways() && defaults.next().is_some()
            };
            let above = routes_above(engine, &key);
            let of_routes = above.iter().filter_map(|key| Some((key, engine.objects().get(key)?.body.route()?)));
            let mut all = of_routes.flat_map(|(key, route)| route.parents().iter().map(move |of| (key, of)));
            if !all.any(|(key, reference)| refers(key, reference)) && !uses_default() {
                wrong.push(format!("{key} refers to no listener of the finding that affects it: {finding:?}"));
            }
        }
    }
}

/// Returns the listener that a field of an object belongs to, with that object.
fn listener_at(engine: &Engine, key: &ObjectKey, field: &str) -> Option<(ObjectKey, ListenerEntry)> {
    let listeners = match &engine.objects().get(key)?.body {
        Body::Gateway(gateway) => &gateway.listeners,
        Body::ListenerSet(set) => &set.listeners,
        _ => return None,
    };
    let (index, _) = field.strip_prefix("spec.listeners[")?.split_once(']')?;
    Some((key.clone(), listeners.get(index.parse::<usize>().ok()?)?.clone()))
}

fn is_without_connections(served: &ServedInstead) -> bool {
    matches!(served.gets, Gets::Refused | Gets::PortInUse)
}

/// Checks that no Envoy of a Gateway has routes of a route object with connections that are reported as refused at all
/// of its listeners.
fn routes_without_any_listener_are_not_there(
    stage: &StoryStage,
    engine: &Engine,
    health: &Health,
    wrong: &mut Vec<String>,
) {
    let is_lost = |served: &&ServedInstead| {
        let nowhere = served.section.is_empty() && served.listener.is_none();
        nowhere && kinds::ROUTES.contains(&&*served.object.kind) && is_without_connections(served)
    };
    for served in health.outages.iter().flat_map(|finding| &finding.served).filter(is_lost) {
        let key = served.object.key();
        let at = |envoy: &&Envoy| envoy.id.fleet == served.gateway && is_served(envoy, engine);
        if let Some(envoy) = stage.envoys.values().filter(at).find(|envoy| has_routes_of(envoy, &key)) {
            wrong.push(format!("{key} is reported as not served, and {} has routes of it: {served:?}", envoy.id.node));
        }
    }
}
