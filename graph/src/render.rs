//! Rendering of the graph: Graphviz, and plain data for JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::{Graph, ObjectKey, Role};

/// One edge for diagnostics.
#[derive(Debug, Serialize)]
pub struct EdgeView {
    /// The dependant, as `group/Kind:namespace/name`.
    pub from: String,
    /// The section of the dependant (`rules[1]`), empty for the whole object.
    pub section: String,
    /// The dependency.
    pub to: String,
    /// The section of the dependency, empty for the whole object.
    #[serde(rename = "toSection")]
    pub to_section: String,
    /// The role.
    pub role: Role,
}

impl Graph {
    /// Returns all edges as plain data, in order.
    pub fn view(&self) -> Vec<EdgeView> {
        self.edges()
            .into_iter()
            .map(|edge| EdgeView {
                from: edge.from.key.to_string(),
                section: edge.from.section.to_string(),
                to: edge.to.key.to_string(),
                to_section: edge.to.section.to_string(),
                role: edge.role,
            })
            .collect()
    }

    /// Returns the graph in the language of Graphviz, for `dot -Tsvg`; one edge for each pair and role. Broken objects
    /// are red, affected objects orange.
    pub fn dot(&self, broken: &BTreeSet<ObjectKey>, affected: &BTreeSet<ObjectKey>) -> String {
        let edges: BTreeSet<_> =
            self.edges().into_iter().map(|e| (e.from.key.to_string(), e.to.key.to_string(), e.role)).collect();
        let mut text = String::from("digraph holdfast {\n  rankdir=LR;\n  node [shape=box];\n");
        for (keys, label, colour) in [(broken, "broken", "red"), (affected, "affected", "orange")] {
            for key in keys.iter().map(ToString::to_string) {
                let _ = writeln!(text, "  {key:?} [style=filled, fillcolor={colour}, tooltip=\"{label}\"];");
            }
        }
        for (from, to, role) in edges {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {from:?} -> {to:?} [label=\"{role:?}\"];");
        }
        text.push_str("}\n");
        text
    }
}
