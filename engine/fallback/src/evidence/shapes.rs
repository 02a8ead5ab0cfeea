//! Contents of clusters: shapes, and shares of objects.
//!
//! A shape is the content of a cluster without its names. Clusters of the same shape are accepted or refused alike.
//! Most clusters of a Gateway have the same shape, so that few have to be tried.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Version;
use prost::Message;

/// Returns the hash of a cluster without its name and the name of its endpoints.
pub(crate) fn shape(body: &[u8]) -> Content {
    let Ok(mut cluster) = Cluster::decode(body) else { return Content(*Version::of(body).as_bytes()) };
    cluster.name.clear();
    if let Some(endpoints) = &mut cluster.eds_cluster_config {
        endpoints.service_name.clear();
    }
    if let Some(endpoints) = &mut cluster.load_assignment {
        endpoints.cluster_name.clear();
    }
    Content(*Version::of(&cluster.encode_to_vec()).as_bytes())
}

/// Returns the share of an object in a cluster, as a content that can be refused.
pub(crate) fn share(cluster: Version, key: &ObjectKey) -> Content {
    let text = format!("share in {cluster} of {key}");
    Content(*Version::of(text.as_bytes()).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use holdfast_envoy::encode::cluster::encode;
    use holdfast_envoy::model::{Backend, Place, Protocol, ServicePort};

    #[test]
    fn names_do_not_count_and_everything_else_does() {
        let backend = |name: &str, protocol, tuned| {
            let service = ServicePort { key: ObjectKey::new("", "Service", "shop", name), port: 80, health: None };
            shape(&encode(&Backend { place: Place::Service(service), protocol, tuned }))
        };
        let idle = |seconds| {
            let idle = Some(std::time::Duration::from_secs(seconds));
            holdfast_envoy::features::upstream::Upstream { idle, ..Default::default() }.tuned()
        };
        let tuned: Vec<Option<Arc<_>>> = vec![None, idle(1), idle(2)];
        assert_eq!(backend("a", Protocol::Http1, None), backend("b", Protocol::Http1, None));
        let all = tuned
            .into_iter()
            .flat_map(|tuned| [Protocol::Http1, Protocol::H2c].map(|protocol| backend("a", protocol, tuned.clone())));
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 6);
    }
}
