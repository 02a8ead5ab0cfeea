//! Suspects of a refused listener: its filter chains, and the filters in them, that no Envoy of the build has
//! acknowledged; and the policies with settings for the listener.
//!
//! A policy is suspected for its settings, field by field; a chain that is new only because of such a setting is not
//! suspected. A chain belongs to one unit: a listener of a Gateway, or the host of a root HTTPProxy. A filter that
//! routes require belongs to the object that configures it. The rest of the listener, above all its address, belongs to
//! no object: if that is refused, the listener is held. Names in messages are not used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::inspect::chain_parts;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_xds::{ResourceType, Version};

use super::accused;
use super::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::plan::derive;

/// Returns a listener with only some of the chains and filters that are suspected. `body` is the part of the listener
/// that remains to be tried; its chains can differ from those of `original`.
fn only(original: &Bytes, body: &Bytes, these: &[Subject], all: &[Subject]) -> Bytes {
    let is_of =
        |subjects: &[Subject], content: &Content| subjects.iter().any(|subject| subject.contents.contains_key(content));
    let left_out = |content: &Content| is_of(all, content) && !is_of(these, content);
    let chains = chain_parts::parts(original).into_iter().filter(|parts| left_out(&parts.placed));
    let chains: BTreeSet<String> = chains.map(|parts| parts.name).collect();
    chain_parts::without(body, &chains, &left_out)
}

/// Checks whether a subject is a policy that is suspected for its settings of listeners.
pub(crate) fn is_policy(subject: &Subject, inputs: &StepInputs<'_>) -> bool {
    inputs.translator.policy(&subject.node.key).is_some()
}

/// Checks whether a subject is a chain, and not content that policies or routes add to a chain.
pub(crate) fn is_chain(subject: &Subject) -> bool {
    subject.contents.values().any(derive::is_chain)
}

/// Checks whether the suspected chain or filter is desired.
pub(crate) fn is_desired(gateway: &ObjectKey, subject: &Subject, inputs: &StepInputs<'_>) -> bool {
    let chains = inputs.translator.chains(gateway).into_iter().map(|(content, _)| content);
    let filters = inputs.translator.filters(gateway).into_iter().map(|(content, _, _)| content);
    chains.chain(filters).any(|content| subject.contents.contains_key(&content))
}

/// Returns the suspects of a version of a listener.
pub(super) fn chain_suspects(
    state: &SuspectInputs<'_>,
    name: &Arc<str>,
    version: Version,
    inputs: &StepInputs<'_>,
) -> Vec<Subject> {
    let Some(resource) = state.form_of(ResourceType::Listener, name, version) else { return Vec::new() };
    let units = inputs.translator.chain_units(&state.id.gateway);
    let policy_settings = state.evidence.listener_forms.of(name, version).map(|form| &form.policy_settings);
    let mut suspects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
    let (mut unproven, mut new_chains) = (Vec::new(), Vec::new());
    for parts in chain_parts::parts(&resource.body) {
        if let Some(unit) = units.get(&parts.name).filter(|_| !state.evidence.proof.is_known_good(&parts.own)) {
            let bare = policy_settings.and_then(|policy_settings| policy_settings.bare.get(&parts.name));
            let is_proven = |content: &Content| state.evidence.proof.is_known_good(content);
            // A chain that is new only because of policy settings, or of its server name, is not a suspect itself.
            if !bare.is_some_and(is_proven) && !parts.forwarding.as_ref().is_some_and(is_proven) {
                let contents = std::iter::once(parts.placed).chain(parts.forwarding);
                suspects.entry(unit.clone()).or_default().extend(contents.map(|content| (content, unit.clone())));
            }
            new_chains.push((unit, parts.placed));
        }
        unproven.extend(parts.filters.into_iter().filter(|content| !state.evidence.proof.is_known_good(content)));
    }
    if !unproven.is_empty() {
        let served = inputs.translator.served_filters(&state.id.fleet);
        for (content, owner, _) in inputs.translator.filters(&state.id.gateway).into_iter().chain(served) {
            if unproven.contains(&content) {
                let owner = Node::whole(owner);
                suspects.entry(owner.clone()).or_default().insert(content, owner);
            }
        }
    }
    for (setting, text) in policy_settings.into_iter().flat_map(|policy_settings| &policy_settings.settings) {
        let is_taken = text.is_some_and(|text| state.evidence.proof.is_known_good(&text));
        if !is_taken && !state.evidence.proof.is_known_good(&setting.content()) {
            let policy = setting.node();
            suspects.entry(policy.clone()).or_default().insert(setting.content(), policy);
        }
    }
    if suspects.is_empty() {
        for (unit, placed) in new_chains {
            suspects.entry(unit.clone()).or_default().insert(placed, unit.clone());
        }
    }
    suspects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
}

/// Returns the suspects of a listener that are tried first if none can be tried separately from serving Envoys, and
/// whether other suspects remain. Policy settings, and then the filters that routes require, can be left out of a
/// chain. Only then does an answer show whether Envoy accepts the chain itself: a chain is never convicted for what
/// other objects add to it.
pub(super) fn suspected_first(suspects: Vec<Subject>, inputs: &StepInputs<'_>) -> (Vec<Subject>, bool) {
    let (policies, others): (Vec<_>, Vec<_>) = suspects.into_iter().partition(|subject| is_policy(subject, inputs));
    let (chains, filters): (Vec<_>, Vec<_>) = others.into_iter().partition(is_chain);
    match (policies.is_empty(), filters.is_empty(), chains.is_empty()) {
        (false, no_filters, no_chains) => (policies, !no_filters || !no_chains),
        (true, false, no_chains) => (filters, !no_chains),
        (true, true, _) => (chains, false),
    }
}

/// Returns a version of a listener with only some of its suspects.
pub(super) fn listener_with(
    state: &SuspectInputs<'_>,
    name: &Arc<str>,
    version: Version,
    these: &[Subject],
    all: &[Subject],
    inputs: &StepInputs<'_>,
) -> Option<Bytes> {
    let original = state.form_of(ResourceType::Listener, name, version)?.body.clone();
    let left_out = all.iter().filter(|subject| is_policy(subject, inputs) && !these.contains(subject));
    let mut silent: BTreeMap<ObjectKey, Arc<PolicyPlan>> = BTreeMap::new();
    for subject in left_out {
        let key = &subject.node.key;
        let plan = silent.get(key).or_else(|| accused::plan(key, &state.derived.overlay, inputs));
        let Some(plan) = plan else { continue };
        let contents = match subject.node.section.is_empty() {
            // The rest of the policy is left out together with this part, except for parts that are units of their
            // own.
            true => plan
                .contents()
                .map(|(_, content)| content)
                .filter(|content| plan.node_of(key, content).section.is_empty())
                .collect(),
            false => subject.contents.keys().copied().collect(),
        };
        let without = plan.without(&contents);
        silent.insert(key.clone(), Arc::new(without));
    }
    if silent.is_empty() {
        return Some(only(&original, &original, these, all));
    }
    let mut over = state.derived.overlay.clone();
    over.policies.extend(silent);
    let body = inputs.translator.try_listener(&state.id.fleet, name, &over, inputs.objects)?;
    Some(only(&original, &body, these, all))
}
