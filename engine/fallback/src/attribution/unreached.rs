//! Trials of units of backfilled objects on a serving Envoy, in a virtual host that no request reaches.
//!
//! The trial configuration is the configuration of all Envoys plus that host. Clients are therefore served the last
//! valid version during the trial, and Envoy's answer is only about the units on trial.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_envoy::encode::{names, route_configuration};
use holdfast_envoy::model::HostSettings;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;
use holdfast_translate::overlay::Overlay;
use holdfast_xds::{Resource, ResourceType, Snapshot};

use super::admission::{TrialOffer, Tried};
use crate::context::scope_id::ScopeId;
use crate::context::step_inputs::StepInputs;
use crate::evidence::forms::{Form, RouteForms};
use crate::rollout::Waiting;

/// Returns a configuration that tries these contents in such a host, with the resources to be answered; `None`
/// unless each content is a part of a backfilled route.
pub(super) fn on_trial_unreached(
    forms: &mut RouteForms,
    id: &ScopeId,
    overlay: &Overlay,
    everyone: Option<&Snapshot>,
    tried: &Tried,
    inputs: &StepInputs<'_>,
) -> Option<TrialOffer> {
    let Tried { contents, apart } = tried;
    let is_backfilled = |key: &ObjectKey| overlay.objects.contains_key(key);
    // A second object would need a host of its own.
    if apart.len() != 1 || !apart.iter().all(is_backfilled) {
        return None;
    }
    let everyone = everyone?;
    let (mut snapshot, mut waiting) = (everyone.clone(), Waiting::new());
    let mut found = BTreeSet::new();
    for plan in apart.iter().filter_map(|key| inputs.translator.route(key)) {
        for (name, parts) in inputs.translator.parts_with(&id.gateway, plan, contents) {
            let resource = snapshot.get(ResourceType::Route, &name)?.clone();
            let served = forms.of(&name, &resource.version).or_else(|| forms.acknowledged(&name)).cloned()?;
            found.extend(parts.keys().copied());
            let host = Host::unreachable();
            let routes: Vec<_> = parts.values().map(|rendered| rendered.encoded(served.context).0).collect();
            let (label, domain) = (names::virtual_host(&host), host.domain().to_owned());
            let bytes = route_configuration::virtual_host(label, domain, routes.iter(), &HostSettings::default());
            let body = route_configuration::with_host(&resource.body, &bytes);
            let tried = Arc::new(Resource::new(resource.name.clone(), body, resource.origins.clone()));
            let mut composition = served.composition.clone();
            composition.insert(host, parts.into_iter().collect());
            forms.note(&tried.name, Form { version: tried.version, composition, ..served });
            waiting.insert((ResourceType::Route, tried.name.clone()), tried.version);
            snapshot.insert(ResourceType::Route, tried);
        }
    }
    (found == *contents).then_some(TrialOffer { snapshot, waiting, is_unreached: true })
}
