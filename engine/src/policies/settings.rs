//! Settings of a policy, field by field.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::features::acl::Acl;
use crate::features::connection::Part;
use crate::features::ext_auth::ExtAuth;
use crate::features::ext_proc::ExtProc;
use crate::features::filters::{Filter, Setting};
use crate::features::internal_redirect::InternalRedirect;
use crate::features::jwt::Jwt;
use crate::features::mirror::Mirroring;
use crate::features::oauth2::OAuth2;
use crate::features::rate_limit::GlobalLimit;
use crate::features::retry::Retry;
use crate::features::rewrite::PathRewrite;
use crate::features::tracing::Tracing;

/// A field that is merged as a whole, by its path below `spec`.
pub(crate) type Field = &'static str;

/// Field of access lists, the only field that is joined.
pub(crate) const ACL: Field = "acl";
/// Field of external processing.
pub(crate) const EXT_PROC: Field = "extProc";
/// Field of OAuth2 logins.
pub(crate) const OAUTH2: Field = "oauth2";

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Settings of filters.
    Filters(Vec<(Filter, Arc<Setting>)>),
    /// An access list.
    Acl(Acl),
    /// Timeouts: of the request, and of an idle stream.
    Timeouts(Option<Duration>, Option<Duration>),
    /// Retry policy.
    Retry(Retry),
    /// Internal redirects: redirects of backends that Envoy follows.
    InternalRedirect(InternalRedirect),
    /// Settings of mirrored requests.
    Mirroring(Mirroring),
    /// Path rewrite.
    Path(PathRewrite),
    /// Host rewrite to the name of the backend.
    AutoHost(bool),
    /// Prefix of statistics.
    StatPrefix(Arc<str>),
    /// Tracing.
    Tracing(Tracing),
    /// External authorization; disabled if unset.
    ExtAuth(Option<ExtAuth>),
    /// JWT authentication; disabled if unset.
    Jwt(Option<Jwt>),
    /// Global rate limit, shared by all Envoys.
    GlobalLimit(GlobalLimit),
    /// External processing; disabled if unset.
    ExtProc(Option<ExtProc>),
    /// OAuth2 login.
    OAuth2(Arc<OAuth2>),
    /// Setting of the listener.
    Connection(Part),
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
    pub(crate) fn protects(&self) -> bool {
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

    /// Checks whether the value restricts access or request rates.
    pub(crate) fn guards(&self) -> bool {
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
pub(crate) type Settings = BTreeMap<Field, Piece>;
