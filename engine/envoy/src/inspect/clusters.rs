//! Encoded clusters: their shapes, and their TLS settings.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::TransportSocket;
use holdfast_graph::Content;
use prost::Message;

use super::content;
use crate::features::upstream::{ClientIdentity, Upstream};

/// The TLS settings of a cluster in Envoy's form, for comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTls(TransportSocket);

impl ClusterTls {
    /// Returns the TLS settings of a cluster of a Gateway with these settings; `None` if it has no TLS.
    pub fn of(upstream: &Upstream, identity: &ClientIdentity) -> Option<Self> {
        if identity.closes(upstream.tls.as_ref()) {
            return None;
        }
        let mut cluster = Cluster::default();
        upstream.apply_as(identity, &mut cluster);
        cluster.transport_socket.map(Self)
    }

    /// Returns the TLS settings of an encoded cluster; `None` if it has no TLS.
    pub fn read(body: &[u8]) -> Option<Self> {
        Cluster::decode(body).ok()?.transport_socket.map(Self)
    }
}

/// Returns the shape of a cluster: the hash of its content without its name and the name of its endpoints. Clusters of
/// the same shape are accepted or refused alike.
///
/// Most clusters of a Gateway have the same shape, so that few have to be tried.
pub fn shape(body: &[u8]) -> Content {
    let Ok(mut cluster) = Cluster::decode(body) else { return content(body) };
    cluster.name.clear();
    if let Some(endpoints) = &mut cluster.eds_cluster_config {
        endpoints.service_name.clear();
    }
    if let Some(endpoints) = &mut cluster.load_assignment {
        endpoints.cluster_name.clear();
    }
    content(&cluster.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_graph::ObjectKey;

    use super::*;
    use crate::encode::cluster::encode;
    use crate::model::port::Transport;
    use crate::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort};

    #[test]
    fn names_do_not_count_and_everything_else_does() {
        let backend = |name: &str, protocol, tuned| {
            let service = ServicePort {
                key: ObjectKey::new("", "Service", "shop", name),
                port: 80,
                transport: Transport::Tcp,
                health: None,
            };
            let backend = BackendCluster { place: EndpointSource::Service(service), protocol, tuned };
            shape(&encode(&backend, &ClientIdentity::Anonymous))
        };
        let idle = |seconds| {
            let idle = Some(std::time::Duration::from_secs(seconds));
            Upstream { idle, ..Default::default() }.tuned()
        };
        let tuned: Vec<Option<Arc<_>>> = vec![None, idle(1), idle(2)];
        assert_eq!(backend("a", BackendProtocol::Http1, None), backend("b", BackendProtocol::Http1, None));
        let all = tuned.into_iter().flat_map(|tuned| {
            [BackendProtocol::Http1, BackendProtocol::H2c].map(|protocol| backend("a", protocol, tuned.clone()))
        });
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 6);
    }
}
