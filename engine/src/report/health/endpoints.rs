//! Services without endpoints: effects on the routes that forward to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::{Body, kinds};
use holdfast_api::fault::Class;
use holdfast_envoy::encode::names;
use holdfast_envoy::model::{Action, ServicePort, WeightedBackend};
use holdfast_fallback::served_state::speaking;
use holdfast_graph::ObjectKey;
use holdfast_translate::query::TcpHost;
use holdfast_translate::route::RoutePlan;
use holdfast_xds::ResourceType;

use super::{requests, served_version};
use crate::engine::Engine;
use crate::health::facts::{Effect, NO_ENDPOINTS, ObjectProblem};
use crate::health::view::{DetectedBy, Gets};

/// Envoy's response status for a cluster without endpoints.
const STATUS: u16 = 503;

/// Adds a finding for each used Service without endpoints. Clients receive 503 for its share of the requests of a
/// rule: Envoy selects the backend before it selects an endpoint.
pub(super) fn services_without_endpoints(engine: &Engine, found: &mut Vec<ObjectProblem>, effects: &mut Vec<Effect>) {
    let empty = engine.translator.without_endpoints().iter().filter(|service| !keeps_endpoints(engine, service));
    let empty: BTreeSet<ServicePort> = empty.cloned().collect();
    if empty.is_empty() {
        return;
    }
    let mut gateways: BTreeMap<&ServicePort, BTreeSet<Arc<str>>> = BTreeMap::new();
    let mut down: BTreeSet<&ServicePort> = BTreeSet::new();
    for (key, desired) in engine.translator.routes() {
        for gateway in desired.gateways() {
            let name: Arc<str> = gateway.namespaced_name().into();
            let scope = engine.scope_of(&name);
            let served = scope.and_then(|scope| engine.translator.served_route(&scope.id.fleet, key));
            let plan = served.map_or(desired, |served| &**served);
            for service in plan.services() {
                if let Some(service) = empty.get(&service) {
                    gateways.entry(service).or_default().insert(name.clone());
                }
            }
            for ((object, section), UnitWithoutEndpoints { services, is_whole }) in units(plan, &empty) {
                let share = scope.and_then(|scope| engine.translator.served_share(&scope.id.fleet, &object));
                let share = share.or_else(|| engine.translator.route(&object).cloned());
                let (hosts, paths) = share.map(|share| requests(&share, &name, &section)).unwrap_or_default();
                let version = scope.and_then(|scope| served_version(scope, &object));
                down.extend(&services);
                effects.push(Effect {
                    object: engine.identity(&object, None),
                    gateway: name.clone(),
                    section,
                    listener: None,
                    gets: if is_whole { Gets::Status { status: STATUS } } else { Gets::Share { status: STATUS } },
                    hosts,
                    paths,
                    causes: services.iter().map(|service| service.key.clone()).collect(),
                    causing_section: "".into(),
                    message: String::new(),
                    version,
                });
            }
        }
    }
    connections_without_endpoints(engine, &empty, &mut down, effects);
    for (service, gateways) in gateways {
        let class = if down.contains(service) { Class::Referential } else { Class::Ignored };
        found.push(ObjectProblem {
            object: engine.identity(&service.key, None),
            generation: engine.generation_of(&service.key),
            field: String::new(),
            class,
            reason: NO_ENDPOINTS.to_owned(),
            message: why_empty(engine, service),
            detected: DetectedBy::Translation,
            gateways,
            since: None,
            used: true,
            is_served: false,
            is_unreadable: false,
            cause: None,
            not_backfilled: None,
        });
    }
}

/// Adds the hosts of routes and HTTPProxies of which connections are forwarded to Services without endpoints only.
fn connections_without_endpoints<'a>(
    engine: &Engine,
    empty: &'a BTreeSet<ServicePort>,
    down: &mut BTreeSet<&'a ServicePort>,
    effects: &mut Vec<Effect>,
) {
    for TcpHost { root, section, gateway, host, services } in engine.translator.tcp_hosts() {
        if services.is_empty() || !services.iter().all(|service| empty.contains(*service)) {
            continue;
        }
        down.extend(services.iter().filter_map(|service| empty.get(*service)));
        effects.push(Effect {
            gateway: gateway.namespaced_name().into(),
            section: section.into(),
            gets: Gets::Refused,
            hosts: BTreeSet::from([host.into()]),
            causes: services.iter().map(|service| service.key.clone()).collect(),
            ..Effect::left_out(&engine.identity(root, None), "")
        });
    }
}

