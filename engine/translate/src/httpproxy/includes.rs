//! Include trees: from a root to its routes, depth first, includes before the routes of a proxy.

mod admission;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::condition::MatchCondition;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, INCLUDES_MAX, ProxyEntry, ROUTES_MAX};
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::section::ObjectSection;
use holdfast_check::re2::Regexes;
use holdfast_graph::ObjectKey;

use self::admission::IncludePath;
use super::budgets::Budgets;
use super::conditions::{Conditions, Inherited};
use super::order::RouteOrigin;
use super::{ClosedUnits, additions};
use crate::outcome::addition::Addition;
use crate::outcome::finding::{Finding, NOT_READABLE};

/// Maximum depth of includes.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of routes of one root, including those of its includes; a route that is included twice counts twice.
/// Includes that exceed it are closed.
pub const LEAVES_MAX: usize = 20_000;
/// Maximum number of includes that are followed for one root.
pub(crate) const VISITS_MAX: usize = 20_000;

/// Origin of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A route.
    Route {
        /// Index in `spec.routes`.
        index: usize,
        /// Reason why the route cannot be served, if its conditions are the reason.
        broken: Option<Arc<str>>,
    },
    /// A whole HTTPProxy with unknown requests.
    Closed {
        /// The section at fault.
        section: ObjectSection<'static>,
        /// The reason.
        why: Arc<str>,
    },
    /// An include without a usable target.
    Include {
        /// Index in `spec.includes`.
        index: usize,
        /// The reason.
        message: Arc<str>,
        /// Class of the fault: invalid or referential.
        class: Class,
    },
}

impl What {
    /// Returns the section of the owner that a leaf is from. The entries of a list over its limit are one section.
    pub fn section(&self) -> ObjectSection<'static> {
        match self {
            What::Route { index, .. } => ObjectSection::ProxyRoute((*index).min(ROUTES_MAX)),
            What::Closed { section, .. } => *section,
            What::Include { index, .. } => ObjectSection::Include((*index).min(INCLUDES_MAX)),
        }
    }
}

/// A route at the end of a chain of includes.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The HTTPProxy that contains the route.
    pub owner: ObjectKey,
    /// Origin of the leaf.
    pub what: What,
    /// Conditions of the route.
    pub conditions: Conditions,
    /// Origin of the conditions: written or placeholder.
    pub origin: RouteOrigin,
    /// The including HTTPProxies, the root first.
    pub ancestors: Arc<[ObjectKey]>,
    /// Number of earlier occurrences of the HTTPProxy in the tree.
    pub instance: usize,
    /// The conditions that the includes above add.
    pub additions: Arc<[Arc<Addition>]>,
}

/// Result of the traversal of a root.
#[derive(Debug, Default)]
pub struct Tree {
    /// Routes, in the order in which they are read.
    pub leaves: Vec<Leaf>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// HTTPProxies that are part of the tree.
    pub members: BTreeSet<ObjectKey>,
    /// Includes: including HTTPProxy, index of the include, included HTTPProxy.
    pub includes: BTreeSet<(ObjectKey, usize, ObjectKey)>,
    visits: BTreeMap<ObjectKey, usize>,
}

/// Returns the key of an HTTPProxy.
pub fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, kinds::HTTP_PROXY, namespace, name)
}

/// Returns an HTTPProxy that may be included, or the predicate of the message that there is none.
pub type FindProxy<'a> = dyn FnMut(&ObjectKey) -> Result<Arc<HttpProxy>, &'static str> + 'a;

/// Reads a tree from its root, within the remaining budgets; `find` returns the HTTPProxies that may be included.
/// Includes in `closed` have no usable target.
pub(crate) fn read(
    root: &ObjectKey,
    proxy: &Arc<HttpProxy>,
    closed: &ClosedUnits,
    budgets: &mut Budgets,
    find: &mut FindProxy<'_>,
) -> Tree {
    let mut tree = Tree::default();
    let unadmitted = admission::unadmitted(root, proxy, find);
    let mut walk = Walk { tree: &mut tree, closed, budgets, find, unadmitted, chain: Vec::new(), place: Vec::new() };
    walk.visit(root, proxy, &Inherited::default());
    tree
}

