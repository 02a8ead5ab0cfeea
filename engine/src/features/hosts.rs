//! Hosts that an object names itself, instead of the endpoints of a Service: addresses, and names that Envoy looks up.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
use holdfast_graph::ObjectKey;

use crate::encode::endpoints;

/// Hosts of one object.
pub const HOSTS_MAX: usize = 256;
/// How many percent of the requests of a group its healthy hosts can take: so many that of as many hosts as there may be
/// one is enough. Envoy would pass requests on as soon as more than a quarter of a group has failed.
const OVERPROVISIONING: u32 = 100 * 256;

/// The hosts of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hosts {
    /// The object that names them.
    pub owner: ObjectKey,
    /// Further objects that they come from.
    pub members: Vec<ObjectKey>,
    /// The hosts with their ports, at least one, in groups: the next one is for requests when all of a group have failed.
    pub groups: Vec<Vec<(NamedHost, u16)>>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamedHost {
    /// By its address.
    Address(IpAddr),
    /// By its name.
    Name(Arc<str>),
}

impl Hosts {
    /// Writes into a cluster where its endpoints are.
    pub(crate) fn apply(&self, cluster: &mut envoy::Cluster) {
        let are_named = self.groups.iter().flatten().any(|(host, _)| matches!(host, NamedHost::Name(_)));
        let discovery = if are_named { DiscoveryType::StrictDns } else { DiscoveryType::Static };
        cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(discovery.into()));
        if are_named {
            cluster.dns_lookup_family = DnsLookupFamily::V4Preferred.into();
            // A name that nobody knows must not keep other clusters waiting.
            cluster.wait_for_warm_on_init = Some(BoolValue { value: false });
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
                // What a host is called that is asked for by the name of its endpoint.
                if let Some(HostIdentifier::Endpoint(endpoint)) = &mut endpoint.host_identifier {
                    endpoint.hostname = name.to_string();
                }
                endpoint
            }
        }
    }
}
