//! How closing (replacement, exclusion) travels: from what is closed to whoever cannot be served without it.
//!
//! Only the walk; what is done with those it reaches is decided in `plan`.
//!
//! * An object that is closed as a whole closes whoever names it or any of its sections.
//! * A section that is closed closes whoever names that section, and whoever requires the object as a whole or is
//!   modified by it; who merely hangs on the object hangs on what is left of it.
//! * Who hangs on several is closed when the last of them is: only then is there nothing to attach to.

use std::collections::HashSet;

use petgraph::stable_graph::NodeIndex;

use crate::{Graph, Node, ObjectKey, Role};

/// Somebody whom a layer of the walk reached.
pub(crate) struct Reached {
    /// Who is reached.
    pub(crate) at: NodeIndex,
    /// The role of the edge.
    pub(crate) role: Role,
    /// Whom the edge leads to.
    pub(crate) through: NodeIndex,
}

/// A walk in layers from what is closed. Which nodes it reaches does not depend on the order of edges.
pub(crate) struct Closing<'a, E> {
    graph: &'a Graph,
    exists: E,
    /// Closed, or a section of an object that is closed as a whole.
    gone: HashSet<NodeIndex>,
    /// Objects of which a section is closed.
    hurt: HashSet<NodeIndex>,
    reached: HashSet<NodeIndex>,
    layer: Vec<(NodeIndex, Through)>,
}

/// By what a node of the layer closes its dependants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    /// It is closed itself.
    Itself,
    /// It is the whole of a section that is closed.
    Section,
}

impl<'a, E: Fn(&ObjectKey) -> bool> Closing<'a, E> {
    /// A walk over `graph` that passes over objects of which `exists` says no.
    pub(crate) fn new(graph: &'a Graph, exists: E) -> Self {
        let (gone, hurt, reached) = (HashSet::new(), HashSet::new(), HashSet::new());
        Self { graph, exists, gone, hurt, reached, layer: Vec::new() }
    }

    /// Closes a node to begin with.
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

    /// Takes one step: who is reached newly. A node is named once for each edge that reaches it in this step.
    pub(crate) fn step(&mut self) -> Vec<Reached> {
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

    /// Whom a node closes directly, as things stand; only those that the walk has reached.
    pub(crate) fn closes(&self, node: &Node) -> impl Iterator<Item = NodeIndex> {
        let ends = self.ends(node).into_iter();
        ends.flat_map(|end| self.closed_by(end)).map(|next| next.at).filter(|at| self.reached.contains(at))
    }

    /// The ends of edges by which a closed node closes others.
    fn ends(&self, node: &Node) -> Vec<(NodeIndex, Through)> {
        if node.section.is_empty() {
            return self.graph.nodes_of(&node.key).map(|index| (index, Through::Itself)).collect();
        }
        let own = self.graph.find(node).map(|index| (index, Through::Itself));
        let whole = self.graph.find(&Node::whole(node.key.clone())).map(|index| (index, Through::Section));
        own.into_iter().chain(whole).collect()
    }

    fn closed_by(&self, (through, by): (NodeIndex, Through)) -> impl Iterator<Item = Reached> {
        let dependants = self.graph.dependants(through).filter(move |(at, role)| {
            role.closing_travels() && (by == Through::Itself || *role != Role::Attaches) && self.may_close(*at, *role)
        });
        dependants.map(move |(at, role)| Reached { at, role, through })
    }

    fn may_close(&self, at: NodeIndex, role: Role) -> bool {
        let exists = |index| self.graph.at(index).is_some_and(|node| (self.exists)(&node.key));
        exists(at) && (role != Role::Attaches || !self.hangs_on_something(at))
    }

    /// Is anything left that the node is attached to?
    fn hangs_on_something(&self, at: NodeIndex) -> bool {
        let anchors = || self.graph.dependencies(at).filter(|(_, role)| *role == Role::Attaches);
        let node = |index| self.graph.at(index);
        // Who names sections of an object hangs on these, and no longer on the object at large.
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
