//! HTTPProxies: translation of a root and its includes to the routes of its host.
//!
//! The semantics of HTTPProxies are pure functions that neither look up objects nor know Envoy: include trees
//! (`includes.rs`), conditions, duplicates, prefix rewriting, order of routes, status. The other files look up Services,
//! Secrets and delegations. The unit of translation is the root with its tree, since a duplicate route depends on all
//! other routes; the unit of attribution and replacement is the single route.

mod action;
mod additions;
mod auth;
pub mod budgets;
mod client;
pub mod conditions;
mod cookies;
pub mod duplicates;
pub(crate) mod extension;
pub(super) mod headers;
pub(crate) mod host;
pub mod includes;
mod jwt;
mod limits;
pub mod listeners;
mod narrowed;
pub(crate) mod neighbours;
pub mod order;
pub mod path;
mod policy;
pub mod rewrite;
mod seats;
mod service;
pub mod status;
pub(crate) mod stream;
mod timeouts;
pub(crate) mod tls;
mod tree;
mod upstream;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
pub use holdfast_api::section::HOST;
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;
pub(crate) use tree::{ClosedUnits, failed, plan};

use crate::httpproxy::status::ORPHANED;
use crate::outcome::finding::Finding;
use crate::outcome::route::RoutePlan;

/// Annotations with the class of an HTTPProxy; the first existing one applies.
const CLASS_ANNOTATIONS: [&str; 2] = ["projectcontour.io/ingress.class", "kubernetes.io/ingress.class"];
/// Default class.
const CLASS: &str = "contour";

/// Checks whether a key is that of an HTTPProxy.
pub fn is_proxy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && &*key.kind == kinds::HTTP_PROXY
}

/// Checks whether the class of an HTTPProxy is served.
pub fn is_ours(object: &Object, proxy: &HttpProxy, settings: &Settings) -> bool {
    let annotated = CLASS_ANNOTATIONS.iter().find_map(|name| object.metadata.annotations.get(*name));
    let class = annotated.map(String::as_str).or(proxy.ingress_class_name.as_deref()).unwrap_or_default();
    let served = &settings.proxies.ingress_classes;
    if served.is_empty() { class.is_empty() || class == CLASS } else { served.iter().any(|name| **name == *class) }
}

/// Outcomes of HTTPProxies that no other unit reads.
#[derive(Debug, Default)]
pub(crate) struct HttpProxies {
    /// HTTPProxies that are not roots.
    pub(crate) children: BTreeSet<ObjectKey>,
    /// Root HTTPProxies that contain each HTTPProxy in their include tree.
    pub(crate) included: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The part of the plans of its roots that belongs to each HTTPProxy.
    pub(crate) shares: BTreeMap<ObjectKey, Arc<RoutePlan>>,
    /// Findings about each ExtensionService.
    pub(crate) extensions: BTreeMap<ObjectKey, Vec<Finding>>,
}

impl HttpProxies {
    /// Returns the HTTPProxies that no root includes.
    fn orphans(&self) -> impl Iterator<Item = &ObjectKey> {
        self.children.iter().filter(|child| !self.included.contains_key(*child))
    }

    /// Returns the faults of HTTPProxies that no root includes.
    pub(crate) fn orphan_faults(&self) -> impl Iterator<Item = Fault> {
        self.orphans().map(|child| orphaned(child).fault())
    }

    /// Replaces the members of the include tree of a root.
    pub(crate) fn set_members(&mut self, root: &ObjectKey, before: &BTreeSet<ObjectKey>, after: &BTreeSet<ObjectKey>) {
        for gone in before.difference(after) {
            if let Some(roots) = self.included.get_mut(gone) {
                roots.remove(root);
                if roots.is_empty() {
                    self.included.remove(gone);
                }
            }
        }
        for member in after {
            self.included.entry(member.clone()).or_default().insert(root.clone());
        }
    }
}

/// Returns the finding about an HTTPProxy that no root includes.
pub(crate) fn orphaned(child: &ObjectKey) -> Finding {
    // The only problem is the missing include: the HTTPProxy is not served.
    Finding::error(child, "", "Orphaned", "Orphaned", ORPHANED).of_class(Class::Referential)
}
