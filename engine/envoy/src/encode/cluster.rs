//! Clusters.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto>

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::CircuitBreakers;
use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::common_lb_config::{
    LocalityConfigSpecifier, LocalityWeightedLbConfig,
};
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, DiscoveryType, DnsLookupFamily, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{AggregatedConfigSource, ApiVersion, ConfigSource};
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use prost::Message;

use super::{endpoints, names, seconds};
use crate::features::datagrams::SESSIONS_MAX;
use crate::features::remote::{CircuitBreakerLimits, DnsHost, Family, Group, Remote};
use crate::features::upstream::{ClientIdentity, Upstream};
use crate::features::upstream_filters::Special;
use crate::features::wall;
use crate::model::port::Transport;
use crate::model::{BackendCluster, BackendProtocol, EndpointSource};

/// Connect timeout of backends, in seconds.
const CONNECT_TIMEOUT_S: i64 = 5;
/// Buffer limit of one connection, in bytes (Envoy's recommendation for edge proxies).
pub(crate) const CONNECTION_BUFFER_BYTES: u32 = 32 * 1024;

/// Config source: all resources come from the one aggregated stream.
pub fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}

/// Returns the cluster of a backend at a Gateway with this client certificate.
pub fn encode(backend: &BackendCluster, identity: &ClientIdentity) -> Bytes {
    if identity.closes_backend(backend) {
        return closed(names::cluster(backend));
    }
    let usual = Upstream::default();
    let upstream = backend.tuned.as_ref().map_or(&usual, |tuned| &tuned.upstream);
    let special = match &backend.place {
        EndpointSource::Anywhere(anywhere) => anywhere.special(),
        EndpointSource::Function(function) => function.special(),
        EndpointSource::Hosts(hosts) => hosts.special(),
        EndpointSource::Service(_) => Special::default(),
    };
    let options = options(upstream, backend.protocol, &special);
    let mut cluster = envoy::Cluster {
        name: names::cluster(backend),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT_S)),
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER_BYTES }),
        typed_extension_protocol_options: options.into_iter().collect::<HashMap<_, _>>(),
        ..Default::default()
    };
    upstream.apply_as(identity, &mut cluster);
    match &backend.place {
        EndpointSource::Service(service) => {
            cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            let service_name = names::endpoints(service);
            cluster.eds_cluster_config = Some(EdsClusterConfig { eds_config: Some(ads()), service_name });
        }
        EndpointSource::Hosts(hosts) => hosts.apply(&mut cluster),
        EndpointSource::Anywhere(anywhere) => anywhere.apply(&mut cluster),
        EndpointSource::Function(function) => function.hosts.apply(&mut cluster),
    }
    upstream.look_up(&mut cluster);
    if backend.service().is_some_and(|service| service.transport == Transport::Udp) {
        // The sessions of datagrams count as connections.
        let limit = || Thresholds { max_connections: Some(UInt32Value { value: SESSIONS_MAX }), ..Default::default() };
        cluster
            .circuit_breakers
            .get_or_insert_with(|| CircuitBreakers { thresholds: vec![limit()], ..Default::default() });
    }
    cluster.encode_to_vec().into()
}

/// Returns the cluster of an external service that Envoy itself calls, at a Gateway with this client certificate.
pub fn remote(remote: &Remote, identity: &ClientIdentity) -> Bytes {
    if identity.closes_remote(remote) {
        return closed(names::remote(remote));
    }
    match remote {
        Remote::Backend(backend) => encode(backend, identity),
        Remote::Group(group) => self::group(group, identity),
        Remote::Host(host) => dns(host, names::remote(remote), identity),
    }
}

/// Returns a cluster without endpoints. It keeps its name, because Envoy may refuse filters that name no cluster.
fn closed(name: String) -> Bytes {
    let assignment = ClusterLoadAssignment { cluster_name: name.clone(), ..Default::default() };
    let cluster = envoy::Cluster {
        name,
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT_S)),
        load_assignment: Some(assignment),
        ..Default::default()
    };
    cluster.encode_to_vec().into()
}

fn group(group: &Group, identity: &ClientIdentity) -> Bytes {
    let options = options(&group.upstream, group.protocol, &Special::default());
    let mut cluster = envoy::Cluster {
        name: names::group(&group.owner),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads()), service_name: group.endpoints() }),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT_S)),
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER_BYTES }),
        typed_extension_protocol_options: options.into_iter().collect::<HashMap<_, _>>(),
        circuit_breakers: circuit_breakers(&group.limits),
        // Each Service is a locality, with the Service's share as its weight.
        common_lb_config: (group.services.len() > 1).then(|| CommonLbConfig {
            locality_config_specifier: Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(
                LocalityWeightedLbConfig {},
            )),
            ..Default::default()
        }),
        ..Default::default()
    };
    group.upstream.apply_as(identity, &mut cluster);
    cluster.encode_to_vec().into()
}

fn circuit_breakers(limits: &CircuitBreakerLimits) -> Option<CircuitBreakers> {
    if *limits == CircuitBreakerLimits::default() {
        return None;
    }
    let count = |value: Option<u32>| value.map(|value| UInt32Value { value });
    let own = Thresholds {
        max_connections: count(limits.connections),
        max_pending_requests: count(limits.pending),
        max_requests: count(limits.requests),
        max_retries: count(limits.retries),
        ..Default::default()
    };
    let per_host = limits
        .connections_per_endpoint
        .map(|_| Thresholds { max_connections: count(limits.connections_per_endpoint), ..Default::default() });
    Some(CircuitBreakers { thresholds: vec![own], per_host_thresholds: per_host.into_iter().collect() })
}

fn dns(host: &DnsHost, name: String, identity: &ClientIdentity) -> Bytes {
    let family = match host.family {
        Family::Auto => DnsLookupFamily::Auto,
        Family::V4 => DnsLookupFamily::V4Only,
        Family::V6 => DnsLookupFamily::V6Only,
        Family::All => DnsLookupFamily::All,
    };
    let endpoint = endpoints::named(&host.host, host.port);
    let assignment = ClusterLoadAssignment {
        cluster_name: name.clone(),
        endpoints: vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() }],
        ..Default::default()
    };
    let upstream = Upstream { tls: host.tls.clone(), ..Upstream::default() };
    let options = options(&upstream, BackendProtocol::Http1, &wall::special(host.loopback));
    let mut cluster = envoy::Cluster {
        name,
        connect_timeout: Some(seconds(CONNECT_TIMEOUT_S)),
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER_BYTES }),
        load_assignment: Some(assignment),
        typed_extension_protocol_options: options.into_iter().collect::<HashMap<_, _>>(),
        ..Default::default()
    };
    wall::look_up(&mut cluster, family);
    upstream.apply_as(identity, &mut cluster);
    cluster.encode_to_vec().into()
}

fn options(upstream: &Upstream, protocol: BackendProtocol, special: &Special) -> Option<(String, Any)> {
    let options = upstream.protocol_options_with(protocol, special)?;
    Some(("envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(), options))
}
