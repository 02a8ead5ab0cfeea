//! Listeners: one for each port, with a filter chain for each HTTPS listener of the Gateway. A UDP port has a listener
//! filter instead, which is called a chain here too.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/best_practices/edge>

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction;
use envoy_types::pb::envoy::config::core::v3::socket_address::Protocol;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use envoy_types::pb::envoy::config::core::v3::{Http2ProtocolOptions, HttpProtocolOptions, TransportSocket};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType as FilterConfig;
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType as ListenerFilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::network::direct_response::v3::Config as NetworkDirectResponse;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    PathWithEscapedSlashesAction, RouteSpecifier, UpgradeConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType as HttpFilterConfig;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
};
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
use holdfast_graph::ObjectKey;
use prost::{Message, Name};

use super::cluster::{CONNECTION_BUFFER_BYTES, ads};
use super::{any, endpoints, names, owner, seconds};
use crate::features::chain::{self, ChainFilter};
use crate::features::client_certificate::{ClientCertificates, ForwardedDetails};
use crate::features::connection::{ListenerSettings, guard, health_check};
use crate::features::cookies;
use crate::features::datagrams;
use crate::features::ext_proc::FilterPlace;
use crate::features::filters::{ACCESS, BEFORE, CONTENT, Filter as Known};
use crate::features::ip_filter;
use crate::features::server_tls::ServerTls;
use crate::features::stream::Stream;
use crate::model::port::{BoundPort, Transport};
use crate::model::table::TableName;

/// ALPN protocols of HTTP over TLS.
pub(super) const HTTP: [&str; 2] = ["h2", "http/1.1"];

/// A port of a Gateway.
pub struct GatewayPort {
    /// Address that the listener binds.
    pub address: SocketAddr,
    /// Transport protocol of the port.
    pub transport: Transport,
    /// Filter chains of the listener.
    pub chains: Vec<Chain>,
    /// Settings of the socket.
    pub socket: Arc<ListenerSettings>,
}

/// A filter chain.
pub enum Chain {
    /// Plain HTTP, all hosts.
    Http {
        /// Route table.
        table: TableName,
        /// The table has routes of HTTPProxies.
        proxies: bool,
        /// Filters that the routes use.
        filters: Vec<ChainFilter>,
        /// Settings of connections.
        settings: Arc<ListenerSettings>,
    },
    /// TLS for the hosts of one listener.
    Https {
        /// Hostname of the listener; all hosts if unset.
        host: Option<Arc<str>>,
        /// TLS settings.
        tls: ChainTls,
        /// Route table.
        table: TableName,
        /// The table has routes of HTTPProxies.
        proxies: bool,
        /// Filters that the routes use.
        filters: Vec<ChainFilter>,
        /// Settings of connections.
        settings: Arc<ListenerSettings>,
    },
    /// TLS with connections that are forwarded as a byte stream.
    Stream {
        /// Hostname of the listener; all hosts if unset.
        host: Option<Arc<str>>,
        /// Name of the listener.
        name: Arc<str>,
        /// TLS settings; unset if the backend terminates TLS.
        tls: Option<ChainTls>,
        /// Destination of connections.
        to: Arc<Stream>,
    },
    /// Every connection of a port without TLS, forwarded as a byte stream.
    StreamAll {
        /// Name of the listener, with the host.
        name: Arc<str>,
        /// Destination of connections.
        to: Arc<Stream>,
    },
    /// The listener owns its hosts, but has no usable certificate: connections are refused, so that no broader listener
    /// answers instead.
    Refuse {
        /// Hostname of the listener; all hosts if unset.
        host: Option<Arc<str>>,
        /// Name of the listener.
        name: Arc<str>,
    },
    /// Refusal of every connection of a port without TLS.
    RefuseAll {
        /// Name of the listener.
        name: Arc<str>,
    },
    /// Every datagram of a UDP port.
    Datagrams {
        /// Name of the listener, with the host if a route has it.
        name: Arc<str>,
        /// Destination of datagrams; they are dropped where it is unset.
        to: Option<Arc<Stream>>,
    },
}

