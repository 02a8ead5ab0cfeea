//! What a policy says, field by field.

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

/// The field of access lists, which are the only ones that are joined.
pub(crate) const ACL: Field = "acl";
/// The field of services that see requests on their way.
pub(crate) const EXT_PROC: Field = "extProc";
/// The field of users who log in elsewhere.
pub(crate) const OAUTH2: Field = "oauth2";

/// What a field says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// To filters.
    Filters(Vec<(Filter, Arc<Setting>)>),
    /// An access list.
    Acl(Acl),
    /// Time limits: for the request, and for a stream on which nothing happens.
    Timeouts(Option<Duration>, Option<Duration>),
    /// When requests are tried again.
    Retry(Retry),
    /// Redirects of back ends that are followed.
    InternalRedirect(InternalRedirect),
    /// How copies are sent.
    Mirroring(Mirroring),
    /// The path that back ends see.
    Path(PathRewrite),
    /// Do back ends see their own name as the host?
    AutoHost(bool),
    /// What the names of statistics begin with.
    StatPrefix(Arc<str>),
    /// What is recorded.
    Tracing(Tracing),
    /// Who is asked; nobody where unset.
    ExtAuth(Option<ExtAuth>),
    /// Which token a request must have; none where unset.
    Jwt(Option<Jwt>),
    /// How often requests may come to all Envoys.
    GlobalLimit(GlobalLimit),
    /// Who sees requests on their way; nobody where unset.
    ExtProc(Option<ExtProc>),
    /// Where users log in.
    OAuth2(Arc<OAuth2>),
    /// To the listener.
    Connection(Part),
}

impl Piece {
    /// Does it only observe requests? Access logs, tracing and names of statistics protect no request: what of them cannot
    /// be used is left out and reported, and closes nothing.
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

    /// Does it protect requests or back ends? What does not may be left out where it cannot be served as it is new.
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

    /// Does it decide who may come in, or how much?
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

/// What a policy says; each field at most once.
pub(crate) type Settings = BTreeMap<Field, Piece>;
