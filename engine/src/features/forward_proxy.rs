//! Back ends that are wherever a request wants to go: by the name or address in its `Host`, looked up by Envoy.
//!
//! Clients choose what is connected to, so that two walls stand around the proxy itself and what only it can reach. Both
//! are in the cluster, and hold whatever chain a request came through. The first takes addresses out of what names
//! are resolved to, all of them: Envoy tries the next one where the first is silent. The second looks at the address that
//! was chosen, each time that one is, before it is connected to.

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
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
use prost::Message;

use super::upstream::Upstream;
use super::upstream_filters::Special;
use super::wall;
use crate::check::ranges::{self, Range};
use crate::encode::any;

/// Names that one Envoy remembers for one Backend; more are refused until some were not asked for during five minutes.
pub const NAMES_MAX: u32 = 1024;

/// Wherever a request wants to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Anywhere {
    /// The object that says so.
    pub owner: ObjectKey,
    /// Is TLS spoken, to whoever proves to have the name that is asked for?
    pub tls: bool,
    /// May it be the proxy's own host?
    pub loopback: bool,
}

impl Anywhere {
    /// Writes into a cluster how its hosts are found.
    pub(crate) fn apply(&self, cluster: &mut envoy::Cluster) {
        let mut lookups = DnsCacheConfig {
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            max_hosts: Some(UInt32Value { value: NAMES_MAX }),
            resolved_address_filter: Some(AddressMatcher {
                ranges: self.refused().iter().map(in_answers).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        // Envoy takes no other settings for a name that it knows.
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

    /// What is special about HTTP there.
    pub(crate) fn special(&self) -> Special {
        Special {
            filters: vec![wall::filter(self.loopback)],
            // Who has the name that is asked for is whom the certificate must prove.
            names: Some(UpstreamHttpProtocolOptions {
                auto_sni: true,
                auto_san_validation: true,
                ..Default::default()
            }),
        }
    }

    /// Why what policies say cannot hold there.
    pub(crate) fn fits(upstream: &Upstream) -> Result<(), String> {
        if upstream.tls.is_some() {
            return Err("whether TLS is spoken, and to whom, says enableTls of the Backend, and no policy".into());
        }
        let Some(configured) = &upstream.configured else { return Ok(()) };
        let set = [
            ("loadBalancer", configured.balance.is_some()),
            ("healthCheck", configured.health.is_some()),
            ("outlierDetection", configured.outliers.is_some()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => Err(format!("{field} of a policy has no meaning where requests choose the host")),
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

/// An address that a name is resolved to, in a range.
fn in_answers(range: &Range) -> XdsRange {
    XdsRange { address_prefix: range.network.to_string(), prefix_len: Some(bits(range)) }
}