struct Walk<'a> {
    tree: &'a mut Tree,
    closed: &'a ClosedUnits,
    budgets: &'a mut Budgets,
    find: &'a mut FindProxy<'a>,
    unadmitted: BTreeSet<IncludePath>,
    chain: Vec<ObjectKey>,
    /// The includes that lead to the visited HTTPProxy.
    place: IncludePath,
}

impl Walk<'_> {
    fn visit(&mut self, key: &ObjectKey, proxy: &Arc<HttpProxy>, inherited: &Inherited) {
        self.tree.members.insert(key.clone());
        let times = self.tree.visits.entry(key.clone()).or_insert(0);
        let instance = *times;
        *times += 1;
        let regexes = self.budgets.of(&self.chain, key);
        let ancestors: Arc<[ObjectKey]> = self.chain.as_slice().into();
        if let Some((section, why)) = self.closing(key, proxy) {
            // The placeholder precedes all broader routes: the conditions of the includes are all that is known.
            for (conditions, _) in inherited.salvaged(&[], &regexes) {
                let (owner, what) = (key.clone(), What::Closed { section, why: why.clone() });
                let (origin, ancestors) = (RouteOrigin::Placeholder, ancestors.clone());
                let additions = inherited.additions.as_slice().into();
                self.tree.leaves.push(Leaf { owner, what, conditions, origin, ancestors, instance, additions });
            }
            return;
        }
        self.chain.push(key.clone());
        for index in 0..proxy.includes.len() {
            self.place.push(index);
            self.include(key, proxy, index, inherited, instance, &regexes);
            self.place.pop();
        }
        self.chain.pop();
        let additions: Arc<[Arc<Addition>]> = inherited.additions.as_slice().into();
        for (index, entry) in proxy.routes.iter().enumerate() {
            let (matches, broken) = self.route(key, index, entry, inherited, &regexes);
            for (conditions, origin) in matches {
                let what = What::Route { index, broken: broken.clone() };
                let (owner, ancestors, additions) = (key.clone(), ancestors.clone(), additions.clone());
                self.tree.leaves.push(Leaf { owner, what, conditions, origin, ancestors, instance, additions });
            }
        }
    }

    /// Returns the section for which a whole HTTPProxy is closed, with the error, which is reported.
    fn closing(&mut self, key: &ObjectKey, proxy: &HttpProxy) -> Option<(ObjectSection<'static>, Arc<str>)> {
        let (section, reason, why) = match proxy.closing_entry() {
            Some((section, why)) => (section, NOT_READABLE, why.clone()),
            None if self.place.is_empty() && self.unadmitted.contains(&self.place) => {
                let why =
                    format!("more than {LEAVES_MAX} routes below one root; all requests are answered with an error");
                (ObjectSection::ProxyRoute(0), "TooMany", why.into())
            }
            None => return None,
        };
        let (kind, field) = match section {
            ObjectSection::Include(_) => ("IncludeError", "spec.includes"),
            _ => ("RouteError", "spec.routes"),
        };
        self.tree.findings.push(Finding::error(key, field, kind, reason, &*why));
        Some((section, why))
    }

    fn route(
        &mut self,
        key: &ObjectKey,
        index: usize,
        entry: &ProxyEntry<holdfast_api::apis::contour::route::ProxyRoute>,
        inherited: &Inherited,
        regexes: &Regexes,
    ) -> (Vec<(Conditions, RouteOrigin)>, Option<Arc<str>>) {
        let (written, why) = match entry {
            ProxyEntry::Decoded(route) => (route.conditions.as_deref().unwrap_or_default(), None),
            ProxyEntry::Broken { conditions, why, .. } => (conditions.as_slice(), Some(why.clone())),
        };
        let read = inherited.route(written, regexes);
        let (unusable, why) = match (read, why) {
            (Ok(conditions), None) => return (vec![(conditions, RouteOrigin::Written)], None),
            (_, Some(why)) => {
                // The error of the routes over the limit is one of the list.
                let field = match index < ROUTES_MAX {
                    true => format!("spec.{}", ObjectSection::ProxyRoute(index)),
                    false => "spec.routes".to_owned(),
                };
                self.note(Finding::error(key, field, "RouteError", NOT_READABLE, &*why));
                (None, why)
            }
            (Err(unusable), None) => {
                let message = unusable.message.as_str().into();
                (Some(unusable), message)
            }
        };
        if let Some(unusable) = unusable {
            let field = format!("spec.{}.conditions", ObjectSection::ProxyRoute(index));
            let found = Finding::error(key, field, "RouteError", unusable.reason, unusable.message);
            self.tree.findings.push(found);
        }
        (inherited.salvaged(written, regexes), Some(why))
    }

    /// Adds a finding, once for consecutive entries.
    fn note(&mut self, found: Finding) {
        if self.tree.findings.last() != Some(&found) {
            self.tree.findings.push(found);
        }
    }

    fn include(
        &mut self,
        key: &ObjectKey,
        proxy: &Arc<HttpProxy>,
        index: usize,
        inherited: &Inherited,
        instance: usize,
        regexes: &Regexes,
    ) {
        let field = format!("spec.{}", ObjectSection::Include(index));
        let include = match proxy.includes.get(index) {
            Some(ProxyEntry::Decoded(include)) => include,
            Some(ProxyEntry::Broken { conditions, why, .. }) => {
                let (conditions, why) = (conditions.clone(), why.clone());
                let field = if index < INCLUDES_MAX { field } else { "spec.includes".to_owned() };
                self.note(Finding::error(key, field, "IncludeError", NOT_READABLE, &*why));
                let below = inherited.narrowed(&conditions);
                return self.nowhere(key, index, &below, why, Class::Invalid, (instance, regexes));
            }
            None => return,
        };
        let written: &[MatchCondition] = include.conditions.as_deref().unwrap_or_default();
        if let Some(closing) = self.closed_include(key, index) {
            return self.nowhere(
                key,
                index,
                &inherited.narrowed(written),
                closing,
                Class::Invalid,
                (instance, regexes),
            );
        }
        let mut below = match inherited.under(written, regexes) {
            Ok(below) => below,
            Err(unusable) => {
                let found = Finding::error(
                    key,
                    format!("{field}.conditions"),
                    unusable.kind_of_include(),
                    unusable.reason,
                    &unusable.message,
                );
                self.tree.findings.push(found);
                let message = unusable.message.into();
                let below = inherited.narrowed(written);
                return self.nowhere(key, index, &below, message, Class::Invalid, (instance, regexes));
            }
        };
        let added = Inherited::added(written, regexes).ok().and_then(|added| additions::of_include(key, index, added));
        below.additions.extend(added);
        let namespace = include.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let target = self::key(namespace.unwrap_or(&key.namespace), &include.name);
        self.tree.includes.insert((key.clone(), index, target.clone()));
        let found = match self.target(key, &field, &target) {
            Ok(_) if self.unadmitted.contains(&self.place) => {
                return self.unfollowed(key, index, below, (instance, regexes));
            }
            Ok(child) => return self.visit(&target, &child, &below),
            Err(found) => found,
        };
        let (message, class) = (found.message.as_str().into(), found.class);
        self.tree.findings.push(*found);
        self.nowhere(key, index, &[below], message, class, (instance, regexes));
    }

    /// Closes an include that exceeds the limit of its root. All such includes of an HTTPProxy are one section.
    fn unfollowed(&mut self, key: &ObjectKey, index: usize, below: Inherited, (instance, regexes): (usize, &Regexes)) {
        let Some((_, includer)) = self.place.split_last() else { return };
        let place = |index: usize| -> IncludePath { includer.iter().copied().chain([index]).collect() };
        let all = self.unadmitted.range(place(0)..=place(usize::MAX)).filter(|one| one.len() == self.place.len());
        let mut all = all.filter_map(|one| one.last());
        let first = all.next().copied().unwrap_or(index);
        let which = match all.next_back() {
            Some(last) => {
                let count = all.count() + 2;
                format!("{count} includes from includes[{first}] to includes[{last}] are")
            }
            None => format!("includes[{first}] is"),
        };
        let message =
            format!("{which} closed: the root would have more than {LEAVES_MAX} routes or {VISITS_MAX} includes");
        let field = format!("spec.{}", ObjectSection::Include(first));
        self.note(Finding::error(key, field, "IncludeError", "TooMany", &*message));
        self.nowhere(key, first, &[below], message.into(), Class::Invalid, (instance, regexes));
    }

    /// Returns why an include is closed, whatever its target.
    fn closed_include(&self, key: &ObjectKey, index: usize) -> Option<Arc<str>> {
        let units = self.closed.get(key)?;
        units.get(&*ObjectSection::Include(index).to_string()).map(|closing| closing.message.clone())
    }

    /// Returns the HTTPProxy that an include references.
    fn target(&mut self, key: &ObjectKey, field: &str, target: &ObjectKey) -> Result<Arc<HttpProxy>, Box<Finding>> {
        let error = |reason: &'static str, class: Class, message: String| {
            Err(Box::new(Finding::error(key, field, "IncludeError", reason, message).of_class(class)))
        };
        let name = target.namespaced_name();
        let child = match (self.find)(target) {
            Ok(child) => child,
            Err(unfound) => {
                let message = format!("include {name} {unfound}");
                let found = error("IncludeNotFound", Class::Referential, message);
                return found.map_err(|found| Box::new(found.caused_by(Some(target.clone()))));
            }
        };
        if child.virtual_host.is_some() {
            let message = format!("root httpproxy cannot include another root httpproxy ({name})");
            return error("RootIncludesRoot", Class::Invalid, message);
        }
        if self.chain.contains(target) {
            let names: Vec<String> = self.chain.iter().chain([target]).map(ObjectKey::namespaced_name).collect();
            let message = format!("include creates an include cycle: {}", names.join(" -> "));
            // Contour reports the cycle only at the proxy that occurs a second time.
            if target != key {
                let (field, message) = ("spec.includes", message.as_str());
                let found = Finding::error(target, field, "IncludeError", "IncludeCreatesCycle", message);
                self.tree.findings.push(found);
            }
            return error("IncludeCreatesCycle", Class::Invalid, message);
        }
        if self.chain.len() >= DEPTH_MAX {
            return error("TooMany", Class::Invalid, format!("includes go deeper than {DEPTH_MAX}: {name}"));
        }
        Ok(child)
    }

    /// Adds a leaf for each path of an include without a usable target; the leaves cover all requests of the include.
    fn nowhere(
        &mut self,
        key: &ObjectKey,
        index: usize,
        below: &[Inherited],
        message: Arc<str>,
        class: Class,
        (instance, regexes): (usize, &Regexes),
    ) {
        let ancestors: Arc<[ObjectKey]> = self.chain.split_last().map(|(_, above)| above.into()).unwrap_or_default();
        for below in below {
            let additions: Arc<[Arc<Addition>]> = below.additions.as_slice().into();
            for (conditions, origin) in below.salvaged(&[], regexes) {
                let what = What::Include { index, message: message.clone(), class };
                let (owner, ancestors, additions) = (key.clone(), ancestors.clone(), additions.clone());
                self.tree.leaves.push(Leaf { owner, what, conditions, origin, ancestors, instance, additions });
            }
        }
    }
}

#[cfg(test)]
mod tests;
