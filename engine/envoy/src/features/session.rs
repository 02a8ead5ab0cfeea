//! Session persistence: a cookie or header that carries the address of the endpoint that answered first. Envoy selects
//! this endpoint for later requests, as long as it is an endpoint of the cluster of the request.
//!
//! The session only overrides load balancing within a cluster. It must not select the cluster, nor keep a request from
//! an endpoint that exists: if the endpoint is gone, Envoy selects another one and renews the session.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::stateful_session_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute,
};
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use envoy_types::pb::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use envoy_types::pb::envoy::r#type::http::v3::{Cookie, CookieAttribute};

use crate::encode::{any, seconds};
use crate::model::PathMatch;

/// Name of the filter in the filter chain, and key of its per-route settings.
pub const FILTER: &str = "envoy.filters.http.stateful_session";
/// Characters of a regular expression that are not a literal part of a path.
const OPERATORS: [char; 13] = ['.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '^', '$', '\\'];

/// Session persistence of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentSession {
    /// The name of the cookie or header.
    pub name: Arc<str>,
    /// Where the session is in a request.
    pub carrier: SessionCarrier,
}

/// Where the session is in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCarrier {
    /// In a cookie.
    Cookie {
        /// The seconds after which the session ends; it lasts until the client ends where unset.
        seconds: Option<u32>,
    },
    /// In a header.
    Header,
}

impl PersistentSession {
    /// Returns the settings of a route with the given path match; `https`: whether its listener terminates TLS.
    pub fn encode(&self, path: &PathMatch, https: bool) -> StatefulSessionPerRoute {
        let name = self.name.to_string();
        let (extension, state) = match self.carrier {
            SessionCarrier::Header => ("envoy.http.stateful_session.header", any(&HeaderBasedSessionState { name })),
            SessionCarrier::Cookie { seconds: lifetime } => {
                let cookie = Cookie {
                    name,
                    ttl: lifetime.map(|lifetime| seconds(lifetime.into())),
                    path: cookie_path(path).to_owned(),
                    attributes: attributes(https),
                };
                ("envoy.http.stateful_session.cookie", any(&CookieBasedSessionState { cookie: Some(cookie) }))
            }
        };
        let session_state = Some(TypedExtensionConfig { name: extension.into(), typed_config: Some(state) });
        let session = StatefulSession { session_state, ..Default::default() };
        StatefulSessionPerRoute { r#override: Some(Override::StatefulSession(session)) }
    }

    /// Returns the configuration of the filter in the chain, which has no session.
    pub(crate) fn in_chain() -> StatefulSession {
        StatefulSession::default()
    }
}

/// Returns the attributes of the cookie beside those that Envoy sets itself: the strictest that work at the listener.
fn attributes(https: bool) -> Vec<CookieAttribute> {
    let secure = https.then(|| CookieAttribute { name: "Secure".into(), value: String::new() });
    let same_site = CookieAttribute { name: "SameSite".into(), value: "Strict".into() };
    secure.into_iter().chain([same_site]).collect()
}

/// Returns the path of the cookie: that of the match, or of a regular expression the whole segments before its first
/// operator. Envoy has no session for requests with other paths.
fn cookie_path(path: &PathMatch) -> &str {
    let literal = match path {
        PathMatch::Exact(path) => path,
        PathMatch::Prefix(path) => path.trim_end_matches('/'),
        // A text may end within a segment.
        PathMatch::Text(text) => text.rsplit_once('/').map_or("", |(segments, _)| segments),
        PathMatch::Regex(pattern) => before_operators(pattern),
    };
    // Other characters would end or change the attribute.
    let is_plain = literal.chars().all(|character| character.is_ascii_graphic() && !";,\"".contains(character));
    if literal.is_empty() || !is_plain { "/" } else { literal }
}

fn before_operators(pattern: &str) -> &str {
    // Alternatives have no common path.
    let literal = if pattern.contains('|') { "" } else { pattern };
    let literal = literal.find(OPERATORS).and_then(|end| literal.get(..end)).map_or(literal, |before| {
        // The last segment goes on, or its last character is optional.
        before.rsplit_once('/').map_or("", |(segments, _)| segments)
    });
    literal.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_cookie_covers_all_paths_of_the_match() {
        let is = |path: PathMatch, expected| assert_eq!(cookie_path(&path), expected, "{path:?}");
        for (prefix, expected) in [("/", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a/b"), ("/a;Domain=b", "/")] {
            is(PathMatch::Prefix(prefix.into()), expected);
        }
        for (exact, expected) in [("/", "/"), ("/a", "/a"), ("/a/", "/a/"), ("/a,b", "/"), ("/\u{e4}", "/")] {
            is(PathMatch::Exact(exact.into()), expected);
        }
        is(PathMatch::Text("/a/bc".into()), "/a");
        is(PathMatch::Text("/a".into()), "/");
        for (pattern, expected) in [
            ("/p1/p2/.*/p3", "/p1/p2"),
            ("/a/b+", "/a"),
            ("/a/?", "/a"),
            ("/a/b", "/a/b"),
            ("/a/b|/c", "/"),
            ("(?i)/a/b", "/"),
            ("^/a/b", "/"),
            ("/a\\.b/c", "/"),
            ("/a/[^/]+", "/a"),
            (".*", "/"),
            ("", "/"),
        ] {
            is(PathMatch::Regex(pattern.into()), expected);
        }
    }

    #[test]
    fn a_session_never_fails_a_request_if_the_endpoint_is_gone() {
        for carrier in [SessionCarrier::Header, SessionCarrier::Cookie { seconds: Some(60) }] {
            let session = PersistentSession { name: "s".into(), carrier };
            let written = session.encode(&PathMatch::Prefix("/".into()), true).r#override;
            assert!(matches!(written, Some(Override::StatefulSession(session)) if !session.strict));
        }
    }

    #[test]
    fn a_cookie_is_secure_where_the_listener_terminates_tls() {
        let names = |https| attributes(https).into_iter().map(|attribute| attribute.name).collect::<Vec<_>>();
        assert_eq!(names(true), ["Secure", "SameSite"]);
        assert_eq!(names(false), ["SameSite"]);
    }
}
