//! Who is affected when an object, or a section of it, breaks.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::closing::Closing;
use crate::{Graph, Node, Role};

/// Somebody whom the breaking of an object reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Affected {
    /// Who is reached.
    pub node: Node,
    /// The role of the last edge on the way.
    pub role: Role,
    /// The node through which it was reached first: following it leads back to the cause.
    pub through: Node,
}

impl Graph {
    /// Who is affected when `broken` breaks, nearest first: everybody whom closing reaches, with the way back.
    ///
    /// Of an object that breaks as a whole nothing is in the answer: its sections count as broken with it. Of one that
    /// breaks in a section the other sections go on. Who is attached to several is reached when all of them are.
    /// Cycles end the walk.
    pub fn affected(&self, broken: &Node) -> Vec<Affected> {
        let mut closing = Closing::new(self, |_| true);
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
