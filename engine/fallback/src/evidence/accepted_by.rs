//! Contents that each Envoy has accepted itself. An Envoy that resumes with a configuration is the same process as
//! before, and has accepted the same contents.
//!
//! `Proof` knows what any Envoy of the build has accepted. A refusal accuses everything that is new to the Envoy that
//! refused. If a part of that was accepted by other Envoys only, the refusal proves nothing about the other parts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::Content;
use holdfast_translate::fleet::Composition;
use holdfast_xds::{Resource, ResourceType, Version};

use super::forms::{Form, changed};
use super::proof::CONTENTS_MAX;

/// Limit of disconnected Envoys of one Gateway and build with remembered contents; beyond the limit, the one that
/// disconnected first is forgotten.
const DISCONNECTED_MAX: usize = 8;

/// The contents that Envoys have accepted, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptedBy {
    by_node: BTreeMap<Arc<str>, Accepted>,
    /// The disconnected Envoys, in the order in which they disconnected.
    disconnected: VecDeque<Arc<str>>,
}

/// The contents that one Envoy has accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    /// The newest accepted version by resource.
    versions: BTreeMap<(ResourceType, Arc<str>), Version>,
    /// The newest accepted route configurations, as far as their parts are known.
    routes: BTreeMap<Arc<str>, Composition>,
    /// All accepted contents of listeners and route configurations; beyond the limit, only those of the newest route
    /// configurations.
    contents: HashSet<Content>,
}

impl AcceptedBy {
    /// Records a route configuration that an Envoy accepted.
    pub(super) fn note_routes(&mut self, node: &Arc<str>, name: &Arc<str>, form: &Form) {
        let accepted = self.of_mut(node);
        accepted.versions.insert((ResourceType::Route, name.clone()), form.version);
        let before = accepted.routes.insert(name.clone(), form.composition.clone()).unwrap_or_default();
        let parts = changed(&before, &form.composition);
        accepted.contents.extend(parts.into_iter().map(|(content, _)| content));
        accepted.contents.extend(form.policy_settings.iter().map(|setting| setting.content()));
        accepted.shrink();
    }

    /// Records a listener, or a route configuration of which the parts are known by their bytes only.
    pub(super) fn note(
        &mut self,
        node: &Arc<str>,
        kind: ResourceType,
        resource: &Resource,
        contents: impl IntoIterator<Item = Content>,
    ) {
        let accepted = self.of_mut(node);
        accepted.versions.insert((kind, resource.name.clone()), resource.version);
        accepted.contents.extend(contents);
        accepted.shrink();
    }

    /// Checks whether the Envoy has accepted this version last.
    pub(super) fn has(&self, node: &str, kind: ResourceType, name: &Arc<str>, version: Version) -> bool {
        let accepted = self.by_node.get(node);
        accepted.is_some_and(|accepted| accepted.versions.get(&(kind, name.clone())) == Some(&version))
    }

    /// Checks whether the Envoy has accepted all of these contents.
    pub(super) fn has_all(&self, node: &str, mut contents: impl Iterator<Item = Content>) -> bool {
        let accepted = self.by_node.get(node);
        contents.all(|content| accepted.is_some_and(|accepted| accepted.contents.contains(&content)))
    }

    /// Returns the parts of the newest accepted form of a route configuration.
    pub(super) fn routes(&self, node: &str, name: &str) -> Option<&Composition> {
        self.by_node.get(node)?.routes.get(name)
    }

    /// Records the connection of an Envoy. One that does not resume has accepted nothing.
    pub(crate) fn connected(&mut self, node: &str, resumes: bool) {
        self.disconnected.retain(|known| **known != *node);
        if !resumes {
            self.by_node.remove(node);
        }
    }

    /// Records that an Envoy has disconnected.
    pub(crate) fn disconnected(&mut self, node: &Arc<str>) {
        self.disconnected.push_back(node.clone());
        while self.disconnected.len() > DISCONNECTED_MAX {
            self.disconnected.pop_front().into_iter().for_each(|first| drop(self.by_node.remove(&first)));
        }
    }

    /// Removes and returns what an Envoy has accepted: it changes to another scope.
    pub(crate) fn take(&mut self, node: &str) -> Accepted {
        self.by_node.remove(node).unwrap_or_default()
    }

    /// Returns what an Envoy has accepted.
    pub(crate) fn of(&self, node: &str) -> Accepted {
        self.by_node.get(node).cloned().unwrap_or_default()
    }

    /// Adds what an Envoy from another scope has accepted.
    pub(crate) fn put(&mut self, node: &Arc<str>, accepted: Accepted) {
        self.by_node.insert(node.clone(), accepted);
    }

    fn of_mut(&mut self, node: &Arc<str>) -> &mut Accepted {
        self.by_node.entry(node.clone()).or_default()
    }
}

impl Accepted {
    fn shrink(&mut self) {
        if self.contents.len() > CONTENTS_MAX {
            let parts = self.routes.values().flat_map(|routes| routes.values()).flat_map(|parts| parts.iter());
            self.contents = parts.map(|(content, _)| *content).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_graph::Origins;

    use super::*;

    /// Records that this Envoy accepted a content.
    fn accept(all: &mut AcceptedBy, node: &str, content: Content) {
        let resource = Resource::new("listener/80", &b""[..], Origins::default());
        all.note(&node.into(), ResourceType::Listener, &resource, [content]);
    }

    #[test]
    fn an_envoy_that_resumes_has_accepted_the_same_as_before_and_a_fresh_one_nothing() {
        let (mut all, content) = (AcceptedBy::default(), Content([1; 16]));
        accept(&mut all, "a", content);
        assert!(!all.has_all("b", [content].into_iter()), "each Envoy for itself");
        all.disconnected(&"a".into());
        all.connected("a", true);
        assert!(all.has_all("a", [content].into_iter()));
        all.disconnected(&"a".into());
        all.connected("a", false);
        assert!(!all.has_all("a", [content].into_iter()));
    }

    #[test]
    fn of_disconnected_envoys_a_limited_number_is_remembered() {
        let (mut all, content) = (AcceptedBy::default(), Content([1; 16]));
        let nodes: Vec<Arc<str>> = (0..=DISCONNECTED_MAX).map(|node| node.to_string().into()).collect();
        for node in &nodes {
            accept(&mut all, node, content);
            all.disconnected(node);
        }
        let known: Vec<bool> = nodes.iter().map(|node| all.has_all(node, [content].into_iter())).collect();
        assert_eq!((known.first(), known.get(1), known.last()), (Some(&false), Some(&true), Some(&true)));
    }
}
