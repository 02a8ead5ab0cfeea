//! Endpoints.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/endpoint/v3/endpoint.proto>

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, Locality, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::endpoint::HealthCheckConfig;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;

use super::names;
use crate::model::ServicePort;

/// Returns a socket address.
pub fn address(address: SocketAddr) -> Address {
    Address {
        address: Some(AddressKind::SocketAddress(SocketAddress {
            address: address.ip().to_string(),
            port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
            ..Default::default()
        })),
    }
}

/// Returns an endpoint with a DNS name.
pub fn named(host: &str, port: u16) -> LbEndpoint {
    let address = Address {
        address: Some(AddressKind::SocketAddress(SocketAddress {
            address: host.to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(port.into())),
            ..Default::default()
        })),
    };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint { address: Some(address), ..Default::default() })),
        ..Default::default()
    }
}

/// Merges the endpoints of several Services under one name, each with its weight. Endpoints that cannot be decoded are
/// left out.
pub fn together<'a>(name: String, parts: impl Iterator<Item = (u32, &'a Bytes)>) -> Bytes {
    let localities = parts.enumerate().flat_map(|(index, (weight, bytes))| {
        let part = ClusterLoadAssignment::decode(&bytes[..]).unwrap_or_default();
        part.endpoints.into_iter().map(move |endpoints| LocalityLbEndpoints {
            locality: Some(Locality { zone: index.to_string(), ..Default::default() }),
            load_balancing_weight: Some(UInt32Value { value: weight }),
            ..endpoints
        })
    });
    ClusterLoadAssignment { endpoints: localities.collect(), cluster_name: name, ..Default::default() }
        .encode_to_vec()
        .into()
}

/// Returns the endpoints of a Service's port, each with the port of its health checks if it differs. An empty set is a
/// valid answer.
pub fn encode(service: &ServicePort, addresses: &BTreeSet<(SocketAddr, Option<u16>)>) -> Bytes {
    let lb_endpoints = addresses.iter().map(|(at, health)| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(*at)),
            health_check_config: health.map(|port| HealthCheckConfig { port_value: port.into(), ..Default::default() }),
            ..Default::default()
        })),
        ..Default::default()
    });
    ClusterLoadAssignment {
        cluster_name: names::endpoints(service),
        endpoints: vec![LocalityLbEndpoints { lb_endpoints: lb_endpoints.collect(), ..Default::default() }],
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}
