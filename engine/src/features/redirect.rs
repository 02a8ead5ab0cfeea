//! Redirects.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httprequestredirectfilter>

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::RedirectAction;
use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};

use super::rewrite::{EnvoyPathRewrite, PathRewrite};
use crate::model::PathMatch;

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// `http` or `https`; the request's where unset.
    pub scheme: Option<Scheme>,
    /// The request's where unset.
    pub host: Option<Arc<str>>,
    /// Derived from the scheme, else the listener's, where unset.
    pub port: Option<u16>,
    /// The request's where unset.
    pub path: Option<PathRewrite>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// As written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that need not be written.
    pub fn well_known_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// The listener that a route is served on, as far as its routes depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerContext {
    /// Is it TLS?
    pub https: bool,
    /// The port as clients know it.
    pub port: u16,
}

impl Redirect {
    /// The port to write into `Location`, where one must be written.
    ///
    /// An unset port follows a set scheme, else it is the listener's. The well-known port of the scheme is left out,
    /// unless the listener's own port would stand in its place.
    fn location_port(&self, listener: ListenerContext) -> Option<u16> {
        let listener_scheme = if listener.https { Scheme::Https } else { Scheme::Http };
        let scheme = self.scheme.unwrap_or(listener_scheme);
        let port = self.port.or(self.scheme.map(Scheme::well_known_port)).unwrap_or(listener.port);
        let standing = self.host.is_none() && listener.port != listener_scheme.well_known_port();
        (port != scheme.well_known_port() || standing).then_some(port)
    }

    /// Envoy's form for a route that matches `path` on this listener.
    pub(crate) fn encode(&self, path: &PathMatch, listener: ListenerContext) -> RedirectAction {
        let code = match self.status {
            301 => RedirectResponseCode::MovedPermanently,
            303 => RedirectResponseCode::SeeOther,
            307 => RedirectResponseCode::TemporaryRedirect,
            308 => RedirectResponseCode::PermanentRedirect,
            _ => RedirectResponseCode::Found,
        };
        let path = self.path.as_ref().map(|rewrite| match (rewrite, rewrite.encode(path)) {
            (PathRewrite::Full(full), _) => PathRewriteSpecifier::PathRedirect(full.to_string()),
            (_, EnvoyPathRewrite::Prefix(prefix)) => PathRewriteSpecifier::PrefixRewrite(prefix),
            (_, EnvoyPathRewrite::Regex(regex)) => PathRewriteSpecifier::RegexRewrite(regex),
        });
        RedirectAction {
            host_redirect: self.host.as_deref().unwrap_or_default().to_owned(),
            port_redirect: self.location_port(listener).map_or(0, u32::from),
            response_code: code.into(),
            scheme_rewrite_specifier: self
                .scheme
                .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.as_str().into())),
            path_rewrite_specifier: path,
            ..Default::default()
        }
    }
}
