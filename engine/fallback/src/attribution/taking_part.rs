//! Content of a trial on an Envoy of the fleet: the suspects in it, and other new content in it.
//!
//! While one suspect is on trial, the others are closed, together with the content that uses them. A trial can
//! therefore contain nothing of its suspect, and can contain content that was made only to close others. In these cases
//! neither an acknowledgement nor a refusal proves anything about the suspect on trial.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_envoy::inspect::chain_parts;
use holdfast_graph::Content;
use holdfast_xds::{ResourceType, Version};

use super::accused;
use super::blame;
use super::readmission::Readmission;
use super::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;

/// New content in a refused resource of a trial that is not on trial.
#[derive(Default)]
pub(crate) struct Untried {
    /// The parts of the resource that no Envoy has accepted and that are not suspected yet.
    pub(crate) others: Vec<Subject>,
    /// All parts of the resource that no Envoy has accepted; `None` if these are not known.
    pub(super) accused: Option<HashSet<Content>>,
}

/// Returns the contents on trial that no offered resource contains. This covers parts of routes, direct responses
/// instead of them, filters, and parts of policies.
///
/// A part of a route is in no resource while the rest of its object is backfilled, or if nothing that is served
/// includes it.
pub(super) fn absent_from_trial(state: &SuspectInputs<'_>, inputs: &StepInputs<'_>) -> HashSet<Content> {
    // Each content of a trial in a host that no request reaches is in that host, perhaps without its policies.
    let Some(trial) = state.trials.current.as_ref().filter(|trial| !trial.is_unreached) else { return HashSet::new() };
    let testing = state.trials.testing();
    let keys: BTreeSet<_> =
        testing.iter().flat_map(|subject| subject.contents.values()).map(|node| &node.key).collect();
    let routes = || keys.iter().filter_map(|key| inputs.translator.route(key));
    let added = routes().flat_map(|plan| &plan.additions).map(|setting| setting.content());
    let tables = routes().flat_map(|plan| inputs.translator.parts_with(&state.id.gateway, plan, &trial.contents));
    let routes = tables.flat_map(|(_, parts)| parts.into_keys()).chain(added);
    let policies = keys.iter().filter_map(|key| inputs.translator.policy(key));
    let contents = policies.flat_map(|plan| plan.contents()).map(|(_, content)| content);
    let served = inputs.translator.served_filters(&state.id.fleet);
    let filters = inputs.translator.filters(&state.id.gateway).into_iter().chain(served);
    let filters = filters.map(|(content, _, _)| content);
    let answers = testing.iter().filter(|subject| blame::is_replacement(&state.id.fleet, subject, inputs));
    let answers = answers.flat_map(|subject| subject.contents.keys().copied());
    let parts = routes.chain(contents).chain(filters).chain(answers);
    let mut absent: HashSet<Content> = parts.filter(|content| trial.contents.contains(content)).collect();
    if absent.is_empty() {
        return absent;
    }
    let mut present = HashSet::new();
    for (name, resource) in trial.snapshot.of(ResourceType::Listener) {
        present.extend(chain_parts::parts(&resource.body).into_iter().flat_map(|parts| parts.filters));
        let policy_settings = state
            .evidence
            .listener_forms
            .of(name, resource.version)
            .into_iter()
            .flat_map(|form| form.policy_settings.settings.keys());
        present.extend(policy_settings.map(|setting| setting.content()));
    }
    for (name, resource) in trial.snapshot.of(ResourceType::Route) {
        let Some(form) = state.evidence.forms.of(name, &resource.version) else { continue };
        present.extend(form.policy_settings.iter().map(|setting| setting.content()));
        for (content, rendered) in form.composition.values().flat_map(|parts| parts.iter()) {
            present.insert(*content);
            present.extend(rendered.policy_settings().iter().map(|setting| setting.content()));
        }
    }
    absent.retain(|content| !present.contains(content));
    absent
}

/// Returns the content in a refused resource of a trial that is as new as the content on trial.
pub(super) fn untried_in(
    state: &SuspectInputs<'_>,
    kind: ResourceType,
    name: &Arc<str>,
    version: Version,
    inputs: &StepInputs<'_>,
) -> Untried {
    let mut untried = Untried::default();
    if state.trials.current.is_none() && state.trials.readmission.is_none() {
        return untried;
    }
    // For a cluster, only its users in the published configuration are known.
    if !matches!(kind, ResourceType::Listener | ResourceType::Route) {
        return untried;
    }
    let unreached = state.trials.current.as_ref().filter(|trial| trial.is_unreached);
    if let Some(trial) = unreached.filter(|trial| trial.waiting.get(&(kind, name.clone())) == Some(&version)) {
        // The rest of the resource is in the configuration of all Envoys.
        untried.accused = Some(trial.contents.iter().copied().collect());
        return untried;
    }
    let suspects = blame::subjects_of(state, kind, name, version, inputs);
    let testing = state.trials.testing();
    untried.accused = Some(match kind {
        // A stand-in in the configuration of all Envoys may be the desired version that is on trial.
        ResourceType::Route => accused::unproven_in(state, name, &version),
        _ => suspects.iter().flat_map(|subject| subject.contents.keys().copied()).collect(),
    });
    let mut known = state.trials.readmission.as_ref().map(Readmission::contents).unwrap_or_default();
    known.extend(testing.iter().flat_map(|subject| subject.contents.keys()));
    let others = suspects.into_iter().filter_map(|mut subject| {
        let is_cleared =
            |content: &Content| state.trials.readmission.as_ref().is_some_and(|search| search.has_cleared(content));
        subject.contents.retain(|content, _| !known.contains(content) && !is_cleared(content));
        let is_tried =
            !subject.contents.is_empty() && blame::is_made(&state.id.fleet, &subject, &state.derived.overlay, inputs);
        is_tried.then_some(subject)
    });
    untried.others = others.collect();
    untried
}
