//! Connections and datagrams that must never be forwarded: each filter chain of a TCPRoute, TLSRoute or UDPRoute in the
//! bytes of an Envoy is for a server name, or at a port, that a current route claims, and forwards to backends that this route may use now.

use envoy_types::pb::envoy::config::listener::v3::Listener;
use holdfast_api::apis::gateway::route::RouteView;
use holdfast_api::apis::kinds;
use holdfast_engine::engine::Event;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;
use holdfast_xds::ResourceType;
use prost::Message;

use super::answer::clusters_of_chain;
use super::datagrams::proxies;
use super::envoy::Envoy;
use super::never::is_granted;
use super::stage::StoryStage;

/// Checks the listeners of one Envoy.
pub(super) fn forwarded(stage: &StoryStage, envoy: &Envoy, wrong: &mut Vec<String>) {
    let listeners = envoy.taken.iter().filter(|((kind, _), _)| *kind == ResourceType::Listener);
    for (_, resource) in listeners {
        let listener = Listener::decode(&*resource.body).unwrap_or_default();
        let chains = listener.filter_chains.iter();
        let chains = chains.filter_map(|chain| Some((chain.name.as_str(), clusters_of_chain(chain)?)));
        for (name, clusters) in chains.chain(proxies(&listener).unwrap_or_default()) {
            // The name ends with the host of the route; chains of HTTPProxies are named after their hosts alone.
            let Some((_, host)) = name.strip_prefix("stream/").and_then(|name| name.rsplit_once('/')) else {
                continue;
            };
            let owners: Vec<&ObjectKey> = routes(stage).filter(|key| claims(stage, key, host)).collect();
            let node = &envoy.id.node;
            if owners.is_empty() {
                wrong.push(format!("{node} forwards connections to {host}, which no route claims"));
            }
            for cluster in clusters {
                let Some(service) = cluster.strip_prefix("service/") else { continue };
                let to = service.split('/').next().unwrap_or_default();
                let may = |route: &&ObjectKey| *route.namespace == *to || is_granted(stage, &route.namespace, to);
                if !owners.iter().any(may) {
                    wrong.push(format!("{node} forwards connections to {host} to {cluster} without a grant"));
                }
            }
        }
    }
}

/// Returns the routes of connections that exist.
fn routes(stage: &StoryStage) -> impl Iterator<Item = &ObjectKey> {
    stage.objects.keys().filter(|key| kinds::STREAM_ROUTES.contains(&&*key.kind))
}

/// Checks whether a route claims a host, which may also be the common part of its hostname and a listener's. A route
/// that cannot be read, or has an invalid hostname, may fall back to the hostnames that it claimed before.
fn claims(stage: &StoryStage, route: &ObjectKey, host: &str) -> bool {
    let host = Host::new(Some(&host.into()));
    let desired = match stage.objects.get(route) {
        Some(Event::Applied(object, _)) => object.body.route().map(RouteView::hostnames),
        _ => None,
    };
    let falls_back =
        desired.is_none_or(|own| own.iter().any(|hostname| holdfast_check::host::hostname(hostname).is_err()));
    let before = stage.named.get(route).into_iter().flatten().filter(|_| falls_back);
    let all = desired.is_some_and(<[_]>::is_empty) && host == Host::any();
    all || desired.into_iter().flatten().chain(before).any(|own| Host::new(Some(own)).covers(&host))
}
