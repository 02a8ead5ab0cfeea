//! Internal redirects: Envoy follows redirects of backends instead of returning them to clients.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::route::v3::InternalRedirectPolicy;
use envoy_types::pb::envoy::extensions::internal_redirect::previous_routes::v3::PreviousRoutesConfig;
use envoy_types::pb::envoy::extensions::internal_redirect::safe_cross_scheme::v3::SafeCrossSchemeConfig;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::any;

/// The redirects that Envoy follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedRedirects {
    /// Maximum number of consecutive redirects; one where unset.
    pub max: Option<u32>,
    /// Response statuses that count as redirects; 302 where empty.
    pub statuses: Vec<u32>,
    /// Whether redirects may change the scheme.
    pub cross_scheme: CrossScheme,
    /// Headers of the redirect response that are copied to the next request.
    pub copied: Vec<Arc<str>>,
    /// Whether a redirect to a route that was already used is refused.
    pub deny_repeated: bool,
}

/// Whether redirects may change the scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossScheme {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// Only if the new scheme is as secure as the old one.
    Safe,
}

impl FollowedRedirects {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> InternalRedirectPolicy {
        let safe = (self.cross_scheme == CrossScheme::Safe).then(|| TypedExtensionConfig {
            name: "envoy.internal_redirect_predicates.safe_cross_scheme".into(),
            typed_config: Some(any(&SafeCrossSchemeConfig {})),
        });
        let repeated = self.deny_repeated.then(|| TypedExtensionConfig {
            name: "envoy.internal_redirect_predicates.previous_routes".into(),
            typed_config: Some(any(&PreviousRoutesConfig {})),
        });
        InternalRedirectPolicy {
            max_internal_redirects: self.max.map(|value| UInt32Value { value }),
            redirect_response_codes: self.statuses.clone(),
            predicates: safe.into_iter().chain(repeated).collect(),
            response_headers_to_copy: self.copied.iter().map(ToString::to_string).collect(),
            allow_cross_scheme_redirect: self.cross_scheme != CrossScheme::Never,
        }
    }
}
