//! Suspects of a refused route configuration: its parts that no Envoy of the build has acknowledged.
//!
//! Names in Envoy's message are not used: users can write text that looks like a name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_envoy::model::table::Host;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_translate::fleet::{Composition, Parts};
use holdfast_translate::route::Rendered;
use imbl::ordmap::DiffItem;

use super::proof::Proof;

/// A suspected part, with its hosts.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// The part.
    pub rendered: Arc<Rendered>,
    /// The hosts of the part.
    pub hosts: BTreeSet<Host>,
}

/// The contents of the versions in which objects are backfilled, by object. Other contents of such an object are its
/// own: it can be backfilled for an edit that it received after the content was sent.
pub(crate) type StandIns = BTreeMap<ObjectKey, HashSet<Content>>;

/// Suspects by unit and content.
pub(crate) type Suspects = BTreeMap<Node, BTreeMap<Content, Suspect>>;

/// Returns the parts of a composition that differ from the last acknowledged one and that no Envoy has accepted.
pub fn changed(acknowledged: Option<&Composition>, refused: &Composition, proof: &Proof) -> Suspects {
    let mut suspects = Suspects::new();
    let nothing = Composition::new();
    for item in acknowledged.unwrap_or(&nothing).diff(refused) {
        let (host, parts): (&Host, &Parts) = match item {
            DiffItem::Add(host, parts) => (host, parts),
            DiffItem::Update { new: (host, parts), .. } => (host, parts),
            DiffItem::Remove(..) => continue,
        };
        for (content, rendered) in parts.iter().filter(|(content, _)| !proof.is_known_good(content)) {
            let suspect = suspects.entry(rendered.node()).or_default().entry(*content);
            let fresh = || Suspect { rendered: rendered.clone(), hosts: BTreeSet::new() };
            suspect.or_insert_with(fresh).hosts.insert(host.clone());
        }
    }
    suspects
}

/// Removes stand-ins as long as other suspects remain: versions of the objects that were acknowledged before, and
/// direct responses at literal paths, in which nothing can be refused.
pub(crate) fn without_stand_ins(suspects: Suspects, backfilled: &StandIns) -> Suspects {
    if only_stand_ins(&suspects, backfilled) {
        return suspects;
    }
    let others = suspects.into_iter().map(|(node, mut parts)| {
        parts.retain(|content, suspect| !is_stand_in(&node, content, suspect, backfilled));
        (node, parts)
    });
    others.filter(|(_, parts)| !parts.is_empty()).collect()
}

/// Checks whether all suspects are stand-ins.
pub(crate) fn only_stand_ins(suspects: &Suspects, backfilled: &StandIns) -> bool {
    let mut all = suspects.iter().flat_map(|(node, parts)| parts.iter().map(move |part| (node, part)));
    all.all(|(node, (content, suspect))| is_stand_in(node, content, suspect, backfilled))
}

/// Checks whether a part is of a version that was acknowledged before, or is a direct response at a literal path.
pub(crate) fn is_stand_in(node: &Node, content: &Content, suspect: &Suspect, backfilled: &StandIns) -> bool {
    backfilled.get(&node.key).is_some_and(|contents| contents.contains(content))
        || suspect.rendered.route.is_plain_answer()
}

/// Checks whether every changed part is known to be good.
pub(crate) fn all_known_good(acknowledged: Option<&Composition>, wanted: &Composition, proof: &Proof) -> bool {
    let nothing = Composition::new();
    acknowledged.unwrap_or(&nothing).diff(wanted).all(|item| match item {
        DiffItem::Add(_, parts) | DiffItem::Update { new: (_, parts), .. } => {
            parts.iter().all(|(content, _)| proof.is_known_good(content))
        }
        DiffItem::Remove(..) => true,
    })
}
