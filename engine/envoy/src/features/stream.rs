//! TCP proxying: connections that Envoy forwards without inspection.

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
use crate::model::BackendCluster;

/// Idle timeout of a connection. It is Contour's default, on which users with long-lived connections rely.
const IDLE: Duration = Duration::from_secs(9001);

/// The network filter that forwards connections.
pub const PROXY: &str = "envoy.filters.network.tcp_proxy";

/// The network filter that checks client addresses.
pub const ADDRESSES: &str = "envoy.filters.network.rbac";

/// A TCP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The backends with their weights; never empty, no weight is 0. Connections of the share of a missing backend,
    /// which is unset, are closed.
    pub backends: Vec<(Option<BackendCluster>, u32)>,
    /// Allow or deny list of client addresses.
    pub ip_filter: Option<IpFilter>,
    /// The objects that configure the proxy.
    pub origins: Vec<ObjectKey>,
}

impl Stream {
    /// Returns Envoy's network filters.
    pub fn filters(&self, name: &str) -> Vec<Filter> {
        let prefix = name.replace('/', "_");
        let rbac = self.ip_filter.as_ref().map(|filter| {
            let rbac = Rbac { rules: Some(filter.rules()), stat_prefix: prefix.clone(), ..Default::default() };
            listener::filter(ADDRESSES, &rbac)
        });
        let cluster = |backend: &Option<BackendCluster>| match backend {
            Some(backend) => names::cluster(backend),
            None => names::MISSING_BACKEND.to_owned(),
        };
        let to = match self.backends.as_slice() {
            [(only, _)] => ClusterSpecifier::Cluster(cluster(only)),
            several => {
                let share = |(backend, weight): &(Option<BackendCluster>, u32)| ClusterWeight {
                    name: cluster(backend),
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
        rbac.into_iter().chain([listener::filter(PROXY, &proxy)]).collect()
    }
}
