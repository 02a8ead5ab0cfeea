//! Check of held routes: the held cluster must be as secure as current policies require.

use holdfast_api::object::Object;
use holdfast_envoy::encode::names;
use holdfast_envoy::inspect::clusters::ClusterTls;
use holdfast_graph::ObjectKey;
use holdfast_translate::overlay::Overlay;
use holdfast_xds::ResourceType;

use super::Held;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::hybrid::hybrid;
use crate::eligibility::protection;
use crate::scope::FallbackScope;

/// Checks whether an acknowledged cluster has the TLS settings that current policies require.
pub(super) fn is_secured(scope: &FallbackScope, cluster: &str, by: &Held<'_>, inputs: &StepInputs<'_>) -> bool {
    let Some((place, port)) = names::backend(cluster) else { return true };
    let today = Overlay::default();
    let Some(wanted) = inputs.translator.secured(&place, port, &today, inputs.objects) else { return true };
    let held = scope.hold.acknowledged(ResourceType::Cluster, &cluster.into());
    let held = held.and_then(|held| ClusterTls::read(&held.body));
    // While the required settings are tried, a backend keeps its earlier TLS settings.
    held.is_some_and(|held| {
        by.meanwhile.is_some() || wanted.contains(&held) || is_as_strict(scope, &place, port, &held, inputs)
    })
}

/// Checks whether these are the TLS settings of earlier versions of the current policies that protect as much.
fn is_as_strict(
    scope: &FallbackScope,
    place: &ObjectKey,
    port: Option<u16>,
    held: &ClusterTls,
    inputs: &StepInputs<'_>,
) -> bool {
    let policies = inputs.translator.policies_of_backend(place, inputs.objects);
    let earlier = policies.iter().filter_map(|key| {
        let desired = inputs.objects.get(key).filter(|desired| may_stand_in(desired))?;
        let protects = |last: &Object| {
            may_stand_in(last) && protection::lost(desired, &last.body, &protection::Context::default()).is_none()
        };
        let mut versions = scope.evidence.last_valid.of(key, Some(&desired.metadata.uid));
        let version = versions.find(|version| protects(&version.object))?;
        Some((key.clone(), hybrid(Some(desired), &version.object)))
    });
    let over = Overlay { objects: earlier.collect(), ..Overlay::default() };
    let then = || inputs.translator.secured(place, port, &over, inputs.objects);
    !over.is_empty() && then().is_some_and(|wanted| wanted.contains(held))
}
