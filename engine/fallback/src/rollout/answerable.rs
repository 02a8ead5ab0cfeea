//! The answers that an Envoy can still give to its offered configuration.
//!
//! An Envoy subscribes to a route configuration or a certificate only if one of its resources names it. An Envoy does
//! not have a listener with an address that it cannot bind. An answer about any other resource never arrives, so
//! nothing waits for such an answer.

use std::collections::BTreeSet;

use holdfast_envoy::hold::Hold;
use holdfast_envoy::inspect::references::{self, ResourceReference};
use holdfast_xds::{ResourceType, Snapshot};

use super::Waiting;

/// Returns the changed resources that an Envoy answers when it is offered this configuration. Of route
/// configurations and certificates, these are the resources that are named by a resource that the Envoy has or
/// accepts.
pub(crate) fn answerable(hold: &Hold, node: &str, changed: Waiting, offered: &Snapshot) -> Waiting {
    let of = |kind: ResourceType| changed.keys().filter(move |(of, _)| *of == kind);
    let names = |kind: ResourceType| of(kind).map(|(_, name)| name.as_bytes()).collect::<BTreeSet<_>>();
    let routes =
        named(hold, node, &names(ResourceType::Route), ResourceReference::Routes, offered, &[ResourceType::Listener]);
    let by = [ResourceType::Listener, ResourceType::Cluster, ResourceType::Route];
    let secrets = named(hold, node, &names(ResourceType::Secret), ResourceReference::Secret, offered, &by);
    let mut waiting = changed;
    waiting.retain(|(kind, name), _| match kind {
        ResourceType::Route => routes.contains(name.as_bytes()),
        ResourceType::Secret => secrets.contains(name.as_bytes()),
        _ => true,
    });
    waiting
}

/// Returns the names that resources of these types reference.
fn named(
    hold: &Hold,
    node: &str,
    names: &BTreeSet<&[u8]>,
    reference: ResourceReference,
    offered: &Snapshot,
    kinds: &[ResourceType],
) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    if names.is_empty() {
        return found;
    }
    for (kind, resource) in kinds.iter().flat_map(|kind| offered.of(*kind).values().map(move |known| (*kind, known))) {
        // If an older form of a listener was accepted, the Envoy has that form, which names the same resources. A
        // wait without an answer is worse than no wait: after such a wait the content counts as refused.
        let is_missing = hold.unavailable.lacks(node, kind, &resource.name, resource.version)
            && hold.acknowledged(kind, &resource.name).is_none_or(|known| known.version == resource.version);
        // A false match causes a wait without an answer, until the deadline.
        if !is_missing {
            references::find(&resource.body, reference, names, &mut found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::Rds;
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;
    use holdfast_envoy::hold::Refusal;
    use holdfast_envoy::refusal::RefusalClass;
    use holdfast_graph::Origins;
    use holdfast_xds::{Resource, Version};
    use prost::Message;

    use super::*;

    fn waiting(kind: ResourceType, names: &[&str]) -> Waiting {
        names.iter().map(|name| ((kind, Arc::from(*name)), Version::of(name.as_bytes()))).collect()
    }

    fn rds(name: &str) -> Vec<u8> {
        Rds { route_config_name: name.into(), config_source: None }.encode_to_vec()
    }

    fn offered(kind: ResourceType, body: Vec<u8>) -> (Snapshot, Arc<Resource>) {
        let mut snapshot = Snapshot::default();
        let resource = Arc::new(Resource::new("it".to_owned(), Bytes::from(body), Origins::default()));
        snapshot.insert(kind, resource.clone());
        (snapshot, resource)
    }

    #[test]
    fn only_what_is_named_is_answered() {
        let long = "x".repeat(300);
        let (by_listener, _) = offered(ResourceType::Listener, [rds("http/8080"), rds(&long)].concat());
        let changed = waiting(ResourceType::Route, &["http/80", "http/8080", &long, "other"]);
        let left = answerable(&Hold::default(), "e", changed, &by_listener);
        assert_eq!(left, waiting(ResourceType::Route, &["http/8080", &long]));
        let sds = SdsSecretConfig { name: "shop/cert".into(), sds_config: None }.encode_to_vec();
        for kind in [ResourceType::Listener, ResourceType::Cluster] {
            let changed = waiting(ResourceType::Secret, &["shop/cert", "shop/other"]);
            let left = answerable(&Hold::default(), "e", changed, &offered(kind, sds.clone()).0);
            assert_eq!(left, waiting(ResourceType::Secret, &["shop/cert"]));
        }
    }

    #[test]
    fn a_listener_that_an_envoy_cannot_bind_names_nothing_there() {
        let mut hold = Hold::default();
        let kind = ResourceType::Listener;
        let (snapshot, listener) = offered(kind, rds("http/80"));
        let refusal = Refusal {
            kind,
            resource: listener.name.clone(),
            version: listener.version.to_string(),
            node: "e".into(),
            build: "1".into(),
            message: "cannot bind".into(),
            class: RefusalClass::Host,
            refusers: BTreeSet::new(),
        };
        hold.unavailable.note((kind, listener.name.clone()), listener.version, refusal, 0);
        let changed = waiting(ResourceType::Route, &["http/80"]);
        assert_eq!(answerable(&hold, "e", changed.clone(), &snapshot), Waiting::new());
        assert_eq!(answerable(&hold, "other", changed.clone(), &snapshot), changed, "another Envoy can bind it");
        hold.unavailable.gone("e");
        assert_eq!(answerable(&hold, "e", changed.clone(), &snapshot), changed);
    }
}
