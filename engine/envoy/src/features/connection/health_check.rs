//! Health check endpoint of Envoy: one path that Envoy answers itself.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::health_check::v3::HealthCheck as Envoy;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::google::protobuf::BoolValue;

/// Name of the health check filter.
pub const FILTER: &str = "envoy.filters.http.health_check";
/// Maximum length of the path in bytes, as in the CRD.
pub const PATH_BYTES_MAX: usize = 2048;

/// The health check endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheckEndpoint {
    /// The exact path.
    pub path: Arc<str>,
}

impl HealthCheckEndpoint {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> Envoy {
        let exact = MatchPattern::Exact(self.path.to_string());
        Envoy {
            pass_through_mode: Some(BoolValue { value: false }),
            headers: vec![HeaderMatcher {
                name: ":path".into(),
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
                    match_pattern: Some(exact),
                    ..Default::default()
                })),
                ..Default::default()
            }],
            ..Default::default()
        }
    }
}
