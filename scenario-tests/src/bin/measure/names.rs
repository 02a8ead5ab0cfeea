//! What a response means for an Envoy: the resources that its clusters and listeners name, and the hosts of its routes.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::listener::v3::{Filter, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryResponse;
use prost::Message;

pub(crate) const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
pub(crate) const VIRTUAL_HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
/// The end of the type of the filter that names a RouteConfiguration.
const CONNECTION_MANAGER: &str = ".HttpConnectionManager";

/// Returns the type and the names to which an Envoy subscribes after a response with clusters, listeners or
/// RouteConfigurations.
pub(crate) fn named(response: &DeltaDiscoveryResponse) -> Result<Option<(&'static str, BTreeSet<String>)>> {
    Ok(match &*response.type_url {
        CLUSTER => {
            let clusters = decoded::<Cluster>(response)?;
            Some((ENDPOINTS, clusters.into_iter().filter_map(endpoints_of).collect()))
        }
        LISTENER => {
            let mut names = BTreeSet::new();
            for listener in decoded::<Listener>(response)? {
                let chains = listener.filter_chains.into_iter().chain(listener.default_filter_chain);
                for filter in chains.flat_map(|chain| chain.filters) {
                    names.extend(routes_of(filter)?);
                }
            }
            Some((ROUTES, names))
        }
        ROUTES => {
            let routes = decoded::<RouteConfiguration>(response)?.into_iter();
            Some((VIRTUAL_HOST, routes.filter(|routes| routes.vhds.is_some()).map(|routes| routes.name).collect()))
        }
        _ => None,
    })
}

/// Returns the domains of all virtual hosts in a response, in RouteConfigurations or one by one.
pub(crate) fn domains(response: &DeltaDiscoveryResponse) -> Result<Vec<String>> {
    let hosts: Vec<VirtualHost> = match &*response.type_url {
        ROUTES => {
            decoded::<RouteConfiguration>(response)?.into_iter().flat_map(|routes| routes.virtual_hosts).collect()
        }
        VIRTUAL_HOST => decoded(response)?,
        _ => Vec::new(),
    };
    Ok(hosts.into_iter().flat_map(|host| host.domains).collect())
}

fn endpoints_of(cluster: Cluster) -> Option<String> {
    let eds = cluster.eds_cluster_config?;
    Some(if eds.service_name.is_empty() { cluster.name } else { eds.service_name })
}

fn routes_of(filter: Filter) -> Result<Option<String>> {
    let Some(filter::ConfigType::TypedConfig(config)) = filter.config_type else { return Ok(None) };
    if !config.type_url.ends_with(CONNECTION_MANAGER) {
        return Ok(None);
    }
    let manager = HttpConnectionManager::decode(&*config.value).context("the connection manager of a listener")?;
    Ok(match manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => Some(rds.route_config_name),
        _ => None,
    })
}

fn decoded<M: Message + Default>(response: &DeltaDiscoveryResponse) -> Result<Vec<M>> {
    let bodies = response.resources.iter().filter_map(|resource| resource.resource.as_ref());
    bodies.map(|body| M::decode(&*body.value).with_context(|| format!("a {}", body.type_url))).collect()
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::Vhds;
    use envoy_types::pb::envoy::service::discovery::v3::Resource;
    use envoy_types::pb::google::protobuf::Any;

    use super::*;

    fn response<M: Message>(type_url: &str, message: &M) -> DeltaDiscoveryResponse {
        let body = Any { type_url: type_url.into(), value: message.encode_to_vec() };
        let resources = vec![Resource { resource: Some(body), ..Default::default() }];
        DeltaDiscoveryResponse { type_url: type_url.into(), resources, ..Default::default() }
    }

    #[test]
    fn hosts_are_subscribed_to_where_the_routes_refer_to_them() -> Result<()> {
        let whole = RouteConfiguration { name: "whole".into(), ..Default::default() };
        assert_eq!(named(&response(ROUTES, &whole))?, Some((VIRTUAL_HOST, BTreeSet::new())));
        let separate =
            RouteConfiguration { name: "separate".into(), vhds: Some(Vhds::default()), ..Default::default() };
        assert_eq!(named(&response(ROUTES, &separate))?, Some((VIRTUAL_HOST, ["separate".to_owned()].into())));
        Ok(())
    }

    #[test]
    fn domains_are_found_in_both_forms() -> Result<()> {
        let host = VirtualHost { domains: vec!["a.example".into()], ..Default::default() };
        assert_eq!(domains(&response(VIRTUAL_HOST, &host))?, ["a.example"]);
        let routes = RouteConfiguration { virtual_hosts: vec![host], ..Default::default() };
        assert_eq!(domains(&response(ROUTES, &routes))?, ["a.example"]);
        Ok(())
    }
}
