//! The mistakes: changes of resources with a marker. Bytes that are no valid message stay unchanged.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::LbPolicy;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::{DataSource, HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType as ListenerFilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost, WeightedCluster};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType as HttpConfigType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use envoy_types::pb::google::protobuf::{Any, Duration};
use prost::Message;

use super::{HEADER, KEY, NAME, PAIR};

/// A key that belongs to no certificate of a story.
const OTHER_KEY: &[u8] = include_bytes!("../../../engine/check/src/certificate/fixtures/p521.key");

/// Adds the mistake of a resource, if it has a marker.
pub(super) fn spoil(resource: &mut Any) {
    let name = resource.type_url.rsplit('.').next().unwrap_or_default();
    let spoilt = match name {
        "RouteConfiguration" if contains(&resource.value, HEADER) => changed(&resource.value, spoil_table),
        "Cluster" if contains(&resource.value, NAME) && contains(&resource.value, "/h2c") => {
            changed(&resource.value, |cluster: &mut Cluster| cluster.lb_policy = LbPolicy::ClusterProvided.into())
        }
        "Listener" if contains(&resource.value, NAME) => changed(&resource.value, spoil_listener),
        "Secret" => changed(&resource.value, spoil_secret),
        _ => None,
    };
    if let Some(spoilt) = spoilt {
        resource.value = spoilt;
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn changed<M: Message + Default>(bytes: &[u8], change: impl FnOnce(&mut M)) -> Option<Vec<u8>> {
    let mut message = M::decode(bytes).ok()?;
    change(&mut message);
    Some(message.encode_to_vec())
}

fn spoil_table(table: &mut RouteConfiguration) {
    table.virtual_hosts.iter_mut().for_each(spoil_host);
}

fn spoil_host(host: &mut VirtualHost) {
    let pairs = host.routes.iter_mut().filter_map(spoil_route).filter(|mistake| mistake == PAIR).count();
    if pairs > 1 {
        host.domains.extend_from_within(..);
    }
}

/// Adds a route's mistake; returns its name.
fn spoil_route(route: &mut Route) -> Option<String> {
    let mut headers = route.response_headers_to_add.iter().filter_map(|added| added.header.as_ref());
    let mistake = headers.find(|header| header.key == HEADER)?.value.clone();
    let (Some(matches), Some(Action::Route(action))) = (&mut route.r#match, &mut route.action) else { return None };
    let none = RegexMatcher { regex: "/bad[a".into(), ..Default::default() };
    match &*mistake {
        "regex" => matches.path_specifier = Some(PathSpecifier::SafeRegex(none)),
        "duration" => action.timeout = Some(Duration { seconds: -5, nanos: 0 }),
        "rewrite" => {
            let rewrite = RegexMatchAndSubstitute { pattern: Some(none), substitution: "/".into() };
            action.regex_rewrite = Some(rewrite);
        }
        "weights" => action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(WeightedCluster::default())),
        "header" => {
            let header = HeaderValue { key: "x-a".into(), value: "a\r\nb: c".into(), ..Default::default() };
            route.request_headers_to_add.push(HeaderValueOption { header: Some(header), ..Default::default() });
        }
        _ => {}
    }
    Some(mistake)
}

/// Gives a marked certificate the key of another one.
fn spoil_secret(secret: &mut Secret) {
    let Some(Type::TlsCertificate(certificate)) = &mut secret.r#type else { return };
    let chain = certificate.certificate_chain.as_ref().and_then(|chain| chain.specifier.as_ref());
    if matches!(chain, Some(Specifier::InlineBytes(chain)) if contains(chain, KEY)) {
        let specifier = Some(Specifier::InlineBytes(OTHER_KEY.to_vec()));
        certificate.private_key = Some(DataSource { specifier, ..Default::default() });
    }
}

fn spoil_listener(listener: &mut Listener) {
    listener.filter_chains.iter_mut().chain(&mut listener.default_filter_chain).for_each(spoil_chain);
    for filter in &mut listener.listener_filters {
        if let Some(ListenerFilterConfig::TypedConfig(config)) = &mut filter.config_type
            && config.type_url.ends_with(".UdpProxyConfig")
            && contains(&config.value, NAME)
        {
            config.value = vec![u8::MAX];
        }
    }
}

/// Adds a server name with a partial wildcard to a marked filter chain, and invalid bytes to its marked filters.
fn spoil_chain(chain: &mut FilterChain) {
    let marked = chain.name.contains(NAME);
    if let Some(matches) = chain.filter_chain_match.as_mut().filter(|_| marked) {
        matches.server_names.push("part*.example".into());
    }
    for filter in &mut chain.filters {
        let Some(ConfigType::TypedConfig(config)) = &mut filter.config_type else { continue };
        if config.type_url.ends_with(".TcpProxy") && contains(&config.value, NAME) {
            config.value = vec![u8::MAX];
        }
        if !config.type_url.ends_with(".HttpConnectionManager") {
            continue;
        }
        if let Some(spoilt) = changed(&config.value, spoil_connection_manager) {
            config.value = spoilt;
        }
    }
}

fn spoil_connection_manager(manager: &mut HttpConnectionManager) {
    for filter in &mut manager.http_filters {
        if let Some(HttpConfigType::TypedConfig(config)) = &mut filter.config_type
            && contains(&config.value, NAME)
        {
            config.value = vec![u8::MAX];
        }
    }
}
