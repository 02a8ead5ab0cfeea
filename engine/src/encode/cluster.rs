//! Clusters.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto>

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, Http1ProtocolOptions, Http2ProtocolOptions,
    HttpProtocolOptions as CommonOptions,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use prost::Message;

use super::{any, duration, names, seconds};
use crate::model::{Backend, Protocol};

/// Seconds that connecting to a back end may take.
const CONNECT_TIMEOUT_S: i64 = 5;
/// Bytes that are buffered for one connection (Envoy's advice for the edge).
pub(crate) const CONNECTION_BUFFER_BYTES: u32 = 32 * 1024;

/// Everything comes over the one aggregated stream.
pub(crate) fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}

/// The cluster of a back end.
pub(crate) fn encode(backend: &Backend) -> Bytes {
    let upstream = backend.tuned.as_ref().map(|tuned| &tuned.upstream);
    let options = options(backend.protocol, upstream.and_then(|upstream| upstream.idle));
    let mut cluster = envoy::Cluster {
        name: names::cluster(backend),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads()),
            service_name: names::endpoints(&backend.service),
        }),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT_S)),
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER_BYTES }),
        typed_extension_protocol_options: options.into_iter().collect::<HashMap<_, _>>(),
        ..Default::default()
    };
    if let Some(upstream) = upstream {
        upstream.apply(&mut cluster);
    }
    cluster.encode_to_vec().into()
}

/// What is not as usual in the protocol; none where all is.
fn options(protocol: Protocol, idle: Option<Duration>) -> Option<(String, Any)> {
    let config = match protocol {
        Protocol::Http1 if idle.is_none() => return None,
        Protocol::Http1 => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        Protocol::H2c => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default()),
    };
    let options = HttpProtocolOptions {
        common_http_protocol_options: idle
            .map(|idle| CommonOptions { idle_timeout: Some(duration(idle)), ..Default::default() }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(config),
        })),
        ..Default::default()
    };
    Some(("envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(), any(&options)))
}
