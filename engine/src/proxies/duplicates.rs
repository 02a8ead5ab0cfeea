//! Duplicates: of routes with equal conditions in a host the first is served.
//!
//! Judged at the leaves of the tree, on everything that a route asks for: its own conditions and those of its includes.

use std::collections::HashMap;

use super::finding::Finding;
use super::order::Standing;
use super::tree::{Leaf, What};
use crate::fault::Class;

/// The routes that are served, in the order in which they were read, and what is told of the others.
///
/// `is_claimed` says of a route whether its conditions are claimed today: those of a proxy that is served in an earlier
/// version need not be, and lose to all that are.
pub(crate) fn judge(leaves: Vec<Leaf>, is_claimed: impl Fn(&Leaf) -> bool) -> (Vec<Leaf>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut first = HashMap::new();
    // Whoever wrote conditions has them; what stands for something broken takes what is left.
    let standing = |leaf: &Leaf| match (leaf.standing == Standing::Written, is_claimed(leaf)) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let standings: Vec<u8> = leaves.iter().map(standing).collect();
    for wanted in 0..=2 {
        for (index, leaf) in leaves.iter().enumerate().filter(|(index, _)| standings.get(*index) == Some(&wanted)) {
            first.entry(&leaf.conditions).or_insert(index);
        }
    }
    let kept: Vec<bool> =
        leaves.iter().enumerate().map(|(index, leaf)| first.get(&leaf.conditions) == Some(&index)).collect();
    for (leaf, _) in leaves.iter().zip(&kept).filter(|(leaf, kept)| !**kept && leaf.standing == Standing::Written) {
        let What::Route { index, .. } = leaf.what else { continue };
        let message = format!("duplicate match conditions defined on route matching {}", leaf.conditions);
        let field = format!("spec.routes[{index}]");
        let error = Finding::error(&leaf.owner, field, "RouteError", "DuplicateMatchConditions", message);
        findings.push(error.of_class(Class::Conflict));
        for ancestor in leaf.ancestors.iter() {
            let message = format!(
                "duplicate match conditions defined in included HTTPProxy {:?}",
                leaf.owner.namespaced_name().as_str()
            );
            let kind = "IncludeError";
            findings.push(Finding::warning(ancestor, "spec.includes", kind, "DuplicateMatchConditions", message));
        }
    }
    let mut kept = kept.into_iter();
    let served = leaves.into_iter().filter(|_| kept.next() == Some(true)).collect();
    (served, findings)
}
