//! Subjects: what suspicions and verdicts are about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node};

/// Content that is served or closed together: the changed parts of an object, or of one unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The object or unit of the parts.
    pub node: Node,
    /// The parts, with the unit of each.
    pub contents: BTreeMap<Content, Node>,
}

impl Subject {
    /// Returns one subject for each unit.
    pub fn units(&self) -> Vec<Subject> {
        let mut units: BTreeMap<&Node, BTreeMap<Content, Node>> = BTreeMap::new();
        for (content, node) in &self.contents {
            units.entry(node).or_default().insert(*content, node.clone());
        }
        units.into_iter().map(|(node, contents)| Subject { node: node.clone(), contents }).collect()
    }
}

/// Returns the namespaces of suspects.
pub fn owners(subjects: &[Subject]) -> BTreeSet<Arc<str>> {
    subjects.iter().map(|subject| subject.node.key.namespace.clone()).collect()
}
