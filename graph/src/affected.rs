//! Objects that are affected when an object, or a section of it, breaks.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::closing::ClosingWalk;
use crate::{Graph, Node, Role};

/// A node that the failure of an object reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Affected {
    /// The node that is reached.
    pub node: Node,
    /// The role of the last edge on the path.
    pub role: Role,
    /// The first node through which the failure arrived: following `through` leads back to the cause.
    pub through: Node,
}

impl Graph {
    /// Returns the nodes that are affected when `broken` breaks, nearest first: every node that closing reaches, with
    /// the path back.
    ///
    /// Where a whole object breaks, the result has none of its sections: they count as broken with it. Where one
    /// section breaks, the other sections are unaffected. A node that is attached to several objects is reached when
    /// all of them are closed. Cycles end the walk.
    pub fn affected(&self, broken: &Node) -> Vec<Affected> {
        let mut closing = ClosingWalk::new(self, |_| true);
        closing.close(broken);
        let mut found: Vec<Affected> = Vec::new();
        loop {
            let reached = closing.step();
            if reached.is_empty() {
                return found;
            }
            let layer: BTreeSet<Affected> = reached
                .into_iter()
                .filter_map(|reached| {
                    let (node, through) = (self.at(reached.at)?.clone(), self.at(reached.through)?.clone());
                    Some(Affected { node, role: reached.role, through })
                })
                .collect();
            let mut layer: Vec<Affected> = layer.into_iter().collect();
            layer.dedup_by(|next, first| next.node == first.node);
            layer.retain(|next| next.node != *broken && !(broken.section.is_empty() && next.node.key == broken.key));
            found.extend(layer);
        }
    }
}
