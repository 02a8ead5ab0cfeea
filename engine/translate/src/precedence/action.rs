//! Policy settings for the forwarding of requests: defaults where nothing more specific is configured.

use std::sync::Arc;
use std::time::Duration;

use holdfast_envoy::features::internal_redirect::FollowedRedirects;
use holdfast_envoy::features::mirror::Mirroring;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::rewrite::PathRewrite;
use holdfast_envoy::features::tracing::TracingSettings;
use holdfast_envoy::model::{Action, Route};

/// Settings; unset where no policy configures them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActionSettings {
    /// Timeout of the whole request.
    pub(crate) request_timeout: Option<Duration>,
    /// Idle timeout of a stream.
    pub idle_timeout: Option<Duration>,
    /// Retry policy.
    pub retry: Option<RouteRetryPolicy>,
    /// Internal redirects: redirects of backends that Envoy follows.
    pub internal_redirect: Option<FollowedRedirects>,
    /// Settings of mirrored requests.
    pub(crate) mirroring: Option<Mirroring>,
    /// Path rewrite.
    pub path: Option<PathRewrite>,
    /// Host rewrite to the name of the backend.
    pub auto_host: bool,
    /// Prefix of statistics.
    pub stat_prefix: Option<Arc<str>>,
    /// Tracing.
    pub tracing: Option<TracingSettings>,
}

impl ActionSettings {
    /// Checks whether no setting is configured.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the settings that the route does not configure itself.
    pub fn apply(&self, route: &mut Route) {
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
            forward.retry = Some(RouteRetryPolicy { per_try, ..retry.clone() });
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
