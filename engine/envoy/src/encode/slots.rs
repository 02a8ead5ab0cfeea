//! Listeners and clusters of the probe: slots in which contents are tried one by one, without traffic.
//!
//! They consist of the same parts as served resources, so that a content meets the same filters.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use envoy_types::pb::envoy::config::core::v3::{DataSource, TransportSocket, data_source::Specifier};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, Secret, TlsCertificate, UpstreamTlsContext,
};
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
use prost::Message;

use super::cluster::ads;
use super::{any, endpoints, listener, seconds};
use crate::features::connection::ListenerSettings;
use crate::features::server_tls::ServerTls;

/// Ports of these listeners, which are never bound: no other listener has their address.
const ROUTES_PORT: u16 = 1;
const CERTIFICATES_PORT: u16 = 2;

/// Returns the listener with a filter chain for each of the named route configurations.
pub fn routes(name: &str, slots: impl Iterator<Item = String>) -> Bytes {
    let usual = ListenerSettings::default();
    let chain = |slot| FilterChain {
        filters: vec![listener::connection_manager(slot, true, &[], None, &usual)],
        ..Default::default()
    };
    unbound(name, ROUTES_PORT, slots.map(chain).collect())
}

/// Returns the listener with a filter chain for each of the named certificates.
pub fn certificates(name: &str, slots: impl Iterator<Item = String>) -> Bytes {
    let chain = |slot: String| FilterChain {
        filters: vec![listener::connection_manager(slot.clone(), true, &[], None, &ListenerSettings::default())],
        transport_socket: Some(listener::transport_socket(
            std::iter::once(slot),
            &ServerTls::default(),
            None,
            &listener::HTTP,
        )),
        ..Default::default()
    };
    unbound(name, CERTIFICATES_PORT, slots.map(chain).collect())
}

fn unbound(name: &str, port: u16, chains: Vec<FilterChain>) -> Bytes {
    // The matches of filter chains must differ.
    let apart = |(number, chain): (u32, FilterChain)| FilterChain {
        filter_chain_match: Some(FilterChainMatch {
            destination_port: Some(UInt32Value { value: number }),
            ..Default::default()
        }),
        ..chain
    };
    Listener {
        name: name.into(),
        address: Some(endpoints::address(SocketAddr::from((Ipv4Addr::new(127, 255, 255, 254), port)))),
        filter_chains: (1..).zip(chains).map(apart).collect(),
        bind_to_port: Some(BoolValue { value: false }),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// Returns a cluster without endpoints that verifies its servers with the certificate authorities of a Secret.
///
/// A cluster is used, since a listener validates certificate authorities only together with a certificate.
pub fn authorities(name: &str, secret: &str) -> Bytes {
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(SdsSecretConfig {
                name: secret.into(),
                sds_config: Some(ads()),
            })),
            ..Default::default()
        }),
        ..Default::default()
    };
    cluster::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        connect_timeout: Some(seconds(1)),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".into(),
            config_type: Some(SocketConfig::TypedConfig(any(&context))),
        }),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// Returns an empty route configuration.
pub fn no_routes(name: &str) -> Bytes {
    RouteConfiguration { name: name.into(), ..Default::default() }.encode_to_vec().into()
}

/// Returns an empty set of endpoints.
pub fn no_endpoints(name: &str) -> Bytes {
    ClusterLoadAssignment { cluster_name: name.into(), ..Default::default() }.encode_to_vec().into()
}

/// Returns a certificate, or certificate authorities, that every Envoy refuses; the content differs for each number.
pub fn placeholder(name: &str, authorities: bool, number: u64) -> Bytes {
    let text = Some(DataSource {
        specifier: Some(Specifier::InlineString(format!("placeholder {number}"))),
        ..Default::default()
    });
    let content = if authorities {
        Type::ValidationContext(CertificateValidationContext { trusted_ca: text, ..Default::default() })
    } else {
        Type::TlsCertificate(TlsCertificate {
            certificate_chain: text.clone(),
            private_key: text,
            ..Default::default()
        })
    };
    Secret { name: name.into(), r#type: Some(content) }.encode_to_vec().into()
}
