//! Endpoints.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/endpoint/v3/endpoint.proto>

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use prost::Message;

use super::names;
use crate::model::ServicePort;

/// An address with its port.
pub(crate) fn address(address: SocketAddr) -> Address {
    Address {
        address: Some(AddressKind::SocketAddress(SocketAddress {
            address: address.ip().to_string(),
            port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
            ..Default::default()
        })),
    }
}

/// The endpoints of a Service's port; none is a valid answer.
pub(crate) fn encode(service: &ServicePort, addresses: &BTreeSet<SocketAddr>) -> Bytes {
    let lb_endpoints = addresses.iter().map(|at| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint { address: Some(address(*at)), ..Default::default() })),
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