impl GatewayPort {
    /// Returns the port.
    pub fn bound(&self) -> BoundPort {
        BoundPort { number: self.address.port(), transport: self.transport }
    }
}

/// Settings of TLS termination.
#[derive(Default)]
pub struct ChainTls {
    /// Certificates, at least one.
    pub certificates: Vec<ObjectKey>,
    /// Versions and algorithms.
    pub settings: ServerTls,
    /// Verification of client certificates.
    pub clients: Option<Arc<ClientCertificates>>,
}

/// Returns the listener of a port.
pub fn encode(port: &GatewayPort) -> Bytes {
    if port.transport == Transport::Udp {
        return of_datagrams(port);
    }
    let is_plain =
        |chain: &Chain| matches!(chain, Chain::Http { .. } | Chain::StreamAll { .. } | Chain::RefuseAll { .. });
    let tls = !port.chains.iter().all(is_plain);
    let inspector = ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".into(),
        config_type: Some(ListenerFilterConfig::TypedConfig(any(&TlsInspector::default()))),
        ..Default::default()
    };
    let mut listener = Listener {
        name: names::listener(port.bound()),
        address: Some(endpoints::address(port.address)),
        listener_filters: if tls { vec![inspector] } else { vec![] },
        filter_chains: port.chains.iter().filter_map(filter_chain).collect(),
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER_BYTES }),
        ..Default::default()
    };
    port.socket.sockets().for_each(|socket| socket.apply_to_listener(&mut listener));
    listener.encode_to_vec().into()
}

/// Returns the listener of a UDP port. Settings of sockets are about connections.
fn of_datagrams(port: &GatewayPort) -> Bytes {
    let mut address = endpoints::address(port.address);
    if let Some(AddressKind::SocketAddress(socket)) = &mut address.address {
        socket.set_protocol(Protocol::Udp);
    }
    let filter = |chain: &Chain| match chain {
        Chain::Datagrams { name, to: Some(to) } => Some(datagrams::filter(&names::stream(name), Some(to))),
        Chain::Datagrams { name, to: None } => Some(datagrams::filter(&names::refusal(name), None)),
        _ => None,
    };
    let owner = port.chains.iter().find_map(|chain| match chain {
        Chain::Datagrams { to: Some(to), .. } => owner::metadata(to),
        _ => None,
    });
    let listener = Listener {
        name: names::listener(port.bound()),
        address: Some(address),
        metadata: owner,
        listener_filters: port.chains.iter().filter_map(filter).collect(),
        udp_listener_config: Some(datagrams::listener_config()),
        ..Default::default()
    };
    listener.encode_to_vec().into()
}

/// Returns a filter chain; `None` for datagrams, which have none.
fn filter_chain(chain: &Chain) -> Option<FilterChain> {
    let chain = match chain {
        Chain::Http { table, proxies, filters, settings } => FilterChain {
            name: names::route_configuration(table),
            filters: vec![connection_manager(names::route_configuration(table), *proxies, filters, None, settings)],
            ..Default::default()
        },
        Chain::Https { host, tls, table, proxies, filters, settings } => {
            let details = tls.clients.as_ref().and_then(|clients| clients.forwarded_details);
            let mut chain = FilterChain {
                name: names::route_configuration(table),
                filter_chain_match: server_names(host.as_deref()),
                filters: vec![connection_manager(
                    names::route_configuration(table),
                    *proxies,
                    filters,
                    details,
                    settings,
                )],
                transport_socket: Some(tls.transport_socket(&HTTP)),
                ..Default::default()
            };
            settings.sockets().for_each(|socket| socket.apply_to_chain(&mut chain));
            chain
        }
        Chain::Stream { host, name, tls, to } => {
            let name = names::stream(name);
            FilterChain {
                filter_chain_match: server_names(host.as_deref()),
                filters: to.filters(&name),
                // The client and the backend negotiate the protocol.
                transport_socket: tls.as_ref().map(|tls| tls.transport_socket(&[])),
                metadata: owner::metadata(to),
                name,
                ..Default::default()
            }
        }
        Chain::StreamAll { name, to } => {
            let name = names::stream(name);
            FilterChain { filters: to.filters(&name), metadata: owner::metadata(to), name, ..Default::default() }
        }
        Chain::Refuse { host, name } => refusal(names::refusal(name), server_names(host.as_deref())),
        Chain::RefuseAll { name } => refusal(names::refusal(name), None),
        Chain::Datagrams { .. } => return None,
    };
    Some(chain)
}

