//! Static hosts of an object, instead of the endpoints of a Service: addresses, and names that Envoy resolves by DNS.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::UInt32Value;
use holdfast_graph::ObjectKey;

use super::upstream::Upstream;
use super::upstream_filters::Special;
use super::wall;
use crate::encode::endpoints;

/// Maximum number of hosts of one object.
pub const HOSTS_MAX: usize = 256;
/// Overprovisioning factor in percent: one healthy host of a group with the maximum number of hosts is enough. With
/// Envoy's default, the next group would receive requests as soon as more than a quarter of a group has failed.
const OVERPROVISIONING: u32 = 100 * 256;

/// Message for health checks of hosts that Envoy resolves by name.
const CHECKS_BY_NAME: &str = "healthCheck of a policy would connect to any address that the host name resolves to, \
                              including loopback addresses and cloud metadata services: use outlierDetection, use IP \
                              addresses instead of the host name, or start Holdfast with --allow-health-checks-by-name";

/// The hosts of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hosts {
    /// The object that lists the hosts.
    pub owner: ObjectKey,
    /// Further objects that the hosts come from.
    pub members: Vec<ObjectKey>,
    /// The hosts with their ports in priority groups; at least one host. A group receives requests when all hosts of
    /// the previous groups have failed.
    pub groups: Vec<Vec<(NamedHost, u16)>>,
    /// Whether a name may resolve to the proxy's own host (loopback).
    pub loopback: bool,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamedHost {
    /// An IP address.
    Address(IpAddr),
    /// A DNS name.
    Name(Arc<str>),
}

impl Hosts {
    /// Returns whether Envoy resolves any of the hosts by DNS.
    fn are_named(&self) -> bool {
        self.groups.iter().flatten().any(|(host, _)| matches!(host, NamedHost::Name(_)))
    }

    /// Returns the cluster's own HTTP settings. The owner of a DNS name chooses its addresses, so an address filter
    /// must refuse the addresses that no backend may have.
    pub fn special(&self) -> Special {
        if self.are_named() { wall::special(self.loopback) } else { Special::default() }
    }

    /// Returns an error where settings of policies cannot apply: health checks connect to any address that a name
    /// resolves to, and no Envoy filter applies to them.
    pub fn fits(&self, upstream: &Upstream, checks_by_name: bool) -> Result<(), String> {
        let is_checked = upstream.configured.as_ref().is_some_and(|configured| configured.health.is_some());
        if is_checked && self.are_named() && !checks_by_name {
            return Err(CHECKS_BY_NAME.into());
        }
        Ok(())
    }

    /// Writes the endpoints into a cluster.
    pub fn apply(&self, cluster: &mut envoy::Cluster) {
        if self.are_named() {
            wall::look_up(cluster, DnsLookupFamily::V4Preferred);
        } else {
            cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into()));
        }
        let group = |(priority, group): (u32, &Vec<(NamedHost, u16)>)| LocalityLbEndpoints {
            lb_endpoints: group.iter().map(|(host, port)| host.encode(*port)).collect(),
            priority,
            ..Default::default()
        };
        cluster.load_assignment = Some(ClusterLoadAssignment {
            cluster_name: cluster.name.clone(),
            endpoints: (0..).zip(&self.groups).map(group).collect(),
            policy: (self.groups.len() > 1).then(|| Policy {
                overprovisioning_factor: Some(UInt32Value { value: OVERPROVISIONING }),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
}

impl NamedHost {
    fn encode(&self, port: u16) -> LbEndpoint {
        match self {
            Self::Address(address) => LbEndpoint {
                host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
                    address: Some(endpoints::address(SocketAddr::new(*address, port))),
                    ..Default::default()
                })),
                ..Default::default()
            },
            Self::Name(name) => {
                let mut endpoint = endpoints::named(name, port);
                // Host rewriting to the endpoint's host name uses this name.
                if let Some(HostIdentifier::Endpoint(endpoint)) = &mut endpoint.host_identifier {
                    endpoint.hostname = name.to_string();
                }
                endpoint
            }
        }
    }
}
