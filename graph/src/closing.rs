//! Propagation of closing (replacement, exclusion): from a closed node to the nodes that cannot be served without it.
//!
//! This module only walks the graph; `plan` decides what is done with the reached nodes.
//!
//! * An object that is closed as a whole closes each dependant that names the object or any of its sections.
//! * A closed section closes each dependant that names this section, and each dependant that requires the whole object
//!   or is modified by it. A dependant that is only attached to the object stays attached to its other sections.
//! * A node that is attached to several objects is closed when the last of them is: only then there is nothing left to
//!   attach to.

use std::collections::HashSet;

use petgraph::stable_graph::NodeIndex;

use crate::{Graph, Node, ObjectKey, Role};

/// A node that a layer of the walk reached.
pub(crate) struct ReachedNode {
    /// The node that is reached.
    pub(crate) at: NodeIndex,
    /// The role of the edge.
    pub(crate) role: Role,
    /// The node that the edge leads to.
    pub(crate) through: NodeIndex,
}

/// A walk in layers from the closed nodes. The set of reached nodes does not depend on the order of edges.
pub(crate) struct ClosingWalk<'a, E> {
    graph: &'a Graph,
    exists: E,
    /// Nodes that are closed, or are a section of an object that is closed as a whole.
    gone: HashSet<NodeIndex>,
    /// Objects with a closed section.
    hurt: HashSet<NodeIndex>,
    reached: HashSet<NodeIndex>,
    layer: Vec<(NodeIndex, Through)>,
}

/// Reason why a node of the layer closes its dependants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    /// The node itself is closed.
    Itself,
    /// The node is the whole object of a closed section.
    Section,
}

impl<'a, E: Fn(&ObjectKey) -> bool> ClosingWalk<'a, E> {
    /// Returns a walk over `graph` that skips objects for which `exists` is false.
    pub(crate) fn new(graph: &'a Graph, exists: E) -> Self {
        let (gone, hurt, reached) = (HashSet::new(), HashSet::new(), HashSet::new());
        Self { graph, exists, gone, hurt, reached, layer: Vec::new() }
    }

    /// Closes a node from which the walk starts.
    pub(crate) fn close(&mut self, node: &Node) {
        for (index, by) in self.ends(node) {
            let new = match by {
                Through::Itself => self.gone.insert(index),
                Through::Section => self.hurt.insert(index),
            };
            if new {
                self.layer.push((index, by));
            }
        }
    }

    /// Takes one step and returns the newly reached nodes. A node is listed once for each edge that reaches it in this
    /// step.
    pub(crate) fn step(&mut self) -> Vec<ReachedNode> {
        let mut found = Vec::new();
        for end in std::mem::take(&mut self.layer) {
            found.extend(self.closed_by(end).filter(|next| !self.reached.contains(&next.at)));
        }
        let graph = self.graph;
        for next in &found {
            if self.reached.insert(next.at)
                && let Some(node) = graph.at(next.at)
            {
                self.close(node);
            }
        }
        found
    }

    /// Walks to the end.
    pub(crate) fn finish(&mut self) {
        while !self.step().is_empty() {}
    }

    /// Returns the nodes that a node closes directly in the current state; only nodes that the walk has reached.
    pub(crate) fn closes(&self, node: &Node) -> impl Iterator<Item = NodeIndex> {
        let ends = self.ends(node).into_iter();
        ends.flat_map(|end| self.closed_by(end)).map(|next| next.at).filter(|at| self.reached.contains(at))
    }

    /// Returns the ends of edges by which a closed node closes its dependants.
    fn ends(&self, node: &Node) -> Vec<(NodeIndex, Through)> {
        if node.section.is_empty() {
            return self.graph.nodes_of(&node.key).map(|index| (index, Through::Itself)).collect();
        }
        let own = self.graph.find(node).map(|index| (index, Through::Itself));
        let whole = self.graph.find(&Node::whole(node.key.clone())).map(|index| (index, Through::Section));
        own.into_iter().chain(whole).collect()
    }

    fn closed_by(&self, (through, by): (NodeIndex, Through)) -> impl Iterator<Item = ReachedNode> {
        let dependants = self.graph.dependants(through).filter(move |(at, role)| {
            role.closing_travels() && (by == Through::Itself || *role != Role::Attaches) && self.may_close(*at, *role)
        });
        dependants.map(move |(at, role)| ReachedNode { at, role, through })
    }

    fn may_close(&self, at: NodeIndex, role: Role) -> bool {
        let exists = |index| self.graph.at(index).is_some_and(|node| (self.exists)(&node.key));
        exists(at) && (role != Role::Attaches || !self.hangs_on_something(at))
    }

    /// Returns whether the node is still attached to something.
    fn hangs_on_something(&self, at: NodeIndex) -> bool {
        let anchors = || self.graph.dependencies(at).filter(|(_, role)| *role == Role::Attaches);
        let node = |index| self.graph.at(index);
        // A node that is attached to sections of an object depends on these, and no longer on the object as a whole.
        let by_section: HashSet<&ObjectKey> =
            anchors().filter_map(|(to, _)| node(to)).filter(|to| !to.section.is_empty()).map(|to| &to.key).collect();
        anchors().any(|(to, _)| {
            !self.gone.contains(&to)
                && node(to).is_some_and(|to| {
                    (self.exists)(&to.key) && !(to.section.is_empty() && by_section.contains(&to.key))
                })
        })
    }
}
