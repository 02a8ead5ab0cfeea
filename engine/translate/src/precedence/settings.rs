//! Settings of a policy, field by field.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_envoy::features::acl::AccessList;
use holdfast_envoy::features::connection::ListenerSetting;
use holdfast_envoy::features::ext_auth::RouteExtAuth;
use holdfast_envoy::features::ext_proc::RouteExtProc;
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::features::internal_redirect::FollowedRedirects;
use holdfast_envoy::features::jwt::RouteJwt;
use holdfast_envoy::features::mirror::Mirroring;
use holdfast_envoy::features::oauth2::RouteOAuth2;
use holdfast_envoy::features::rate_limit::GlobalLimit;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::rewrite::PathRewrite;
use holdfast_envoy::features::tracing::TracingSettings;

/// A field that is merged as a whole, by its path below `spec`.
pub type Field = &'static str;

/// Field of access lists, the only field that is joined.
pub(crate) const ACL: Field = "acl";
/// The field of CORS settings.
pub(crate) const CORS: Field = "cors";
/// Field of external processing.
pub(crate) const EXT_PROC: Field = "extProc";
/// Field of OAuth2 logins.
pub(crate) const OAUTH2: Field = "oauth2";

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Settings of filters.
    Filters(Vec<(Filter, Arc<Setting>)>),
    /// An access list.
    Acl(AccessList),
    /// Timeouts: of the request, and of an idle stream.
    Timeouts(Option<Duration>, Option<Duration>),
    /// Retry policy.
    Retry(RouteRetryPolicy),
    /// Internal redirects: redirects of backends that Envoy follows.
    InternalRedirect(FollowedRedirects),
    /// Settings of mirrored requests.
    Mirroring(Mirroring),
    /// Path rewrite.
    Path(PathRewrite),
    /// Host rewrite to the name of the backend.
    AutoHost(bool),
    /// Prefix of statistics.
    StatPrefix(Arc<str>),
    /// Tracing.
    Tracing(TracingSettings),
    /// External authorization; disabled if unset.
    ExtAuth(Option<RouteExtAuth>),
    /// JWT authentication; disabled if unset.
    Jwt(Option<RouteJwt>),
    /// Global rate limit, shared by all Envoys.
    GlobalLimit(GlobalLimit),
    /// External processing; disabled if unset.
    ExtProc(Option<RouteExtProc>),
    /// OAuth2 login.
    OAuth2(Arc<RouteOAuth2>),
    /// Setting of the listener.
    Connection(ListenerSetting),
}

impl Piece {
    /// Checks whether the value only observes requests. Access logs, tracing and prefixes of statistics protect no
    /// request: if they are invalid, they are left out and reported, and nothing is closed.
    pub(crate) fn only_observes(&self) -> bool {
        match self {
            Piece::StatPrefix(_) | Piece::Tracing(_) => true,
            Piece::Connection(part) => part.only_observes(),
            Piece::Filters(_)
            | Piece::Acl(_)
            | Piece::Timeouts(..)
            | Piece::Retry(_)
            | Piece::InternalRedirect(_)
            | Piece::Mirroring(_)
            | Piece::Path(_)
            | Piece::AutoHost(_)
            | Piece::ExtAuth(_)
            | Piece::Jwt(_)
            | Piece::GlobalLimit(_)
            | Piece::ExtProc(_)
            | Piece::OAuth2(_) => false,
        }
    }

    /// Checks whether the value protects requests or backends. Other values may be left out if their new form cannot
    /// be served.
    pub fn protects(&self) -> bool {
        match self {
            Piece::Filters(filters) => filters.iter().any(|(filter, setting)| filter.protects(setting)),
            Piece::Connection(part) => part.protects(),
            Piece::Acl(_)
            | Piece::ExtAuth(_)
            | Piece::Jwt(_)
            | Piece::GlobalLimit(_)
            | Piece::ExtProc(_)
            | Piece::OAuth2(_) => true,
            Piece::Timeouts(..)
            | Piece::Retry(_)
            | Piece::InternalRedirect(_)
            | Piece::Mirroring(_)
            | Piece::Path(_)
            | Piece::AutoHost(_)
            | Piece::StatPrefix(_)
            | Piece::Tracing(_) => false,
        }
    }

    /// Checks whether the value turns a protection off that a less specific policy may have.
    pub fn disables(&self) -> bool {
        match self {
            Piece::Filters(filters) => filters.iter().all(|(_, setting)| **setting == Setting::Off),
            Piece::ExtAuth(auth) => auth.is_none(),
            Piece::Jwt(jwt) => jwt.is_none(),
            Piece::ExtProc(shown) => shown.is_none(),
            Piece::Acl(_)
            | Piece::GlobalLimit(_)
            | Piece::OAuth2(_)
            | Piece::Connection(_)
            | Piece::Timeouts(..)
            | Piece::Retry(_)
            | Piece::InternalRedirect(_)
            | Piece::Mirroring(_)
            | Piece::Path(_)
            | Piece::AutoHost(_)
            | Piece::StatPrefix(_)
            | Piece::Tracing(_) => false,
        }
    }

    /// Checks whether the value restricts access or request rates.
    pub fn guards(&self) -> bool {
        match self {
            Piece::Filters(filters) => filters.iter().any(|(filter, _)| filter.guards()),
            Piece::Acl(_)
            | Piece::ExtAuth(_)
            | Piece::Jwt(_)
            | Piece::GlobalLimit(_)
            | Piece::ExtProc(_)
            | Piece::OAuth2(_)
            | Piece::Connection(_) => true,
            Piece::Timeouts(..)
            | Piece::Retry(_)
            | Piece::InternalRedirect(_)
            | Piece::Mirroring(_)
            | Piece::Path(_)
            | Piece::AutoHost(_)
            | Piece::StatPrefix(_)
            | Piece::Tracing(_) => false,
        }
    }
}

/// Settings of a policy; each field at most once.
pub type Settings = BTreeMap<Field, Piece>;
