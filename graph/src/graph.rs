//! Dependency graph: the edges that translation recorded. Other modules compute which nodes a failure reaches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use serde::{Deserialize, Serialize};

use crate::{ObjectKey, Role, text};

/// Number of sections of an object up to which their list has no spare room.
const FEW_SECTIONS: usize = 8;

/// An object, or a section of it (a rule, a listener); effects propagate by section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node {
    /// The object.
    pub key: ObjectKey,
    /// The section as its field path (`rules[1]`), empty for the object as a whole.
    pub section: Arc<str>,
}

impl Node {
    /// Returns the node of a whole object.
    pub fn whole(key: ObjectKey) -> Self {
        Self { key, section: Arc::default() }
    }

    /// Returns the node of a section of an object.
    pub fn section(key: ObjectKey, section: impl Into<Arc<str>>) -> Self {
        Self { key, section: text::shared(section.into()) }
    }
}

/// A reference: the dependant (or a section of it) reads the object `to`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Edge {
    /// The dependant.
    pub from: Node,
    /// The object, or the section of it, that the dependant reads.
    pub to: Node,
    /// The role of the reference.
    pub role: Role,
}

/// All edges of the current snapshot.
///
/// Edges belong to the object that read them: `replace` replaces all edges of one reader that were recorded before, so
/// that the cost of an edit depends only on what the object touches.
#[derive(Debug, Default)]
pub struct Graph {
    graph: StableDiGraph<Node, Role>,
    /// The sections of each object, sorted by name.
    index: HashMap<ObjectKey, Vec<(Arc<str>, NodeIndex)>>,
    readers: HashMap<ObjectKey, Box<[Edge]>>,
}

impl Graph {
    /// Sets the edges that the translation of `reader` recorded; an empty list removes the edges of the reader.
    pub fn replace(&mut self, reader: &ObjectKey, mut edges: Vec<Edge>) {
        edges.sort_unstable();
        edges.dedup();
        if self.readers.get(reader).is_some_and(|old| **old == *edges) {
            return;
        }
        for old in self.readers.remove(reader).unwrap_or_default() {
            self.unlink(&old);
        }
        for edge in &edges {
            let (from, to) = (self.node(&edge.from), self.node(&edge.to));
            self.graph.add_edge(from, to, edge.role);
        }
        if !edges.is_empty() {
            self.readers.insert(reader.clone(), edges.into());
        }
    }

    fn node(&mut self, node: &Node) -> NodeIndex {
        if let Some(found) = self.find(node) {
            return found;
        }
        let added = self.graph.add_node(node.clone());
        let sections = self.index.entry(node.key.clone()).or_default();
        if let Err(at) = position(sections, &node.section) {
            // Most objects have one or two sections.
            if sections.len() < FEW_SECTIONS {
                sections.reserve_exact(1);
            }
            sections.insert(at, (node.section.clone(), added));
        }
        added
    }

    fn unlink(&mut self, edge: &Edge) {
        let (Some(from), Some(to)) = (self.find(&edge.from), self.find(&edge.to)) else { return };
        let found = self.graph.edges_connecting(from, to).find(|e| *e.weight() == edge.role).map(|e| e.id());
        if let Some(found) = found {
            self.graph.remove_edge(found);
        }
        for (node, name) in [(from, &edge.from), (to, &edge.to)] {
            if self.graph.neighbors_undirected(node).next().is_none() {
                self.graph.remove_node(node);
                self.forget(name);
            }
        }
    }

    /// Returns all edges, in order.
    pub fn edges(&self) -> BTreeSet<Edge> {
        self.readers.values().flatten().cloned().collect()
    }

    /// Returns the edges that the translation of `reader` recorded, in order.
    pub fn read_by(&self, reader: &ObjectKey) -> &[Edge] {
        self.readers.get(reader).map_or(&[], |edges| edges)
    }

    /// Returns the first `most` of the objects that read this object, in order.
    pub fn readers_of(&self, key: &ObjectKey, most: usize) -> BTreeSet<&ObjectKey> {
        let mut readers = BTreeSet::new();
        for (reader, _) in self.nodes_of(key).flat_map(|node| self.dependants(node)) {
            readers.extend(self.at(reader).map(|node| &node.key).filter(|reader| *reader != key));
            if readers.len() > most {
                readers.pop_last();
            }
        }
        readers
    }

    /// Returns the number of edges.
    pub fn edge_count(&self) -> usize {
        self.graph.edge_count()
    }

    fn forget(&mut self, node: &Node) {
        let Some(sections) = self.index.get_mut(&node.key) else { return };
        if let Ok(at) = position(sections, &node.section) {
            sections.remove(at);
        }
        if sections.is_empty() {
            self.index.remove(&node.key);
        }
    }

    /// Returns the index of a node, if any edge begins or ends at it.
    pub(crate) fn find(&self, node: &Node) -> Option<NodeIndex> {
        let sections = self.index.get(&node.key)?;
        sections.get(position(sections, &node.section).ok()?).map(|(_, index)| *index)
    }

