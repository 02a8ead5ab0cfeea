//! Include trees: from a root to its routes, depth first, includes before the routes of a proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::condition::MatchCondition;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::section::ObjectSection;
use holdfast_check::re2::Regexes;
use holdfast_graph::ObjectKey;

use super::budgets::Budgets;
use super::conditions::{Conditions, Inherited};
use super::order::RouteOrigin;
use crate::outcome::finding::{Finding, NOT_READABLE};

/// Maximum depth of includes.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of routes of one root, including those of its includes; a route that is included twice counts twice.
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

/// A route at the end of a chain of includes.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    followed: usize,
}

/// Returns the key of an HTTPProxy.
pub fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, kinds::HTTP_PROXY, namespace, name)
}

/// Returns an HTTPProxy that may be included, or the predicate of the message that there is none.
pub type FindProxy<'a> = dyn FnMut(&ObjectKey) -> Result<Arc<HttpProxy>, &'static str> + 'a;

/// Reads a tree from its root, within the remaining budgets; `find` returns the HTTPProxies that may be included.
pub fn read(root: &ObjectKey, proxy: &Arc<HttpProxy>, budgets: &mut Budgets, find: &mut FindProxy<'_>) -> Tree {
    let mut tree = Tree::default();
    let mut walk = Walk { tree: &mut tree, budgets, find, chain: Vec::new() };
    walk.visit(root, proxy, &Inherited::default());
    tree
}

struct Walk<'a> {
    tree: &'a mut Tree,
    budgets: &'a mut Budgets,
    find: &'a mut FindProxy<'a>,
    chain: Vec<ObjectKey>,
}

impl Walk<'_> {
    fn visit(&mut self, key: &ObjectKey, proxy: &Arc<HttpProxy>, inherited: &Inherited) {
        self.tree.members.insert(key.clone());
        let times = self.tree.visits.entry(key.clone()).or_insert(0);
        let instance = *times;
        *times += 1;
        let regexes = self.budgets.of(&self.chain, key);
        self.chain.push(key.clone());
        for index in 0..proxy.includes.len() {
            self.include(key, proxy, index, inherited, instance, &regexes);
        }
        self.chain.pop();
        let ancestors: Arc<[ObjectKey]> = self.chain.as_slice().into();
        for (index, entry) in proxy.routes.iter().enumerate() {
            let (matches, broken) = self.route(key, index, entry, inherited, &regexes);
            for (conditions, origin) in matches {
                let what = What::Route { index, broken: broken.clone() };
                let (owner, ancestors) = (key.clone(), ancestors.clone());
                self.push(Leaf { owner, what, conditions, origin, ancestors, instance });
            }
        }
    }

    fn push(&mut self, leaf: Leaf) {
        if self.tree.leaves.len() < LEAVES_MAX {
            self.tree.leaves.push(leaf);
        } else if self.tree.leaves.len() == LEAVES_MAX {
            let message = format!("more than {LEAVES_MAX} routes below one root; the rest is not served");
            self.tree.findings.push(Finding::error(&leaf.owner, "spec.routes", "RouteError", "TooMany", message));
        }
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
                let found = Finding::error(
                    key,
                    format!("spec.{}", ObjectSection::ProxyRoute(index)),
                    "RouteError",
                    NOT_READABLE,
                    &*why,
                );
                self.tree.findings.push(found);
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
                self.tree.findings.push(Finding::error(key, field, "IncludeError", NOT_READABLE, &*why));
                let below = inherited.narrowed(&conditions);
                return self.nowhere(key, index, &below, why, Class::Invalid, (instance, regexes));
            }
            None => return,
        };
        let written: &[MatchCondition] = include.conditions.as_deref().unwrap_or_default();
        let below = match inherited.under(written, regexes) {
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
        let namespace = include.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let target = self::key(namespace.unwrap_or(&key.namespace), &include.name);
        self.tree.includes.insert((key.clone(), index, target.clone()));
        let found = match self.target(key, &field, &target) {
            Ok(child) => {
                self.tree.followed += 1;
                return self.visit(&target, &child, &below);
            }
            Err(found) => found,
        };
        let (message, class) = (found.message.as_str().into(), found.class);
        self.tree.findings.push(*found);
        self.nowhere(key, index, &[below], message, class, (instance, regexes));
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
        if self.chain.len() >= DEPTH_MAX || self.tree.followed >= VISITS_MAX {
            let message =
                format!("includes go deeper than {DEPTH_MAX}, or a root has more than {VISITS_MAX} of them: {name}");
            return error("TooMany", Class::Invalid, message);
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
        for (conditions, origin) in below.iter().flat_map(|below| below.salvaged(&[], regexes)) {
            let what = What::Include { index, message: message.clone(), class };
            let (owner, ancestors) = (key.clone(), ancestors.clone());
            self.push(Leaf { owner, what, conditions, origin, ancestors, instance });
        }
    }
}

#[cfg(test)]
mod tests;
