//! The includes of a root that are followed. Where a root would have too many routes, the includes that exceed the limit
//! are closed, and none of their routes is read.
//!
//! The HTTPProxies that the root itself includes share the limit: the next include that is followed is always one below
//! the HTTPProxy with the fewest routes so far. An HTTPProxy with many routes thus takes nothing from one with few, even
//! if the root includes it first.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_api::apis::contour::condition::MatchCondition;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_graph::ObjectKey;

use super::{DEPTH_MAX, FindProxy, LEAVES_MAX, VISITS_MAX, key};

/// The indexes of the includes that lead from a root to an HTTPProxy; empty for the root.
pub(super) type IncludePath = Vec<usize>;

/// An include that may be followed.
struct Pending {
    place: IncludePath,
    /// The HTTPProxies from the root to the including one.
    chain: Arc<[ObjectKey]>,
    target: ObjectKey,
}

/// Number of routes of a root so far. Each include counts as the routes of its closed form, until it is followed.
struct Admission<'a> {
    find: &'a mut FindProxy<'a>,
    leaves: usize,
    followed: usize,
    unadmitted: BTreeSet<IncludePath>,
}

/// Returns the places of the includes that are not followed because of the number of routes and includes of the root;
/// that of the root if its own routes are too many.
pub(super) fn unadmitted(root: &ObjectKey, proxy: &HttpProxy, find: &mut FindProxy<'_>) -> BTreeSet<IncludePath> {
    let own = leaves(proxy);
    if own > LEAVES_MAX {
        return BTreeSet::from([IncludePath::new()]);
    }
    let mut admission = Admission { find, leaves: own, followed: 0, unadmitted: BTreeSet::new() };
    let chain: Arc<[ObjectKey]> = [root.clone()].into();
    // The includes that may be followed, below each include of the root.
    let mut pending: Vec<VecDeque<Pending>> =
        below(&chain, &IncludePath::new(), proxy).map(|include| VecDeque::from([include])).collect();
    let mut turns: BTreeSet<(usize, usize)> = (0..pending.len()).map(|group| (0, group)).collect();
    while let Some((used, group)) = turns.pop_first() {
        let Some(includes) = pending.get_mut(group) else { continue };
        let Some(include) = includes.pop_front() else { continue };
        let added = admission.follow(&include, includes);
        turns.insert((used + added, group));
    }
    admission.unadmitted
}

impl Admission<'_> {
    /// Follows an include if the limits permit. Returns the number of routes that it adds.
    fn follow(&mut self, include: &Pending, next: &mut VecDeque<Pending>) -> usize {
        let is_usable = !include.chain.contains(&include.target) && include.chain.len() < DEPTH_MAX;
        let found = if is_usable { (self.find)(&include.target).ok() } else { None };
        let Some(child) = found.filter(|child| child.virtual_host.is_none()) else { return 0 };
        // Its routes replace the one of the closed include.
        let added = leaves(&child).max(1) - 1;
        if self.leaves + added > LEAVES_MAX || self.followed >= VISITS_MAX {
            self.unadmitted.insert(include.place.clone());
            return 0;
        }
        self.leaves += added;
        self.followed += 1;
        let chain: Arc<[ObjectKey]> = include.chain.iter().chain([&include.target]).cloned().collect();
        next.extend(below(&chain, &include.place, &child));
        added
    }
}

/// Returns the readable includes of an HTTPProxy.
fn below<'a>(
    chain: &'a Arc<[ObjectKey]>,
    place: &'a IncludePath,
    proxy: &'a HttpProxy,
) -> impl Iterator<Item = Pending> + 'a {
    let is_closed = proxy.closing_entry().is_some();
    let includes = proxy.includes.iter().enumerate().filter(move |_| !is_closed);
    includes.filter_map(move |(index, entry)| {
        let ProxyEntry::Decoded(include) = entry else { return None };
        // With several paths, the include is closed at each.
        if paths(entry.conditions()) > 1 {
            return None;
        }
        let namespace = include.namespace.as_ref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.or(chain.last().map(|includer| &includer.namespace))?;
        let place = place.iter().copied().chain([index]).collect();
        Some(Pending { place, chain: chain.clone(), target: key(namespace, &include.name) })
    })
}

/// Returns the largest number of routes that an HTTPProxy itself adds to its root, with one for each include.
fn leaves(proxy: &HttpProxy) -> usize {
    if proxy.closing_entry().is_some() {
        return 1;
    }
    let routes = proxy.routes.iter().map(|entry| paths(entry.conditions()));
    routes.chain(proxy.includes.iter().map(|entry| paths(entry.conditions()))).sum()
}

/// Returns the largest number of placeholders of an entry: with several paths, each has one.
fn paths(conditions: &[MatchCondition]) -> usize {
    let texts = conditions.iter().flat_map(|condition| [&condition.prefix, &condition.exact, &condition.regex]);
    texts.flatten().filter(|text| !text.is_empty()).count().max(1)
}