/// Returns whether Envoys keep acknowledged endpoints of a Service, because its EndpointSlices cannot be read.
fn keeps_endpoints(engine: &Engine, service: &ServicePort) -> bool {
    let is_unread = |key: &ObjectKey| *key.kind == *kinds::ENDPOINT_SLICE && engine.unread.contains(key);
    if !engine.unread.iter().any(is_unread) {
        return false;
    }
    let name = names::endpoints(service);
    let published = engine.scopes.gateways().into_values().flat_map(speaking);
    let published = published.filter_map(|scope| scope.configurations.everyone.as_ref());
    let mut endpoints = published.filter_map(|everyone| everyone.get(ResourceType::Endpoints, &name));
    endpoints.any(|endpoints| endpoints.origins.iter().any(is_unread))
}

fn why_empty(engine: &Engine, service: &ServicePort) -> String {
    let (port, transport) = (service.port, service.transport.name());
    let Some(object) = engine.objects().get(&service.key) else {
        return format!("port {port} has no endpoint: the Service does not exist");
    };
    let name = match &object.body {
        Body::Service(service) => service.port(port, transport).map(|port| port.name.clone()),
        _ => None,
    };
    let slices: Vec<_> = engine.translator.slices(&service.key).filter_map(|key| engine.objects().get(key)).collect();
    let ports: BTreeSet<&str> = slices
        .iter()
        .flat_map(|object| match &object.body {
            Body::EndpointSlice(slice) => slice.ports.iter().map(|port| &*port.name).collect(),
            _ => Vec::new(),
        })
        .collect();
    match name {
        _ if slices.is_empty() => format!("port {port} has no endpoint: no EndpointSlice belongs to the Service"),
        Some(name) if !ports.contains(&*name) => {
            let ports: Vec<String> = ports.iter().map(|port| format!("\"{port}\"")).collect();
            let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
            format!(
                "port {port} has no endpoint: its name in the Service is \"{name}\", and the ports of its EndpointSlices \
                 are {ports}"
            )
        }
        _ => format!(
            "port {port} has no endpoint: no EndpointSlice of the Service has a ready endpoint with a usable \
             address"
        ),
    }
}

/// A unit of a route object that forwards to Services without endpoints.
struct UnitWithoutEndpoints<'a> {
    services: BTreeSet<&'a ServicePort>,
    /// All requests of the unit are forwarded to these Services.
    is_whole: bool,
}

/// Returns the units that forward to Services without endpoints.
fn units<'a>(
    plan: &RoutePlan,
    empty: &'a BTreeSet<ServicePort>,
) -> BTreeMap<(ObjectKey, Arc<str>), UnitWithoutEndpoints<'a>> {
    let mut units = BTreeMap::new();
    for rendered in &*plan.routes {
        let forward = if let Action::Forward(forward) = &rendered.route.action { Some(forward) } else { None };
        let all = || forward.into_iter().flat_map(|forward| &forward.backends);
        let backends = || all().filter(|backend| backend.weight > 0);
        let service = |backend: &WeightedBackend| backend.backend.as_ref()?.service().and_then(|one| empty.get(one));
        let services: BTreeSet<_> = backends().filter_map(service).collect();
        // Another share of the requests of the unit may be forwarded elsewhere.
        if services.is_empty() && rendered.route.share.is_none() {
            continue;
        }
        let unit = (rendered.route.key.clone(), rendered.route.section.clone());
        let unit =
            units.entry(unit).or_insert_with(|| UnitWithoutEndpoints { services: BTreeSet::new(), is_whole: true });
        unit.is_whole &= forward.is_some() && backends().all(|backend| service(backend).is_some());
        unit.services.extend(services);
    }
    units.retain(|_, unit| !unit.services.is_empty());
    units
}
