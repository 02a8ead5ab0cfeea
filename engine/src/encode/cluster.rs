//! Clusters.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto>

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, Http2ProtocolOptions,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;

use super::{any, names, seconds};
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
    let options = match backend.protocol {
        Protocol::Http1 => None,
        Protocol::H2c => Some(("envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(), any(&http2()))),
    };
    envoy::Cluster {
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
    }
    .encode_to_vec()
    .into()
}

fn http2() -> HttpProtocolOptions {
    HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default())),
        })),
        ..Default::default()
    }
}
