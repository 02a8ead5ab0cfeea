//! Listeners: an entry for each filter chain.

use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use holdfast_api::apis::kinds;
use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;
use prost::{Message, Name};

use super::{ListedEntry, origins};
use crate::features::datagrams;

pub(super) fn entries(resource: &Resource) -> Vec<ListedEntry> {
    let Ok(listener) = Listener::decode(&*resource.body) else { return ListedEntry::undecodable(resource) };
    // A listener is made from any number of routes.
    let is_route = |key: &ObjectKey| *key.kind == *kinds::HTTP_PROXY || kinds::ROUTES.contains(&&*key.kind);
    let owners: Vec<ObjectKey> = origins(&resource.origins).filter(|key| !is_route(key)).collect();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let chains = chains.map(|chain| (matches(chain), action(chain)));
    let datagrams = listener.listener_filters.iter().filter_map(datagrams::config).map(|proxy| {
        let action = if datagrams::is_refusal(&proxy) { "dropped" } else { "forwarded" };
        ("datagrams".to_owned(), action.to_owned())
    });
    let entries = chains.chain(datagrams);
    entries.map(|(matches, action)| ListedEntry::new(resource, matches, action).owned_by(owners.clone())).collect()
}

fn matches(chain: &FilterChain) -> String {
    let names = chain.filter_chain_match.as_ref().map(|wanted| wanted.server_names.join(", ")).unwrap_or_default();
    let protocol = if chain.transport_socket.is_some() { "TLS" } else { "plain" };
    match names.is_empty() {
        true => format!("{protocol}, any server name"),
        false => format!("{protocol}, server name {names}"),
    }
}

fn action(chain: &FilterChain) -> String {
    let mut filters = Vec::new();
    for filter in &chain.filters {
        let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { continue };
        match config.type_url == HttpConnectionManager::type_url() {
            true => filters.push(manager(&config.value)),
            false => filters.push(filter.name.clone()),
        }
    }
    filters.join(", ")
}

fn manager(config: &[u8]) -> String {
    let Ok(manager) = HttpConnectionManager::decode(config) else { return "HTTP, cannot be decoded".into() };
    match &manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => format!("HTTP, routes {}", rds.route_config_name),
        Some(RouteSpecifier::RouteConfig(_)) => "HTTP, a fixed answer".to_owned(),
        _ => "HTTP, no routes".to_owned(),
    }
}
