//! Who can be at fault for a refused listener: its filter chains, and the filters in them, that no Envoy of the build has
//! acknowledged; and what ListenerPolicies say to a chain that Envoy alone can judge.
//!
//! A chain is one unit's: a listener of a Gateway, or the host of a root HTTPProxy. A filter that routes ask for is of the
//! object that says what it does. What stands beside the chains, the address first of all, is nobody's: where that is
//! refused, the listener is held. Names in messages are not asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::{ResourceType, Version};

use super::around::Around;
use super::line::Line;
use super::readmission::Subject;
use crate::encode::chain_parts;

/// What is proven by a listener that was taken.
pub(super) fn proven(body: &[u8]) -> Vec<Content> {
    chain_parts::parts(body).into_iter().flat_map(|parts| parts.filters.into_iter().chain([parts.own])).collect()
}

/// A listener with only some of those who can be at fault for it.
pub(super) fn only(body: &Bytes, these: &[Subject], all: &[Subject]) -> Bytes {
    let is_of =
        |subjects: &[Subject], content: &Content| subjects.iter().any(|subject| subject.contents.contains_key(content));
    chain_parts::without(body, |content| is_of(all, content) && !is_of(these, content))
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
        let mut suspects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
        let mut unproven = Vec::new();
        for parts in chain_parts::parts(&resource.body) {
            if let Some(unit) = units.get(&parts.name).filter(|_| !self.proof.is_known_good(&parts.own)) {
                suspects.entry(unit.clone()).or_default().insert(parts.placed, unit.clone());
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
        suspects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
    }
}