    /// Returns the nodes of the whole object and of all its sections at which edges begin or end.
    pub(crate) fn nodes_of(&self, key: &ObjectKey) -> impl Iterator<Item = NodeIndex> {
        self.index.get(key).into_iter().flat_map(|sections| sections.iter().map(|(_, index)| *index))
    }

    /// Returns the node at an index, or `None` where the index is free.
    pub(crate) fn at(&self, index: NodeIndex) -> Option<&Node> {
        self.graph.node_weight(index)
    }

    /// Returns the dependants of a node, with their roles.
    pub(crate) fn dependants(&self, index: NodeIndex) -> impl Iterator<Item = (NodeIndex, Role)> {
        self.graph.edges_directed(index, Direction::Incoming).map(|edge| (edge.source(), *edge.weight()))
    }

    /// Returns the dependencies of a node, with their roles.
    pub(crate) fn dependencies(&self, index: NodeIndex) -> impl Iterator<Item = (NodeIndex, Role)> {
        self.graph.edges_directed(index, Direction::Outgoing).map(|edge| (edge.target(), *edge.weight()))
    }
}

/// Returns the position of a section, or where it would be.
fn position(sections: &[(Arc<str>, NodeIndex)], section: &Arc<str>) -> Result<usize, usize> {
    sections.binary_search_by(|(known, _)| known.cmp(section))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Affected;

    fn key(kind: &str, name: &str) -> ObjectKey {
        ObjectKey::new("g", kind, "ns", name)
    }

    fn edge(from: (&str, &str, &str), to: (&str, &str), role: Role) -> Edge {
        Edge { from: Node::section(key(from.0, from.1), from.2), to: Node::whole(key(to.0, to.1)), role }
    }

    fn names(found: &[Affected]) -> Vec<String> {
        found.iter().map(|a| format!("{}/{}", a.node.key.name, a.node.section)).collect()
    }

    #[test]
    fn a_broken_backend_reaches_the_rule_that_reads_it_and_no_other() {
        let mut graph = Graph::default();
        graph.replace(
            &key("Route", "cart"),
            vec![
                edge(("Route", "cart", "rules[0]"), ("Service", "a"), Role::Requires),
                edge(("Route", "cart", "rules[1]"), ("Service", "b"), Role::Requires),
            ],
        );
        assert_eq!(names(&graph.affected(&Node::whole(key("Service", "a")))), ["cart/rules[0]"]);
    }

    #[test]
    fn the_first_readers_of_an_object_are_found_without_the_others() {
        let mut graph = Graph::default();
        for name in ["c", "a", "d", "b"] {
            graph.replace(
                &key("Route", name),
                vec![edge(("Route", name, "rules[0]"), ("Service", "it"), Role::Requires)],
            );
        }
        let readers =
            |most| graph.readers_of(&key("Service", "it"), most).iter().map(|key| &*key.name).collect::<Vec<_>>();
        assert_eq!(readers(2), ["a", "b"]);
        assert_eq!(readers(9), ["a", "b", "c", "d"]);
        assert!(graph.readers_of(&key("Service", "other"), 9).is_empty());
    }

    #[test]
    fn mentions_do_not_travel_and_cycles_end() {
        let mut graph = Graph::default();
        graph.replace(&key("P", "root"), vec![edge(("P", "root", ""), ("P", "child"), Role::Mentions)]);
        assert!(graph.affected(&Node::whole(key("P", "child"))).is_empty());
        graph.replace(&key("P", "a"), vec![edge(("P", "a", ""), ("P", "b"), Role::Requires)]);
        graph.replace(&key("P", "b"), vec![edge(("P", "b", ""), ("P", "a"), Role::Requires)]);
        assert_eq!(names(&graph.affected(&Node::whole(key("P", "a")))), ["b/"]);
    }

    #[test]
    fn replacing_with_nothing_leaves_no_trace() {
        let mut graph = Graph::default();
        let edges = vec![edge(("Route", "cart", "rules[0]"), ("Service", "a"), Role::Requires)];
        graph.replace(&key("Route", "cart"), edges.clone());
        graph.replace(&key("Route", "other"), vec![edge(("Route", "other", ""), ("Service", "a"), Role::Requires)]);
        graph.replace(&key("Route", "cart"), vec![]);
        assert_eq!(names(&graph.affected(&Node::whole(key("Service", "a")))), ["other/"]);
        graph.replace(&key("Route", "other"), vec![]);
        assert_eq!((graph.edge_count(), graph.index.len()), (0, 0));
        graph.replace(&key("Route", "cart"), edges);
        assert_eq!(graph.edges().len(), 1);
    }

    #[test]
    fn travel_is_transitive() {
        let mut graph = Graph::default();
        graph.replace(&key("Policy", "p"), vec![edge(("Policy", "p", ""), ("Extension", "x"), Role::Requires)]);
        graph.replace(&key("Route", "r"), vec![edge(("Route", "r", "rules[0]"), ("Policy", "p"), Role::Modifies)]);
        let found = graph.affected(&Node::whole(key("Extension", "x")));
        assert_eq!(names(&found), ["p/", "r/rules[0]"]);
        assert_eq!(found[1].through, Node::whole(key("Policy", "p")));
    }
}
