//! Duplicates: of routes with equal conditions in a host, the first route is served.
//!
//! The comparison is made at the leaves of the include tree, on all conditions of a route: its own conditions and those
//! of its includes.

use std::collections::HashMap;

use holdfast_api::fault::Class;
use holdfast_api::section::ObjectSection;

use super::order::RouteOrigin;
use crate::httpproxy::includes::{Leaf, What};
use crate::outcome::finding::Finding;

/// Returns the served routes, in the order in which they were read, and findings about the other routes.
///
/// `is_claimed` checks whether the conditions of a route are claimed today: an HTTPProxy that is served in an earlier
/// version may have conditions that are not claimed today; these lose to all claimed conditions.
pub fn judge(leaves: Vec<Leaf>, is_claimed: impl Fn(&Leaf) -> bool) -> (Vec<Leaf>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut first = HashMap::new();
    // Written conditions come first; placeholders of broken routes use the remaining conditions.
    let rank = |leaf: &Leaf| match (leaf.origin == RouteOrigin::Written, is_claimed(leaf)) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let ranks: Vec<u8> = leaves.iter().map(rank).collect();
    for wanted in 0..=2 {
        for (index, leaf) in leaves.iter().enumerate().filter(|(index, _)| ranks.get(*index) == Some(&wanted)) {
            first.entry(&leaf.conditions).or_insert(index);
        }
    }
    let kept: Vec<bool> =
        leaves.iter().enumerate().map(|(index, leaf)| first.get(&leaf.conditions) == Some(&index)).collect();
    for (leaf, _) in leaves.iter().zip(&kept).filter(|(leaf, kept)| !**kept && leaf.origin == RouteOrigin::Written) {
        let What::Route { index, .. } = leaf.what else { continue };
        let winner = first.get(&leaf.conditions).and_then(|winner| leaves.get(*winner)).map(described);
        let winner = winner.map(|winner| format!("; {winner} gets the requests")).unwrap_or_default();
        let message = format!("duplicate match conditions defined on route matching {}{winner}", leaf.conditions);
        let field = format!("spec.{}", ObjectSection::ProxyRoute(index));
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

/// Returns a leaf, as in `routes[0] of HTTPProxy shop/root`.
fn described(leaf: &Leaf) -> String {
    let section = match leaf.what {
        What::Route { index, .. } => ObjectSection::ProxyRoute(index),
        What::Include { index, .. } => ObjectSection::Include(index),
    };
    format!("{section} of HTTPProxy {}", leaf.owner.namespaced_name())
}
