//! Trials of parts of routes on a serving Envoy, in a virtual host that no request reaches.
//!
//! The trial configuration is the configuration of all Envoys plus that host. Clients are therefore served as before
//! during the trial, and Envoy's answer is only about the parts on trial. Units of backfilled objects are tried in it,
//! and routes that are as new as a policy of theirs: no request may be served such a route without the policy, and with
//! the policy a refusal does not separate the two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::encode::{names, route_configuration};
use holdfast_envoy::model::HostSettings;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Content, ObjectKey};
use holdfast_translate::route::Rendered;
use holdfast_xds::{Resource, ResourceType};

use super::accused;
use super::admission::{TrialOffer, Tried};
use super::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::forms::Form;
use crate::rollout::Waiting;
use crate::scope::FallbackScope;

/// Parts of routes by route configuration and content.
type RoutePartsByName = BTreeMap<String, BTreeMap<Content, Arc<Rendered>>>;

/// Returns a configuration that tries these contents in such a host, with the resources to be answered; `None`
/// unless each content is a part of a route, and the parts are units of a backfilled object or contain a route with
/// a policy that no Envoy has accepted.
pub(super) fn on_trial_unreached(
    scope: &mut FallbackScope,
    tried: &Tried,
    inputs: &StepInputs<'_>,
) -> Option<TrialOffer> {
    let parts = parts_on_trial(scope, tried, inputs);
    let found: BTreeSet<Content> = parts.values().flat_map(BTreeMap::keys).copied().collect();
    let is_backfilled = |key: &ObjectKey| scope.derived.overlay.objects.contains_key(key);
    // Units of several backfilled objects are tried in the places of these objects.
    let are_units = tried.apart.len() == 1 && tried.apart.iter().all(is_backfilled);
    let state = SuspectInputs::of(scope);
    // Also after the Envoy accepted the parts: a follower prepares a trial again until the leader ends it.
    let has_new_policy = |part: &Arc<Rendered>| accused::has_unproven_settings(&state, part);
    if found != tried.contents || !(are_units || parts.values().flat_map(BTreeMap::values).any(has_new_policy)) {
        return None;
    }
    let (mut snapshot, mut waiting) = (scope.configurations.everyone.clone()?, Waiting::new());
    for (name, parts) in parts {
        let (resource, served) = served(scope, &name)?;
        let state = SuspectInputs::of(scope);
        let parts = parts.values().map(|part| accused::part_alone(&state, part));
        let parts: BTreeMap<Content, Arc<Rendered>> =
            parts.map(|part| (part.encoded(served.context).1, part)).collect();
        let host = Host::unreachable();
        let routes: Vec<_> = parts.values().map(|part| part.encoded(served.context).0).collect();
        let (label, domain) = (names::virtual_host(&host), host.domain().to_owned());
        let bytes = route_configuration::virtual_host(label, domain, routes.iter(), &HostSettings::default());
        let body = route_configuration::with_host(&resource.body, &bytes);
        let tried = Arc::new(Resource::new(resource.name.clone(), body, resource.origins.clone()));
        let mut composition = served.composition.clone();
        composition.insert(host, parts.into_iter().collect());
        scope.evidence.forms.note(&tried.name, Form { version: tried.version, composition, ..served });
        waiting.insert((ResourceType::Route, tried.name.clone()), tried.version);
        snapshot.insert(ResourceType::Route, tried);
    }
    Some(TrialOffer { snapshot, waiting, is_unreached: true })
}

/// Returns those of the contents that are desired parts of suspected or convicted routes.
fn parts_on_trial(scope: &FallbackScope, tried: &Tried, inputs: &StepInputs<'_>) -> RoutePartsByName {
    let verdicts = tried.contents.iter().filter_map(|content| scope.verdicts.quarantine.get(content));
    let keys: BTreeSet<&ObjectKey> = verdicts.map(|verdict| &verdict.node.key).chain(&tried.apart).collect();
    let mut all = RoutePartsByName::new();
    for plan in keys.into_iter().filter_map(|key| inputs.translator.route(key)) {
        for (name, parts) in inputs.translator.parts_with(&scope.id.gateway, plan, &tried.contents) {
            all.entry(name).or_default().extend(parts);
        }
    }
    all
}

/// Returns the version of a route configuration that all Envoys are offered, and its form.
fn served(scope: &FallbackScope, name: &str) -> Option<(Arc<Resource>, Form)> {
    let resource = scope.configurations.everyone.as_ref()?.get(ResourceType::Route, name)?;
    let forms = &scope.evidence.forms;
    let form = forms.of(name, &resource.version).or_else(|| forms.acknowledged(name))?;
    Some((resource.clone(), form.clone()))
}
