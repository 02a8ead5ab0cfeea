//! Connections that must never be forwarded: each filter chain of a TCPRoute or TLSRoute in the bytes of an Envoy is for a server
//! name, or at a port, that a current route claims, and forwards to backends that this route may use now.

use envoy_types::pb::envoy::config::listener::v3::Listener;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::RouteView;
use holdfast_api::object::Object;
use holdfast_engine::engine::Event;
use holdfast_envoy::model::table::Host;
use holdfast_xds::ResourceType;
use prost::Message;

use super::answer::clusters_of_chain;
use super::envoy::Envoy;
use super::never::is_granted;
use super::stage::StoryStage;

/// Checks the listeners of one Envoy.
pub(super) fn forwarded(stage: &StoryStage, envoy: &Envoy, wrong: &mut Vec<String>) {
    let listeners = envoy.taken.iter().filter(|((kind, _), _)| *kind == ResourceType::Listener);
    for (_, resource) in listeners {
        let listener = Listener::decode(&*resource.body).unwrap_or_default();
        for chain in &listener.filter_chains {
            // The name ends with the host of the route; chains of HTTPProxies are named after their hosts alone.
            let Some((_, host)) = chain.name.strip_prefix("stream/").and_then(|name| name.rsplit_once('/')) else {
                continue;
            };
            let Some(clusters) = clusters_of_chain(chain) else { continue };
            let claims = |route: &&Object| claims(route, host);
            let owners: Vec<&Object> = routes(stage).filter(claims).collect();
            let node = &envoy.id.node;
            if owners.is_empty() {
                wrong.push(format!("{node} forwards connections to {host}, which no route claims"));
            }
            for cluster in clusters {
                let Some(service) = cluster.strip_prefix("service/") else { continue };
                let to = service.split('/').next().unwrap_or_default();
                let may = |route: &&Object| *route.key.namespace == *to || is_granted(stage, &route.key.namespace, to);
                if !owners.iter().any(may) {
                    wrong.push(format!("{node} forwards connections to {host} to {cluster} without a grant"));
                }
            }
        }
    }
}

/// Returns the routes of connections that exist.
fn routes(stage: &StoryStage) -> impl Iterator<Item = &Object> {
    stage.objects.values().filter_map(|event| match event {
        Event::Applied(object, _) if matches!(object.body, Body::StreamRoute(_)) => Some(&**object),
        _ => None,
    })
}

/// Checks whether a route claims a host, which may also be the common part of its hostname and a listener's.
fn claims(route: &Object, host: &str) -> bool {
    let host = Host::new(Some(&host.into()));
    let own = route.body.route().map(RouteView::hostnames).unwrap_or_default();
    let all = own.is_empty() && host == Host::any();
    all || own.iter().any(|hostname| Host::new(Some(hostname)).covers(&host))
}
