//! Policy settings for the forwarding of requests: defaults where nothing more specific is configured.

use std::sync::Arc;
use std::time::Duration;

use crate::features::internal_redirect::InternalRedirect;
use crate::features::mirror::Mirroring;
use crate::features::retry::Retry;
use crate::features::rewrite::PathRewrite;
use crate::features::tracing::Tracing;
use crate::model::{Action, Route};

/// Settings; unset where no policy configures them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActionSettings {
    /// Timeout of the whole request.
    pub(crate) request_timeout: Option<Duration>,
    /// Idle timeout of a stream.
    pub(crate) idle_timeout: Option<Duration>,
    /// Retry policy.
    pub(crate) retry: Option<Retry>,
    /// Internal redirects: redirects of backends that Envoy follows.
    pub(crate) internal_redirect: Option<InternalRedirect>,
    /// Settings of mirrored requests.
    pub(crate) mirroring: Option<Mirroring>,
    /// Path rewrite.
    pub(crate) path: Option<PathRewrite>,
    /// Host rewrite to the name of the backend.
    pub(crate) auto_host: bool,
    /// Prefix of statistics.
    pub(crate) stat_prefix: Option<Arc<str>>,
    /// Tracing.
    pub(crate) tracing: Option<Tracing>,
}

impl ActionSettings {
    /// Checks whether no setting is configured.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the settings that the route does not configure itself.
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
        // The route's timeout of one try is a retry policy in Envoy, and stays.
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
