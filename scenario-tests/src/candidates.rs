//! Encoded candidates for the probe, valid and invalid.

use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds};
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck};
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, HeaderValue, HeaderValueOption, HealthCheck,
    SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType as FilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::Lua;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration, UInt32Value};
use prost::{Message, Name};

/// An error in a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A match by an invalid regular expression.
    Regex,
    /// A line break in a header value: violates a validation rule of the message, which Envoy checks before it applies
    /// anything.
    HeaderLineBreak,
    /// A negative timeout.
    NegativeDuration,
    /// A rewrite by an invalid regular expression.
    Rewrite,
}

/// All mistakes.
pub const MISTAKES: [Mistake; 4] =
    [Mistake::Regex, Mistake::HeaderLineBreak, Mistake::NegativeDuration, Mistake::Rewrite];

/// Encodes a table with this number of routes, the last one with the mistake.
pub fn table(name: &str, routes: usize, mistake: Option<Mistake>) -> Bytes {
    let mut routes: Vec<Route> = (0..routes).map(|number| route(&format!("/{name}/{number}"))).collect();
    if let (Some(route), Some(mistake)) = (routes.last_mut(), mistake) {
        spoil(route, mistake);
    }
    let host = VirtualHost { name: "all".into(), domains: vec!["*".into()], routes, ..Default::default() };
    RouteConfiguration {
        name: name.into(),
        virtual_hosts: vec![host],
        validate_clusters: Some(BoolValue { value: false }),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

fn route(prefix: &str) -> Route {
    Route {
        name: prefix.into(),
        r#match: Some(RouteMatch { path_specifier: Some(PathSpecifier::Prefix(prefix.into())), ..Default::default() }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster("nobody".into())),
            timeout: Some(Duration { seconds: 5, nanos: 0 }),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn spoil(route: &mut Route, mistake: Mistake) {
    let regex = |regex: &str| RegexMatcher { regex: regex.into(), ..Default::default() };
    let Route { r#match: Some(matching), action: Some(Action::Route(action)), .. } = route else { return };
    match mistake {
        Mistake::Regex => matching.path_specifier = Some(PathSpecifier::SafeRegex(regex("/bad[a"))),
        Mistake::NegativeDuration => action.timeout = Some(Duration { seconds: -5, nanos: 0 }),
        Mistake::Rewrite => {
            let rewrite = RegexMatchAndSubstitute { pattern: Some(regex("^/a(b")), substitution: "/".into() };
            action.regex_rewrite = Some(rewrite);
        }
        Mistake::HeaderLineBreak => {
            let header = HeaderValue { key: "x-a".into(), value: "a\r\nb: c".into(), ..Default::default() };
            route.request_headers_to_add = vec![HeaderValueOption {
                header: Some(header),
                append_action: HeaderAppendAction::AppendIfExistsOrAdd.into(),
                ..Default::default()
            }];
        }
    }
}

/// Encodes a certificate with its key, both PEM.
pub fn certificate(chain: &str, key: &str) -> Bytes {
    let certificate =
        TlsCertificate { certificate_chain: inline(chain), private_key: inline(key), ..Default::default() };
    Secret { name: "secret/a/b".into(), r#type: Some(Type::TlsCertificate(certificate)) }.encode_to_vec().into()
}

/// Encodes a bundle of certificate authorities, PEM.
pub fn authorities(bundle: &str) -> Bytes {
    let context = CertificateValidationContext { trusted_ca: inline(bundle), ..Default::default() };
    Secret { name: "secret/a/ca".into(), r#type: Some(Type::ValidationContext(context)) }.encode_to_vec().into()
}

fn inline(text: &str) -> Option<DataSource> {
    Some(DataSource { specifier: Some(Specifier::InlineBytes(text.as_bytes().to_vec())), ..Default::default() })
}

/// Encodes a cluster that receives its endpoints over EDS; Envoy refuses it where `priority` is not a valid number.
pub fn cluster(service: &str, priority: i32) -> Bytes {
    let config = EdsClusterConfig { eds_config: Some(ads()), service_name: service.into() };
    let breakers = Thresholds { priority, ..Default::default() };
    Cluster {
        name: service.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(config),
        circuit_breakers: Some(CircuitBreakers { thresholds: vec![breakers], ..Default::default() }),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// Encodes a cluster that is not ready before the server answers the first health check.
pub fn checked_cluster(server: SocketAddr) -> Bytes {
    let minute = Some(Duration { seconds: 60, nanos: 0 });
    let check = HealthCheck {
        timeout: minute,
        interval: minute,
        unhealthy_threshold: Some(UInt32Value { value: 1 }),
        healthy_threshold: Some(UInt32Value { value: 1 }),
        health_checker: Some(HealthChecker::HttpHealthCheck(HttpHealthCheck {
            path: "/".into(),
            ..Default::default()
        })),
        ..Default::default()
    };
    let endpoint = Endpoint { address: Some(at(server)), ..Default::default() };
    let endpoint = LbEndpoint { host_identifier: Some(HostIdentifier::Endpoint(endpoint)), ..Default::default() };
    Cluster {
        name: "checked".into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: "checked".into(),
            endpoints: vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() }],
            ..Default::default()
        }),
        health_checks: vec![check],
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// Encodes a listener that receives its routes over RDS; with a Lua script where one is given, which Envoy runs when it
/// loads the listener.
pub fn listener(address: SocketAddr, script: Option<&str>) -> Bytes {
    let mut filters = vec![http_filter("envoy.filters.http.router", &Router::default())];
    if let Some(script) = script {
        let source = DataSource { specifier: Some(Specifier::InlineString(script.into())), ..Default::default() };
        let lua = Lua { default_source_code: Some(source), ..Default::default() };
        filters.insert(0, http_filter("envoy.filters.http.lua", &lua));
    }
    let manager = HttpConnectionManager {
        stat_prefix: "candidate".into(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: "nowhere".into(),
        })),
        http_filters: filters,
        ..Default::default()
    };
    let filter = Filter {
        name: "envoy.filters.network.http_connection_manager".into(),
        config_type: Some(FilterConfig::TypedConfig(any(&manager))),
    };
    Listener {
        name: format!("listener/{address}"),
        address: Some(at(address)),
        filter_chains: vec![FilterChain { filters: vec![filter], ..Default::default() }],
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: 32 * 1024 }),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

fn at(address: SocketAddr) -> Address {
    let address = SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
        ..Default::default()
    };
    Address { address: Some(AddressKind::SocketAddress(address)) }
}

fn http_filter<M: Message + Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter { name: name.into(), config_type: Some(ConfigType::TypedConfig(any(config))), ..Default::default() }
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}
