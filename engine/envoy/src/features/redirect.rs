//! HTTP redirects.
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
    /// The new scheme, `http` or `https`; the request's scheme where unset.
    pub scheme: Option<Scheme>,
    /// The new host; the request's host where unset.
    pub host: Option<Arc<str>>,
    /// The new port; where unset, derived from the scheme, or else the listener's port.
    pub port: Option<u16>,
    /// The new path; the request's path where unset.
    pub path: Option<PathRewrite>,
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A URL scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// Returns the scheme as written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Returns the default port of the scheme, which URLs omit.
    pub fn well_known_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// The properties of a listener that the redirects of its routes depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerContext {
    /// Whether the listener terminates TLS.
    pub https: bool,
    /// The port as clients know it.
    pub port: u16,
}

impl Redirect {
    /// Returns the port to write into `Location`, where one must be written.
    ///
    /// An unset port is the default port of the scheme where that is set, else the listener's port. The default port of
    /// the scheme is omitted, unless Envoy would write the listener's own port instead.
    fn location_port(&self, listener: ListenerContext) -> Option<u16> {
        let listener_scheme = if listener.https { Scheme::Https } else { Scheme::Http };
        let scheme = self.scheme.unwrap_or(listener_scheme);
        let port = self.port.or(self.scheme.map(Scheme::well_known_port)).unwrap_or(listener.port);
        let envoy_keeps_port = self.host.is_none() && listener.port != listener_scheme.well_known_port();
        (port != scheme.well_known_port() || envoy_keeps_port).then_some(port)
    }

    /// Returns the Envoy configuration for a route that matches `path` on this listener.
    pub fn encode(&self, path: &PathMatch, listener: ListenerContext) -> RedirectAction {
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
