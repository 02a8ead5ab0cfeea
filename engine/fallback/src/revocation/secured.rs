//! Check of held routes: the held cluster must be as secure as current policies require.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::TransportSocket;
use holdfast_api::apis::kgateway;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::overlay::Overlay;
use holdfast_xds::ResourceType;
use prost::Message;

use super::Held;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::hybrid::hybrid;
use crate::eligibility::protection;
use crate::scope::FallbackScope;

/// Returns the object of a cluster and its port, by the name of the cluster.
pub(super) fn place(cluster: &str) -> Option<(ObjectKey, Option<u16>)> {
    let mut parts = cluster.split('/');
    match (parts.next()?, parts.next()?, parts.next()?) {
        ("service", namespace, name) => Some((scheme::service_key(namespace, name), parts.next()?.parse().ok())),
        ("backend", namespace, name) => Some((ObjectKey::new(kgateway::GROUP, kinds::BACKEND, namespace, name), None)),
        _ => None,
    }
}

/// Checks whether an acknowledged cluster has the TLS settings that current policies require.
pub(super) fn is_secured(scope: &FallbackScope, cluster: &str, by: &Held<'_>, inputs: &StepInputs<'_>) -> bool {
    let Some((place, port)) = place(cluster) else { return true };
    let today = Overlay::default();
    let Some(wanted) = inputs.translator.secured(&place, port, &today, inputs.objects) else { return true };
    let held = scope.hold.acknowledged(ResourceType::Cluster, &cluster.into());
    let held = held.and_then(|held| Cluster::decode(&held.body[..]).ok()).and_then(|held| held.transport_socket);
    // While the required settings are tried, a backend keeps its earlier TLS settings.
    held.is_some_and(|socket| {
        by.meanwhile.is_some() || wanted.contains(&socket) || is_as_strict(scope, &place, port, &socket, inputs)
    })
}

/// Checks whether these are the TLS settings of earlier versions of the current policies that protect as much.
fn is_as_strict(
    scope: &FallbackScope,
    place: &ObjectKey,
    port: Option<u16>,
    held: &TransportSocket,
    inputs: &StepInputs<'_>,
) -> bool {
    let policies = inputs.translator.policies_of_backend(place, inputs.objects);
    let earlier = policies.iter().filter_map(|key| {
        let desired = inputs.objects.get(key).filter(|desired| may_stand_in(desired))?;
        let protects = |last: &Object| {
            may_stand_in(last) && protection::lost(desired, &last.body, &protection::Context::default()).is_none()
        };
        let mut versions = scope.last_valid.of(key, Some(&desired.metadata.uid));
        let version = versions.find(|version| protects(&version.object))?;
        Some((key.clone(), hybrid(Some(desired), &version.object)))
    });
    let over = Overlay { objects: earlier.collect(), ..Overlay::default() };
    let then = || inputs.translator.secured(place, port, &over, inputs.objects);
    !over.is_empty() && then().is_some_and(|wanted| wanted.contains(held))
}
