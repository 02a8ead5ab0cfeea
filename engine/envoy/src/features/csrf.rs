//! CSRF protection: model, Envoy form.

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::extensions::filters::http::csrf::v3::CsrfPolicy;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};

use super::percent::{Percent, runtime};
use crate::encode::route;
use crate::model::ValueMatch;

/// Maximum number of origins in one policy; equal to the limit in the CRD.
pub const ORIGINS_MAX: usize = 16;

/// A CSRF policy: the checked share of requests, and the trusted origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsrfSettings {
    /// The share of requests that are checked.
    pub enabled: Percent,
    /// The share of requests that are checked without being rejected.
    pub shadowed: Percent,
    /// Origins that are allowed beside the request's own.
    pub origins: Vec<ValueMatch>,
}

impl CsrfSettings {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> CsrfPolicy {
        let set = |percent: Percent| -> Option<RuntimeFractionalPercent> { Some(runtime(percent)) };
        CsrfPolicy {
            filter_enabled: set(self.enabled),
            shadow_enabled: (self.shadowed != Percent::default()).then(|| runtime(self.shadowed)),
            additional_origins: self.origins.iter().map(matcher).collect(),
        }
    }

    /// Returns the configuration of the filter in the chain, which checks no request.
    pub(crate) fn in_chain() -> CsrfPolicy {
        Self::default().encode()
    }
}

fn matcher(origin: &ValueMatch) -> StringMatcher {
    let of = |pattern| StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    match origin {
        ValueMatch::Exact(text) => of(MatchPattern::Exact(text.to_string())),
        ValueMatch::Regex(pattern) => {
            of(MatchPattern::SafeRegex(RegexMatcher { regex: pattern.to_string(), ..Default::default() }))
        }
        ValueMatch::Present => of(MatchPattern::Prefix(String::new())),
        ValueMatch::Like(like) => route::like(like),
    }
}
