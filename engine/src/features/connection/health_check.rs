//! Envoy itself answers for its health, at one path.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::health_check::v3::HealthCheck as Envoy;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::google::protobuf::BoolValue;

/// The filter.
pub(crate) const FILTER: &str = "envoy.filters.http.health_check";
/// Longest path, in bytes, as in the CRD.
pub const PATH_BYTES_MAX: usize = 2048;

/// The path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// All of it.
    pub path: Arc<str>,
}

impl HealthCheck {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> Envoy {
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
