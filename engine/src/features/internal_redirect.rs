//! Redirects of back ends that are followed instead of being given to clients.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::route::v3::InternalRedirectPolicy;
use envoy_types::pb::envoy::extensions::internal_redirect::previous_routes::v3::PreviousRoutesConfig;
use envoy_types::pb::envoy::extensions::internal_redirect::safe_cross_scheme::v3::SafeCrossSchemeConfig;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::any;

/// Which redirects are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InternalRedirect {
    /// How many, one after the other; one where unset.
    pub max: Option<u32>,
    /// Of which statuses; 302 where empty.
    pub statuses: Vec<u32>,
    /// May they lead from one scheme to the other?
    pub cross_scheme: CrossScheme,
    /// Headers of the redirect that go into the next request.
    pub copied: Vec<Arc<str>>,
    /// May a route not be taken twice?
    pub deny_repeated: bool,
}

/// May redirects lead from one scheme to the other?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossScheme {
    /// No.
    #[default]
    Never,
    /// Yes.
    Always,
    /// Only to where it is as safe.
    Safe,
}

impl InternalRedirect {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> InternalRedirectPolicy {
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
