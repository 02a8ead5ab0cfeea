//! Who can be at fault for a refused listener: its filter chains that no Envoy of the build has acknowledged.
//!
//! Each filter chain is one unit's: a listener of a Gateway, or the host of a root HTTPProxy. What stands beside the chains,
//! the address first of all, is nobody's: where that is refused, the listener is held. Names in messages are not asked.

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::{ResourceType, Version};
use prost::Message;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::around::Around;
use super::interaction::in_order;
use super::line::Line;
use super::readmission::Subject;

/// A filter chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Its name.
    pub(super) name: String,
    /// Hash of its bytes.
    pub(super) content: Content,
    /// Whose it is.
    pub(super) node: Option<Node>,
}

/// The filter chains of a listener, by name, each with the hash of its bytes.
pub(super) fn contents(body: &[u8]) -> Vec<(String, Content)> {
    let chains = Listener::decode(body).map(|listener| listener.filter_chains).unwrap_or_default();
    chains.into_iter().map(|chain| (chain.name.clone(), hash(&chain.encode_to_vec()))).collect()
}

/// A listener with only some of its filter chains.
pub(super) fn only(body: &Bytes, wanted: impl Fn(&Content) -> bool) -> Bytes {
    let Ok(mut listener) = Listener::decode(body.clone()) else { return body.clone() };
    listener.filter_chains.retain(|chain| wanted(&hash(&chain.encode_to_vec())));
    listener.encode_to_vec().into()
}

fn hash(bytes: &[u8]) -> Content {
    Content(*Version::of(bytes).as_bytes())
}

/// Is a filter chain desired as it is suspected?
pub(super) fn is_desired(gateway: &ObjectKey, subject: &Subject, around: &Around<'_>) -> bool {
    let chains = around.translator.chains(gateway);
    chains.iter().any(|(content, _)| subject.contents.contains_key(content))
}

impl Line {
    fn chains(&self, name: &Arc<str>, version: Version, around: &Around<'_>) -> Vec<Chain> {
        let Some(resource) = self.form_of(ResourceType::Listener, name, version) else { return Vec::new() };
        let units = around.translator.chain_units(&self.gateway);
        let chain = |(name, content): (String, Content)| Chain { node: units.get(&name).cloned(), name, content };
        contents(&resource.body).into_iter().map(chain).collect()
    }

    /// Who can be at fault for a version of a listener.
    pub(super) fn chain_suspects(&self, name: &Arc<str>, version: Version, around: &Around<'_>) -> Vec<Subject> {
        let unproven = |chain: &Chain| !self.proof.is_known_good(&chain.content);
        let changed = self.chains(name, version, around).into_iter().filter(unproven);
        let subjects = changed.filter_map(|Chain { content, node, .. }| {
            let node = node?;
            Some(Subject { node: node.clone(), contents: BTreeMap::from([(content, node)]) })
        });
        subjects.collect()
    }

    /// The filter chains of a version of a listener, those that did not change first, and how many these are.
    pub(super) fn chains_in_order(
        &self,
        name: &Arc<str>,
        version: Version,
        around: &Around<'_>,
    ) -> Option<(Vec<Chain>, usize)> {
        let acknowledged = self.hold.acknowledged(ResourceType::Listener, name);
        let before: Vec<Content> =
            acknowledged.iter().flat_map(|resource| contents(&resource.body)).map(|(_, content)| content).collect();
        let chains = self.chains(name, version, around);
        let changed = |chain: &Chain| !before.contains(&chain.content) && chain.node.is_some();
        let order = in_order(chains.into_iter(), changed, |chain| chain.name.clone());
        (!order.0.is_empty()).then_some(order)
    }
}