/// The filter that closes the connection without a response.
pub const REFUSAL: &str = "envoy.filters.network.direct_response";

/// Returns a filter chain that refuses connections.
pub fn refusal(name: String, wanted: Option<FilterChainMatch>) -> FilterChain {
    FilterChain {
        name,
        filter_chain_match: wanted,
        filters: vec![filter(REFUSAL, &NetworkDirectResponse::default())],
        ..Default::default()
    }
}

fn server_names(host: Option<&str>) -> Option<FilterChainMatch> {
    // Only TLS is served on this port: a chain without server names still requires TLS.
    Some(FilterChainMatch {
        server_names: host.map(str::to_owned).into_iter().collect(),
        transport_protocol: "tls".into(),
        ..Default::default()
    })
}

/// Returns an HTTP or network filter with its configuration.
pub fn filter<M: Message + Name>(name: &str, config: &M) -> Filter {
    Filter { name: name.into(), config_type: Some(FilterConfig::TypedConfig(any(config))) }
}

impl ChainTls {
    fn transport_socket(&self, protocols: &[&str]) -> TransportSocket {
        transport_socket(
            self.certificates.iter().map(names::secret),
            &self.settings,
            self.clients.as_deref(),
            protocols,
        )
    }
}

/// Returns the TLS transport socket with certificates that are referenced by the names of their Secrets.
pub(super) fn transport_socket(
    certificates: impl Iterator<Item = String>,
    settings: &ServerTls,
    clients: Option<&ClientCertificates>,
    protocols: &[&str],
) -> TransportSocket {
    let secret = |name: String| SdsSecretConfig { name, sds_config: Some(ads()) };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(settings.encode()),
            alpn_protocols: settings.protocols(protocols),
            tls_certificate_sds_secret_configs: certificates.map(secret).collect(),
            validation_context_type: clients
                .map(|clients| ValidationContextType::ValidationContextSdsSecretConfig(secret(clients.trust.name()))),
            ..Default::default()
        }),
        require_client_certificate: clients.map(|clients| BoolValue { value: clients.required }),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(SocketConfig::TypedConfig(any(&context))),
    }
}

/// Returns the HTTP connection manager of a route configuration, with the limits of Envoy's best practices for edge
/// proxies.
///
/// `details` is the information about client certificates that is forwarded to backends; nothing is forwarded if it is
/// unset. See [`http_filters`] for the other parameters.
pub(super) fn connection_manager(
    name: String,
    proxies: bool,
    own: &[ChainFilter],
    details: Option<ForwardedDetails>,
    settings: &ListenerSettings,
) -> Filter {
    let yes = || Some(BoolValue { value: true });
    let mut manager = HttpConnectionManager {
        stat_prefix: name.replace('/', "_"),
        route_specifier: Some(RouteSpecifier::Rds(Rds { config_source: Some(ads()), route_config_name: name })),
        http_filters: http_filters(proxies, own, settings),
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".into(), ..Default::default() }],
        use_remote_address: yes(),
        normalize_path: yes(),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect.into(),
        strip_trailing_host_dot: true,
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(seconds(3600)),
            headers_with_underscores_action: HeadersWithUnderscoresAction::RejectRequest.into(),
            ..Default::default()
        }),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: Some(UInt32Value { value: 100 }),
            initial_stream_window_size: Some(UInt32Value { value: 64 * 1024 }),
            initial_connection_window_size: Some(UInt32Value { value: 1024 * 1024 }),
            ..Default::default()
        }),
        stream_idle_timeout: Some(seconds(300)),
        request_headers_timeout: Some(seconds(10)),
        ..Default::default()
    };
    if let Some(details) = details {
        details.apply(&mut manager);
    }
    settings.apply(&mut manager);
    let mut manager = any(&manager);
    // Further fields of a protobuf message may be appended to its encoding.
    settings.texts().for_each(|(_, text)| manager.value.extend(text));
    Filter {
        name: "envoy.filters.network.http_connection_manager".into(),
        config_type: Some(FilterConfig::TypedConfig(manager)),
    }
}

