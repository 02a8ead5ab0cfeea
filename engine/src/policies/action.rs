//! What policies say about the way to the back end: filled in where nothing more specific has said it.

use std::sync::Arc;
use std::time::Duration;

use crate::features::internal_redirect::InternalRedirect;
use crate::features::mirror::Mirroring;
use crate::features::retry::Retry;
use crate::features::rewrite::PathRewrite;
use crate::features::tracing::Tracing;
use crate::model::{Action, Route};

/// What is said; unset where nothing is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActionSettings {
    /// For the whole request.
    pub(crate) request_timeout: Option<Duration>,
    /// For a stream on which nothing happens.
    pub(crate) idle_timeout: Option<Duration>,
    /// When requests are tried again.
    pub(crate) retry: Option<Retry>,
    /// Redirects of back ends that are followed.
    pub(crate) internal_redirect: Option<InternalRedirect>,
    /// How copies are sent.
    pub(crate) mirroring: Option<Mirroring>,
    /// The path that back ends see.
    pub(crate) path: Option<PathRewrite>,
    /// Back ends see their own name as the host.
    pub(crate) auto_host: bool,
    /// What the names of statistics begin with.
    pub(crate) stat_prefix: Option<Arc<str>>,
    /// What is recorded.
    pub(crate) tracing: Option<Tracing>,
}

impl ActionSettings {
    /// Is nothing said?
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fills in what the route does not say itself.
    pub(crate) fn apply(&self, route: &mut Route) {
        if route.stat_prefix.is_none() {
            route.stat_prefix.clone_from(&self.stat_prefix);
        }
        if route.tracing.is_none() {
            route.tracing.clone_from(&self.tracing);
        }
        let Action::Forward(forward) = &mut route.action else { return };
        let timeouts = &mut forward.timeouts;
        timeouts.request = timeouts.request.or(self.request_timeout);
        timeouts.idle = timeouts.idle.or(self.idle_timeout);
        // What the route says of one try is a retry policy to Envoy, and stays.
        if forward.retry.is_none()
            && let Some(retry) = &self.retry
        {
            let per_try = timeouts.backend_request.filter(|limit| !limit.is_zero()).or(retry.per_try);
            forward.retry = Some(Retry { per_try, ..retry.clone() });
        }
        if forward.internal_redirect.is_none() {
            forward.internal_redirect.clone_from(&self.internal_redirect);
        }
        if forward.rewrite.path.is_none() {
            forward.rewrite.path.clone_from(&self.path);
        }
        forward.rewrite.auto_host |= self.auto_host && forward.rewrite.host.is_none();
        if let Some(mirroring) = &self.mirroring {
            for mirror in forward.mirrors.iter_mut().filter(|mirror| mirror.sent.is_none()) {
                mirror.sent = Some(mirroring.clone());
            }
        }
    }
}
