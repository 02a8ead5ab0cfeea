//! HTTPProxies: translation of a root and its includes to the routes of its host.
//!
//! `proxies/` has the semantics of HTTPProxies as pure functions. This module looks up other objects: Services,
//! Secrets, delegations. The unit of translation is the root with its tree, since a duplicate route depends on all
//! other routes; the unit of attribution and replacement is the single route.

mod action;
mod auth;
mod cookies;
pub(in crate::translate) mod extension;
pub(super) mod headers;
pub(in crate::translate) mod host;
mod jwt;
mod limits;
pub(crate) mod listeners;
mod narrowed;
pub(in crate::translate) mod neighbours;
mod policy;
mod seats;
mod service;
pub(in crate::translate) mod stream;
mod timeouts;
pub(in crate::translate) mod tls;
mod tree;
mod update;
mod upstream;

pub(in crate::translate) use tree::{ClosedUnits, failed, plan};

use holdfast_graph::ObjectKey;

use crate::apis::contour::GROUP;
use crate::apis::contour::http_proxy::HttpProxy;
use crate::object::Object;
use crate::settings::Settings;

/// Section of a host as a whole.
pub(crate) const HOST: &str = "virtualhost";

/// Annotations with the class of an HTTPProxy; the first existing one applies.
const CLASS_ANNOTATIONS: [&str; 2] = ["projectcontour.io/ingress.class", "kubernetes.io/ingress.class"];
/// Default class.
const CLASS: &str = "contour";

/// Checks whether a key is that of an HTTPProxy.
pub(crate) fn is_proxy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && &*key.kind == "HTTPProxy"
}

/// Checks whether the class of an HTTPProxy is served.
pub(crate) fn is_ours(object: &Object, proxy: &HttpProxy, settings: &Settings) -> bool {
    let annotated = CLASS_ANNOTATIONS.iter().find_map(|name| object.metadata.annotations.get(*name));
    let class = annotated.map(String::as_str).or(proxy.ingress_class_name.as_deref()).unwrap_or_default();
    let served = &settings.proxies.ingress_classes;
    if served.is_empty() { class.is_empty() || class == CLASS } else { served.iter().any(|name| **name == *class) }
}
