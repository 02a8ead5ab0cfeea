//! Dynamic forward proxy: the `Host` of a request selects the backend; Envoy resolves its name or takes its address.
//!
//! Clients choose the destination, so two address filters protect the proxy itself and the addresses that only the
//! proxy can reach. Both are part of the cluster, and apply whatever filter chain a request came through. The first
//! filter removes refused addresses from DNS answers, all of them, since Envoy tries the next address where one does
//! not respond. The second filter checks the selected address before each connection.

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CustomClusterType, DnsLookupFamily, LbPolicy,
};
use envoy_types::pb::envoy::config::core::v3::UpstreamHttpProtocolOptions;
use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3::cluster_config::ClusterImplementationSpecifier;
use envoy_types::pb::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::AddressMatcher;
use envoy_types::pb::google::protobuf::UInt32Value;
use envoy_types::pb::xds::core::v3::CidrRange as XdsRange;
use holdfast_check::ranges::{self, Range};
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
use prost::Message;

use super::upstream::Upstream;
use super::upstream_filters::Special;
use super::wall;
use crate::encode::any;

/// Maximum number of names in the DNS cache of one Envoy for one Backend. Further names are refused until a cached name
/// was unused for five minutes.
pub const NAMES_MAX: u32 = 1024;

/// A destination that each request chooses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Anywhere {
    /// The object that configures the forward proxy.
    pub owner: ObjectKey,
    /// Whether connections use TLS; the server's certificate must be valid for the requested name.
    pub tls: bool,
    /// Whether the destination may be the proxy's own host (loopback).
    pub loopback: bool,
}

impl Anywhere {
    /// Writes the discovery of the cluster's hosts into the cluster.
    pub fn apply(&self, cluster: &mut envoy::Cluster) {
        let mut lookups = DnsCacheConfig {
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            max_hosts: Some(UInt32Value { value: NAMES_MAX }),
            resolved_address_filter: Some(AddressMatcher {
                ranges: self.refused().iter().map(in_answers).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        // Envoy refuses other settings for the name of a DNS cache that it already has.
        let label: String = Version::of(&lookups.encode_to_vec()).to_string().chars().take(16).collect();
        lookups.name = format!("{}/{label}", cluster.name);
        let config = ClusterConfig {
            cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(lookups)),
            ..Default::default()
        };
        cluster.cluster_discovery_type = Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.dynamic_forward_proxy".into(),
            typed_config: Some(any(&config)),
        }));
        cluster.lb_policy = LbPolicy::ClusterProvided.into();
    }

    /// Returns the cluster's own HTTP settings.
    pub fn special(&self) -> Special {
        Special {
            filters: vec![wall::filter(self.loopback)],
            // The server's certificate must be valid for the requested name.
            names: Some(UpstreamHttpProtocolOptions {
                auto_sni: true,
                auto_san_validation: true,
                ..Default::default()
            }),
        }
    }

    /// Returns an error where settings of policies cannot apply to a forward proxy.
    pub fn fits(upstream: &Upstream) -> Result<(), String> {
        if upstream.tls.is_some() {
            return Err(
                "TLS to the hosts of a dynamic forward proxy is set by enableTls of the Backend, not by a policy"
                    .into(),
            );
        }
        let Some(configured) = &upstream.configured else { return Ok(()) };
        let set = [
            ("loadBalancer", configured.balance.is_some()),
            ("healthCheck", configured.health.is_some()),
            ("outlierDetection", configured.outliers.is_some()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => Err(format!(
                "{field} of a policy cannot apply to a dynamic forward proxy, where requests select the host"
            )),
            None => Ok(()),
        }
    }

    fn refused(&self) -> Vec<Range> {
        ranges::refused(self.loopback)
    }
}

fn bits(range: &Range) -> UInt32Value {
    UInt32Value { value: range.bits.into() }
}

/// Returns a matcher of DNS answers in the range.
fn in_answers(range: &Range) -> XdsRange {
    XdsRange { address_prefix: range.network.to_string(), prefix_len: Some(bits(range)) }
}
