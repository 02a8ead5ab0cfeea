//! HTTPProxies: translation of a root and its includes to the routes of its host.
//!
//! `proxies/` has the semantics of HTTPProxies as pure functions. This module looks up other objects: Services,
//! Secrets, delegations. The unit of translation is the root with its tree, since a duplicate route depends on all
//! other routes; the unit of attribution and replacement is the single route.

mod action;
mod auth;
mod cookies;
pub(crate) mod extension;
pub(super) mod headers;
pub(crate) mod host;
mod jwt;
mod limits;
pub mod listeners;
mod narrowed;
pub(crate) mod neighbours;
mod policy;
mod seats;
mod service;
pub(crate) mod stream;
mod timeouts;
pub(crate) mod tls;
mod tree;
mod update;
mod upstream;

use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
pub use holdfast_api::section::HOST;
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;
pub(crate) use tree::{ClosedUnits, failed, plan};

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
