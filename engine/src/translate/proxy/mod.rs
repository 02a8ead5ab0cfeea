//! HTTPProxies: from a root and all that it includes to the routes of its host.
//!
//! What the proxies mean is worked out in `proxies/`, without looking at anything else. Here the rest is read: Services,
//! Secrets, delegations. The unit is the root with its tree, since whether a route is a duplicate depends on all others;
//! the unit of blame and replacement is the single route.

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

/// The unit that stands for a host as a whole.
pub(crate) const HOST: &str = "virtualhost";

/// The annotations that say whose a proxy is, the first that is there counts.
const CLASS_ANNOTATIONS: [&str; 2] = ["projectcontour.io/ingress.class", "kubernetes.io/ingress.class"];
/// The class where none is set.
const CLASS: &str = "contour";

/// Is this the identity of an HTTPProxy?
pub(crate) fn is_proxy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && &*key.kind == "HTTPProxy"
}

/// Is a proxy of a class that is served?
pub(crate) fn is_ours(object: &Object, proxy: &HttpProxy, settings: &Settings) -> bool {
    let annotated = CLASS_ANNOTATIONS.iter().find_map(|name| object.metadata.annotations.get(*name));
    let class = annotated.map(String::as_str).or(proxy.ingress_class_name.as_deref()).unwrap_or_default();
    let served = &settings.proxies.ingress_classes;
    if served.is_empty() { class.is_empty() || class == CLASS } else { served.iter().any(|name| **name == *class) }
}
