//! Duplicates: of routes with equal conditions in a host, the first route is served.
//!
//! The comparison is made at the leaves of the include tree, on all conditions of a route: its own conditions and those
//! of its includes. Placeholders of broken routes are not compared.

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
    let is_written = |leaf: &&Leaf| leaf.origin == RouteOrigin::Written;
    for claimed in [true, false] {
        let written = leaves.iter().enumerate().filter(|(_, leaf)| is_written(leaf));
        for (index, leaf) in written.filter(|(_, leaf)| is_claimed(leaf) == claimed) {
            first.entry(&leaf.conditions).or_insert(index);
        }
    }
    // The placeholder of a broken route is no duplicate: it comes after an equal route, and is closed before that route
    // if the broken route is guarded.
    let is_kept = |(index, leaf): (usize, &Leaf)| {
        leaf.origin != RouteOrigin::Written || first.get(&leaf.conditions) == Some(&index)
    };
    let kept: Vec<bool> = leaves.iter().enumerate().map(is_kept).collect();
    for (leaf, _) in leaves.iter().zip(&kept).filter(|(_, kept)| !**kept) {
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
    format!("{} of HTTPProxy {}", leaf.what.section(), leaf.owner.namespaced_name())
}
