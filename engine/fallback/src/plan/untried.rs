//! Untried content without the gate for last valid versions: an object that is not known to be broken keeps the version
//! that Envoys have until its new content is tried.
//!
//! Content is untried while its namespace or its object waits, and while it is suspected because other content was
//! refused together with it. The gate decides only about objects that are known to be broken.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Gates, Node, ObjectKey};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::overlay::Overlay;

use super::derive::Broken;
use super::world::World;
use crate::evidence::forms::Form;

/// The acknowledged routes of a scope.
pub struct AcknowledgedRoutes<'a> {
    forms: &'a BTreeMap<Arc<str>, Form>,
    contents: OnceCell<HashSet<Content>>,
    /// Results of [`is_served`]: a plan is derived several times, and each result costs a translation.
    known: RefCell<BTreeMap<ObjectKey, bool>>,
}

impl<'a> AcknowledgedRoutes<'a> {
    /// Creates the view of the acknowledged forms.
    pub fn new(forms: &'a BTreeMap<Arc<str>, Form>) -> Self {
        Self { forms, contents: OnceCell::new(), known: RefCell::default() }
    }

    fn contains(&self, content: &Content) -> bool {
        let parts = || self.forms.values().flat_map(|form| form.composition.values()).flat_map(|parts| parts.iter());
        self.contents.get_or_init(|| parts().map(|(content, _)| *content).collect()).contains(content)
    }
}

/// Returns the objects that are broken only because their new content was not tried yet; the last valid version of each
/// is what Envoys have. `users`: units that use a broken object that several routes share.
pub(crate) fn stay(
    broken: &BTreeMap<Node, Broken>,
    users: &BTreeSet<Node>,
    world: &World<'_>,
    gates: &Gates,
) -> BTreeSet<ObjectKey> {
    if gates.use_last_valid || !gates.isolate {
        return BTreeSet::new();
    }
    let (untried, known): (Vec<_>, Vec<_>) =
        broken.iter().partition(|(_, broken)| broken.detected == Detected::Suspected);
    let known: BTreeSet<&ObjectKey> =
        known.into_iter().map(|(node, _)| node).chain(users).map(|node| &node.key).collect();
    let untried: BTreeSet<&ObjectKey> = untried.into_iter().map(|(node, _)| &node.key).collect();
    untried.into_iter().filter(|key| !known.contains(key) && is_known_served(key, world)).cloned().collect()
}

fn is_known_served(key: &ObjectKey, world: &World<'_>) -> bool {
    if let Some(known) = world.acknowledged.known.borrow().get(key) {
        return *known;
    }
    let found = is_served(key, world);
    world.acknowledged.known.borrow_mut().insert(key.clone(), found);
    found
}

/// Checks whether Envoys have an object in its last valid version.
fn is_served(key: &ObjectKey, world: &World<'_>) -> bool {
    let Some(version) = world.candidate(key) else { return false };
    if world.translator.policy(key).is_some() {
        let is_refused = world.quarantine.of(key).any(|(_, verdict)| verdict.detected != Detected::Suspected);
        let plan = world.translator.try_policy(&version.object, world.objects);
        let is_proven = |plan: &PolicyPlan| plan.contents().all(|(_, content)| world.proof.is_known_good(&content));
        return !is_refused && plan.as_ref().is_some_and(is_proven);
    }
    let over = Overlay { objects: BTreeMap::from([(key.clone(), version.object)]), ..Overlay::default() };
    let roots = match is_proxy(key) {
        true => world.translator.roots_of(key).cloned().collect(),
        false => vec![key.clone()],
    };
    let plans = roots.iter().filter_map(|root| world.translator.try_route(root, &over, world.objects));
    let mut made = plans.flat_map(|plan| world.translator.contents(world.gateway, &plan)).peekable();
    made.peek().is_some() && made.all(|(content, node)| node.key != *key || world.acknowledged.contains(&content))
}
