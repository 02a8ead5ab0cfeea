//! Who can be at fault for a refused listener: its filter chains, and the filters in them, that no Envoy of the build has
//! acknowledged; and the policies that say something to it.
//!
//! What a policy says to it is the policy's, field by field; a chain that is new for that is not new itself.
//! A chain is one unit's: a listener of a Gateway, or the host of a root HTTPProxy. A filter that routes ask for is of the
//! object that says what it does. What stands beside the chains, the address first of all, is nobody's: where that is
//! refused, the listener is held. Names in messages are not asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::{ResourceType, Version};

use super::accused;
use super::around::Around;
use super::derive;
use super::line::Line;
use super::readmission::Subject;
use crate::encode::chain_parts;
use crate::translate::policy::PolicyPlan;

/// What is proven by a listener that was taken.
pub(super) fn proven(body: &[u8]) -> Vec<Content> {
    chain_parts::parts(body).into_iter().flat_map(|parts| parts.filters.into_iter().chain([parts.own])).collect()
}

/// A listener with only some of those chains and filters that can be at fault for it. `body` is what is left to try of
/// it, in which chains can differ.
fn only(original: &Bytes, body: &Bytes, these: &[Subject], all: &[Subject]) -> Bytes {
    let is_of =
        |subjects: &[Subject], content: &Content| subjects.iter().any(|subject| subject.contents.contains_key(content));
    let left_out = |content: &Content| is_of(all, content) && !is_of(these, content);
    let chains = chain_parts::parts(original).into_iter().filter(|parts| left_out(&parts.placed));
    let chains: BTreeSet<String> = chains.map(|parts| parts.name).collect();
    chain_parts::without(body, &chains, left_out)
}

/// Is somebody suspected for what a policy says to listeners?
pub(super) fn is_policy(subject: &Subject, around: &Around<'_>) -> bool {
    around.translator.policy(&subject.node.key).is_some()
}

/// Is it a chain, and not what policies or routes bring into one?
pub(super) fn is_chain(subject: &Subject) -> bool {
    subject.contents.values().any(derive::is_chain)
}

/// Is a chain, or a filter, desired as it is suspected?
pub(super) fn is_desired(gateway: &ObjectKey, subject: &Subject, around: &Around<'_>) -> bool {
    let chains = around.translator.chains(gateway).into_iter().map(|(content, _)| content);
    let filters = around.translator.filters(gateway).into_iter().map(|(content, _, _)| content);
    chains.chain(filters).any(|content| subject.contents.contains_key(&content))
}

impl Line {
    /// Who can be at fault for a version of a listener.
    pub(super) fn chain_suspects(&self, name: &Arc<str>, version: Version, around: &Around<'_>) -> Vec<Subject> {
        let Some(resource) = self.form_of(ResourceType::Listener, name, version) else { return Vec::new() };
        let units = around.translator.chain_units(&self.gateway);
        let told = self.listener_form(name, version).map(|form| &form.told);
        let mut suspects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
        let (mut unproven, mut new_chains) = (Vec::new(), Vec::new());
        for parts in chain_parts::parts(&resource.body) {
            if let Some(unit) = units.get(&parts.name).filter(|_| !self.proof.is_known_good(&parts.own)) {
                let bare = told.and_then(|told| told.bare.get(&parts.name));
                // One that is new for what policies say to it is not new itself.
                if bare.is_none_or(|bare| !self.proof.is_known_good(bare)) {
                    suspects.entry(unit.clone()).or_default().insert(parts.placed, unit.clone());
                }
                new_chains.push((unit, parts.placed));
            }
            unproven.extend(parts.filters.into_iter().filter(|content| !self.proof.is_known_good(content)));
        }
        if !unproven.is_empty() {
            for (content, owner, _) in around.translator.filters(&self.gateway) {
                if unproven.contains(&content) {
                    let owner = Node::whole(owner);
                    suspects.entry(owner.clone()).or_default().insert(content, owner);
                }
            }
        }
        for (said, text) in told.into_iter().flat_map(|told| &told.said) {
            let is_taken = text.is_some_and(|text| self.proof.is_known_good(&text));
            if !is_taken && !self.proof.is_known_good(&said.content()) {
                let policy = said.node();
                suspects.entry(policy.clone()).or_default().insert(said.content(), policy);
            }
        }
        if suspects.is_empty() {
            for (unit, placed) in new_chains {
                suspects.entry(unit.clone()).or_default().insert(placed, unit.clone());
            }
        }
        suspects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
    }

    /// The suspects of a listener that are suspected first where none can be tried apart from Envoys that serve; and
    /// whether others are left. What policies say, then the filters that routes ask for, can be left out of a chain, and
    /// then it shows whether the chain itself is taken: it is never judged by what others bring into it.
    pub(super) fn suspected_first(suspects: Vec<Subject>, around: &Around<'_>) -> (Vec<Subject>, bool) {
        let (policies, others): (Vec<_>, Vec<_>) = suspects.into_iter().partition(|subject| is_policy(subject, around));
        let (chains, filters): (Vec<_>, Vec<_>) = others.into_iter().partition(is_chain);
        match (policies.is_empty(), filters.is_empty(), chains.is_empty()) {
            (false, no_filters, no_chains) => (policies, !no_filters || !no_chains),
            (true, false, no_chains) => (filters, !no_chains),
            (true, true, _) => (chains, false),
        }
    }

    /// A version of a listener with only some of those who can be at fault for it.
    pub(super) fn listener_with(
        &self,
        name: &Arc<str>,
        version: Version,
        these: &[Subject],
        all: &[Subject],
        around: &Around<'_>,
    ) -> Option<Bytes> {
        let original = self.form_of(ResourceType::Listener, name, version)?.body.clone();
        let left_out = all.iter().filter(|subject| is_policy(subject, around) && !these.contains(subject));
        let mut silent: BTreeMap<ObjectKey, Arc<PolicyPlan>> = BTreeMap::new();
        for subject in left_out {
            let key = &subject.node.key;
            let plan = silent.get(key).or_else(|| accused::plan(key, &self.derived.overlay, around));
            let Some(plan) = plan else { continue };
            let said = match subject.node.section.is_empty() {
                // The rest of the policy is left out with it, but for what answers for itself.
                true => plan
                    .contents()
                    .map(|(_, content)| content)
                    .filter(|content| plan.node_of(key, content).section.is_empty())
                    .collect(),
                false => subject.contents.keys().copied().collect(),
            };
            let without = plan.without(&said);
            silent.insert(key.clone(), Arc::new(without));
        }
        if silent.is_empty() {
            return Some(only(&original, &original, these, all));
        }
        let mut over = self.derived.overlay.clone();
        over.policies.extend(silent);
        let body = around.translator.try_listener(&self.fleet, name, &over, around.objects)?;
        Some(only(&original, &body, these, all))
    }
}
