//! Virtual hosts and route configurations, assembled from encoded parts.
//!
//! A protobuf message is the sequence of its fields, so a repeated message is appended as tag, length and bytes. A
//! change of one route therefore costs the encoding of this route and a copy of the others.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::google::protobuf::BoolValue;
use holdfast_xds::Version;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

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

/// Returns a route configuration with its encoded virtual hosts, in order, and its version.
///
/// The version is derived from the versions of the parts: a hash of all bytes would cost more than the copy.
pub fn route_configuration<'a>(
    name: String,
    filters: &Filters,
    guards: &Guards,
    hosts: impl Iterator<Item = (&'a Bytes, &'a Version)> + Clone,
) -> (Bytes, Version) {
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
    let mut parts = head.clone();
    hosts.clone().for_each(|(_, version)| parts.extend_from_slice(version.as_bytes()));
    let size: usize = hosts.clone().map(|(host, _)| host.len() + 8).sum();
    let mut buffer = Vec::with_capacity(size + head.len());
    buffer.extend_from_slice(&head);
    hosts.for_each(|(host, _)| append(&mut buffer, VIRTUAL_HOSTS_FIELD, host));
    (buffer.into(), Version::of(&parts))
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