/// Returns the HTTP filters of a connection manager, in order.
///
/// `proxies` adds the filters that routes of HTTPProxies configure; `own` are the filters that some of the routes use.
/// An external authorization service may select another route for a request, so all other checks come after it.
fn http_filters(proxies: bool, own: &[ChainFilter], settings: &ListenerSettings) -> Vec<HttpFilter> {
    let together = own.iter().filter(|filter| filter.place().is_none());
    let (counted, others): (Vec<_>, Vec<_>) = together.partition(|filter| matches!(filter, ChainFilter::RateLimit(_)));
    let at = |place: FilterPlace| own.iter().filter(move |filter| filter.place() == Some(place)).map(own_filter);
    let access = |phase: Phase| ACCESS.iter().filter(move |filter| phase_of(**filter) == phase).map(of_policies);
    settings
        .label()
        .map(|label| http_filter(guard::NAMES, &guard::naming(&label)))
        .into_iter()
        // No external service receives requests of connections without the required guards.
        .chain([of_policies(&Known::Connection)])
        .chain(at(FilterPlace::First))
        .chain(BEFORE.iter().map(of_policies))
        .chain(at(FilterPlace::Unknown))
        .chain((!own.is_empty()).then(|| http_filter(chain::NAMES, &chain::naming(own))))
        .chain([http_filter(chain::GUARD, &Rbac::default())])
        .chain(others.iter().map(|filter| own_filter(filter)))
        .chain(access(Phase::Authentication))
        .chain(at(FilterPlace::Known))
        .chain(access(Phase::Authorization))
        .chain(at(FilterPlace::Allowed))
        // Health checks are not rate limited.
        .chain(settings.health_check().map(|(_, check)| http_filter(health_check::FILTER, &check.encode())))
        .chain(access(Phase::RateLimiting))
        .chain(proxies.then(|| http_filter(ip_filter::FILTER, &Rbac::default())))
        .chain(counted.iter().map(|filter| own_filter(filter)))
        .chain(at(FilterPlace::Counted))
        .chain(proxies.then(|| http_filter(cookies::FILTER, &cookies::filter())))
        .chain(CONTENT.iter().map(of_policies))
        .chain(at(FilterPlace::Last))
        .chain([http_filter("envoy.filters.http.router", &Router::default())])
        .collect()
}

/// Purpose of a filter of [`ACCESS`]: authentication, authorization or rate limiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Authentication,
    Authorization,
    RateLimiting,
}

fn phase_of(filter: Known) -> Phase {
    match filter {
        known if known <= Known::ApiKeyAuth => Phase::Authentication,
        known if known < Known::LocalRateLimit => Phase::Authorization,
        _ => Phase::RateLimiting,
    }
}

/// Returns a filter that policies configure. It is disabled by default.
fn of_policies(filter: &Known) -> HttpFilter {
    HttpFilter {
        name: filter.name().into(),
        config_type: Some(HttpFilterConfig::TypedConfig(filter.in_chain())),
        disabled: true,
        ..Default::default()
    }
}

pub(crate) fn own_filter(filter: &ChainFilter) -> HttpFilter {
    let (config, disabled) = filter.encode();
    HttpFilter {
        name: filter.name().to_owned(),
        disabled,
        config_type: Some(HttpFilterConfig::TypedConfig(config)),
        ..Default::default()
    }
}

pub(crate) fn http_filter<M: Message + Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(HttpFilterConfig::TypedConfig(any(config))),
        ..Default::default()
    }
}
