//! Virtual hosts and route configurations, assembled from encoded parts.
//!
//! A protobuf message is the sequence of its fields, so a repeated message is appended as tag, length and bytes. A
//! change of one route therefore costs the encoding of this route and a copy of the others.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::google::protobuf::BoolValue;
use holdfast_xds::{BodyPart, Version};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::{any, per_filter};
use crate::features::filters::{self, Filters};
use crate::features::guards::Guards;
use crate::features::local_rate_limit;
use crate::model::HostSettings;

/// `VirtualHost.routes`.
const ROUTES_FIELD: u32 = 3;
/// `VirtualHost.typed_per_filter_config`.
const PER_FILTER_FIELD: u32 = 15;
/// `RouteConfiguration.virtual_hosts`.
const VIRTUAL_HOSTS_FIELD: u32 = 2;
/// `RouteConfiguration.typed_per_filter_config`.
const FILTERS_FIELD: u32 = 16;

/// Returns a virtual host with its encoded routes, in order, and the settings for routes without settings of their own.
pub fn virtual_host<'a>(
    name: String,
    domain: String,
    routes: impl Iterator<Item = &'a Bytes> + Clone,
    settings: &HostSettings,
) -> Bytes {
    let host = envoy::VirtualHost { name, domains: vec![domain], ..Default::default() };
    let mut buffer = host.encode_to_vec();
    routes.for_each(|route| append(&mut buffer, ROUTES_FIELD, route));
    if let Some(limit) = &settings.rate_limit {
        per_filter(PER_FILTER_FIELD, local_rate_limit::FILTER, &any(&limit.encode()), &mut buffer);
    }
    for (name, config) in filters::encoded(&settings.filters) {
        per_filter(PER_FILTER_FIELD, name, &config, &mut buffer);
    }
    for (name, config) in settings.guards.encode() {
        per_filter(PER_FILTER_FIELD, &name, &config, &mut buffer);
    }
    buffer.into()
}

/// Encoded virtual hosts of a route configuration, in order.
#[derive(Clone, Debug)]
pub struct EncodedHosts {
    /// The fields of the route configuration.
    part: Arc<BodyPart>,
    /// The versions of the hosts.
    versions: Bytes,
}

impl EncodedHosts {
    /// Returns these virtual hosts, each with its version. The bytes of each host become a range of the common bytes, so
    /// that they are kept once.
    pub fn new(mut hosts: Vec<(&mut Bytes, &Version)>) -> Self {
        let size = |host: &Bytes| key_len(VIRTUAL_HOSTS_FIELD) + encoded_len_varint(host.len() as u64) + host.len();
        let mut fields = Vec::with_capacity(hosts.iter().map(|(host, _)| size(host)).sum());
        let mut ends = Vec::with_capacity(hosts.len());
        for (host, _) in &hosts {
            append(&mut fields, VIRTUAL_HOSTS_FIELD, host);
            ends.push(fields.len());
        }
        let part = BodyPart::new(fields);
        for ((host, _), end) in hosts.iter_mut().zip(ends) {
            **host = part.fields.slice(end - host.len()..end);
        }
        let versions = hosts.iter().flat_map(|(_, version)| version.as_bytes()).copied().collect();
        Self { part: Arc::new(part), versions }
    }
}

/// An encoded route configuration.
#[derive(Clone, Debug)]
pub struct EncodedRoutes {
    /// The whole message.
    pub body: Bytes,
    /// The version.
    pub version: Version,
    /// The parts of the message.
    pub parts: Vec<Arc<BodyPart>>,
}

/// Returns a route configuration with its encoded virtual hosts, in order.
///
/// The version is derived from the versions of the hosts: a hash of all bytes would cost more than the copy.
pub fn route_configuration<'a>(
    name: String,
    filters: &Filters,
    guards: &Guards,
    hosts: impl Iterator<Item = &'a EncodedHosts> + Clone,
) -> EncodedRoutes {
    let mut head = envoy::RouteConfiguration {
        name,
        ignore_port_in_host_matching: true,
        // Clusters are added and removed independently; a missing cluster results in 500 and does not refuse the
        // configuration.
        validate_clusters: Some(BoolValue { value: false }),
        ..Default::default()
    }
    .encode_to_vec();
    for (name, config) in filters::encoded(filters) {
        per_filter(FILTERS_FIELD, name, &config, &mut head);
    }
    for (name, config) in guards.encode() {
        per_filter(FILTERS_FIELD, &name, &config, &mut head);
    }
    let mut versions = head.clone();
    hosts.clone().for_each(|hosts| versions.extend_from_slice(&hosts.versions));
    let head = Arc::new(BodyPart::new(head));
    let parts: Vec<Arc<BodyPart>> = std::iter::once(head).chain(hosts.map(|hosts| hosts.part.clone())).collect();
    let mut body = Vec::with_capacity(parts.iter().map(|part| part.fields.len()).sum());
    parts.iter().for_each(|part| body.extend_from_slice(&part.fields));
    EncodedRoutes { body: body.into(), version: Version::of(&versions), parts }
}

/// Returns a route configuration with an additional encoded virtual host.
pub fn with_host(body: &Bytes, host: &Bytes) -> Bytes {
    let mut buffer = body.to_vec();
    append(&mut buffer, VIRTUAL_HOSTS_FIELD, host);
    buffer.into()
}

fn append(buffer: &mut Vec<u8>, field: u32, message: &Bytes) {
    encode_key(field, WireType::LengthDelimited, buffer);
    encode_varint(message.len() as u64, buffer);
    buffer.extend_from_slice(message);
}
