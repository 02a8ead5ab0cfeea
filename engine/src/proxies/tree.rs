//! Trees of includes: from a root down to the routes, depth first, includes before a proxy's own routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::budgets::Budgets;
use super::conditions::{Conditions, Inherited};
use super::finding::{Finding, NOT_READABLE};
use super::order::Standing;
use crate::apis::contour::GROUP;
use crate::apis::contour::condition::MatchCondition;
use crate::apis::contour::http_proxy::{Entry, HttpProxy};
use crate::check::re2::Regexes;
use crate::fault::Class;

/// How deep includes may go.
pub(crate) const DEPTH_MAX: usize = 64;
/// Routes of one root, those of its includes among them; one that is included twice counts twice.
pub(crate) const LEAVES_MAX: usize = 20_000;
/// Includes that are followed for one root.
pub(crate) const VISITS_MAX: usize = 20_000;

/// What a leaf stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A route.
    Route {
        /// Its place in `spec.routes`.
        index: usize,
        /// Why it cannot be served, where its conditions say so.
        broken: Option<Arc<str>>,
    },
    /// An include that leads nowhere.
    Include {
        /// Its place in `spec.includes`.
        index: usize,
        /// Why.
        message: Arc<str>,
        /// Is what it names not there?
        class: Class,
    },
}

/// A route at the end of a chain of includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The proxy that it is a route of.
    pub(crate) owner: ObjectKey,
    /// What it stands for.
    pub(crate) what: What,
    /// Which requests it is for.
    pub(crate) conditions: Conditions,
    /// Did somebody write it?
    pub(crate) standing: Standing,
    /// The proxies that include it, the root first.
    pub(crate) ancestors: Arc<[ObjectKey]>,
    /// How often its proxy came before in the tree.
    pub(crate) instance: usize,
}

/// What a root leads to.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The routes, in the order in which they are read.
    pub(crate) leaves: Vec<Leaf>,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
    /// The proxies that take part.
    pub(crate) members: BTreeSet<ObjectKey>,
    /// Who includes whom: includer, place of the include, included.
    pub(crate) includes: BTreeSet<(ObjectKey, usize, ObjectKey)>,
    visits: BTreeMap<ObjectKey, usize>,
    followed: usize,
}

/// The identity of an HTTPProxy.
pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, "HTTPProxy", namespace, name)
}

/// Reads a tree from its root, within what is left of the budgets; `find` gives the proxies that may be included.
pub(crate) fn read(
    root: &ObjectKey,
    proxy: &Arc<HttpProxy>,
    budgets: &mut Budgets,
    find: &mut dyn FnMut(&ObjectKey) -> Option<Arc<HttpProxy>>,
) -> Tree {
    let mut tree = Tree::default();
    let mut walk = Walk { tree: &mut tree, budgets, find, chain: Vec::new() };
    walk.visit(root, proxy, &Inherited::default());
    tree
}

struct Walk<'a> {
    tree: &'a mut Tree,
    budgets: &'a mut Budgets,
    find: &'a mut dyn FnMut(&ObjectKey) -> Option<Arc<HttpProxy>>,
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
            let (conditions, standing, broken) = self.route(key, index, entry, inherited, &regexes);
            let what = What::Route { index, broken };
            let (owner, ancestors) = (key.clone(), ancestors.clone());
            self.push(Leaf { owner, what, conditions, standing, ancestors, instance });
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
        entry: &Entry<crate::apis::contour::route::Route>,
        inherited: &Inherited,
        regexes: &Regexes,
    ) -> (Conditions, Standing, Option<Arc<str>>) {
        let (written, why) = match entry {
            Entry::Decoded(route) => (route.conditions.as_deref().unwrap_or_default(), None),
            Entry::Broken { conditions, why, .. } => (conditions.as_slice(), Some(why.clone())),
        };
        let read = inherited.route(written, regexes);
        let (unusable, why) = match (read, why) {
            (Ok(conditions), None) => return (conditions, Standing::Written, None),
            (_, Some(why)) => {
                let found = Finding::error(key, format!("spec.routes[{index}]"), "RouteError", NOT_READABLE, &*why);
                self.tree.findings.push(found);
                (None, why)
            }
            (Err(unusable), None) => {
                let message = unusable.message.as_str().into();
                (Some(unusable), message)
            }
        };
        if let Some(unusable) = unusable {
            let field = format!("spec.routes[{index}].conditions");
            let found = Finding::error(key, field, "RouteError", unusable.reason, unusable.message);
            self.tree.findings.push(found);
        }
        let (conditions, standing) = inherited.salvaged(written, regexes);
        (conditions, standing, Some(why))
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
        let field = format!("spec.includes[{index}]");
        let include = match proxy.includes.get(index) {
            Some(Entry::Decoded(include)) => include,
            Some(Entry::Broken { conditions, why, .. }) => {
                let (conditions, why) = (conditions.clone(), why.clone());
                self.tree.findings.push(Finding::error(key, field, "IncludeError", NOT_READABLE, &*why));
                return self.nowhere(
                    key,
                    index,
                    &inherited.narrowed(&conditions),
                    why,
                    Class::Invalid,
                    (instance, regexes),
                );
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
                return self.nowhere(
                    key,
                    index,
                    &inherited.narrowed(written),
                    message,
                    Class::Invalid,
                    (instance, regexes),
                );
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
        self.nowhere(key, index, &below, message, class, (instance, regexes));
    }

    /// The proxy that an include names.
    fn target(&mut self, key: &ObjectKey, field: &str, target: &ObjectKey) -> Result<Arc<HttpProxy>, Box<Finding>> {
        let error = |reason: &'static str, class: Class, message: String| {
            Err(Box::new(Finding::error(key, field, "IncludeError", reason, message).of_class(class)))
        };
        let name = target.namespaced_name();
        let Some(child) = (self.find)(target) else {
            return error("IncludeNotFound", Class::Referential, format!("include {name} not found"));
        };
        if child.virtual_host.is_some() {
            let message = format!("root httpproxy cannot include another root httpproxy ({name})");
            return error("RootIncludesRoot", Class::Invalid, message);
        }
        if self.chain.contains(target) {
            let names: Vec<String> = self.chain.iter().chain([target]).map(ObjectKey::namespaced_name).collect();
            let message = format!("include creates an include cycle: {}", names.join(" -> "));
            // Contour tells it of the proxy that comes a second time only.
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

    /// An include that leads nowhere is answered at all that it was meant for, and at nothing else.
    fn nowhere(
        &mut self,
        key: &ObjectKey,
        index: usize,
        below: &Inherited,
        message: Arc<str>,
        class: Class,
        (instance, regexes): (usize, &Regexes),
    ) {
        let (conditions, standing) = below.salvaged(&[], regexes);
        let ancestors = self.chain.split_last().map(|(_, above)| above.into()).unwrap_or_default();
        let what = What::Include { index, message, class };
        self.push(Leaf { owner: key.clone(), what, conditions, standing, ancestors, instance });
    }
}

#[cfg(test)]
mod tests;
