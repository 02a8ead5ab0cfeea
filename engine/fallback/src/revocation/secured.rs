//! Check of held routes: the held cluster must be as secure as current policies require.

use holdfast_api::object::Object;
use holdfast_envoy::encode::names;
use holdfast_envoy::inspect::clusters::ClusterTls;
use holdfast_graph::ObjectKey;
use holdfast_translate::overlay::Overlay;
use holdfast_xds::ResourceType;

use super::{Held, Revocation};
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::hybrid::hybrid;
use crate::eligibility::protection;
use crate::eligibility::served_now::{EarlierUnit, why_not_now};

/// Checks whether an acknowledged cluster has the TLS settings that current policies require.
pub(super) fn is_secured(revocation: &Revocation<'_, '_>, cluster: &str, by: &Held<'_>) -> bool {
    let Some((place, port)) = names::backend(cluster) else { return true };
    let translator = &revocation.inputs.translator;
    let identity = translator.served_identity(&revocation.id.fleet);
    let today = Overlay::default();
    let Some(wanted) = translator.secured((&place, port), &today, identity, revocation.inputs.objects) else {
        return true;
    };
    let held = revocation.hold.acknowledged(ResourceType::Cluster, &cluster.into());
    let held = held.and_then(|held| ClusterTls::read(&held.body));
    // While the required settings are tried, a backend keeps its earlier TLS settings.
    held.is_some_and(|held| {
        by.meanwhile.is_some() || wanted.contains(&held) || is_as_strict(revocation, &place, port, &held)
    })
}

/// An earlier version of a policy of a backend, with the TLS settings of which a cluster may be held.
struct EarlierSecurity<'a> {
    desired: &'a Object,
    last: &'a Object,
}

impl EarlierUnit for EarlierSecurity<'_> {
    type Why = ();

    fn lacks_claim(&self) -> Option<()> {
        (!may_stand_in(self.desired) || !may_stand_in(self.last)).then_some(())
    }

    fn lacks_protection(&self) -> Option<()> {
        protection::lost(self.desired, &self.last.body, &protection::Context::default()).map(|_| ())
    }

    // The held cluster is compared with the version as it is translated with today's objects.
    fn lacks_reference(&self) -> Option<()> {
        None
    }
}

/// Checks whether these are the TLS settings of earlier versions of the current policies that protect as much.
fn is_as_strict(revocation: &Revocation<'_, '_>, place: &ObjectKey, port: Option<u16>, held: &ClusterTls) -> bool {
    let translator = &revocation.inputs.translator;
    let identity = translator.served_identity(&revocation.id.fleet);
    let policies = translator.policies_of_backend(place, revocation.inputs.objects);
    let earlier = policies.iter().filter_map(|key| {
        let desired = revocation.inputs.objects.get(key)?;
        let mut versions = revocation.evidence.last_valid.of(key, Some(&desired.metadata.uid));
        let version =
            versions.find(|version| why_not_now(&EarlierSecurity { desired, last: &version.object }).is_none())?;
        Some((key.clone(), hybrid(Some(desired), &version.object)))
    });
    let over = Overlay { objects: earlier.collect(), ..Overlay::default() };
    let then = || translator.secured((place, port), &over, identity, revocation.inputs.objects);
    !over.is_empty() && then().is_some_and(|wanted| wanted.contains(held))
}
