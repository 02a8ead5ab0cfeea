//! Connections that are passed on as they are: nobody looks at what is said on them.

use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::Filter;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, WeightedCluster,
};
use holdfast_graph::ObjectKey;

use super::ip_filter::IpFilter;
use crate::encode::{duration, listener, names};
use crate::model::Backend;

/// How long a connection may be silent. Contour's, on which people rely who keep connections open for long.
const IDLE: Duration = Duration::from_secs(9001);

/// The filter of connections by their addresses.
pub(crate) const ADDRESSES: &str = "envoy.filters.network.rbac";

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The back ends with their shares of the connections; never empty, no share is 0.
    pub backends: Vec<(Backend, u32)>,
    /// Who may come in, by address.
    pub ip_filter: Option<IpFilter>,
    /// The objects that it was made from.
    pub origins: Vec<ObjectKey>,
}

impl Stream {
    /// Envoy's filters.
    pub(crate) fn filters(&self, name: &str) -> Vec<Filter> {
        let prefix = name.replace('/', "_");
        let rbac = self.ip_filter.as_ref().map(|filter| {
            let rbac = Rbac { rules: Some(filter.rules()), stat_prefix: prefix.clone(), ..Default::default() };
            listener::filter(ADDRESSES, &rbac)
        });
        let to = match self.backends.as_slice() {
            [(only, _)] => ClusterSpecifier::Cluster(names::cluster(only)),
            several => {
                let share = |(backend, weight): &(Backend, u32)| ClusterWeight {
                    name: names::cluster(backend),
                    weight: *weight,
                    ..Default::default()
                };
                ClusterSpecifier::WeightedClusters(WeightedCluster { clusters: several.iter().map(share).collect() })
            }
        };
        let proxy = TcpProxy {
            stat_prefix: prefix.clone(),
            idle_timeout: Some(duration(IDLE)),
            cluster_specifier: Some(to),
            ..Default::default()
        };
        rbac.into_iter().chain([listener::filter("envoy.filters.network.tcp_proxy", &proxy)]).collect()
    }
}
