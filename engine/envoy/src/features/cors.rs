//! Cross-origin resource sharing (CORS).
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httpcorsfilter>

use envoy_types::pb::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use envoy_types::pb::google::protobuf::BoolValue;

use super::Flaw;

/// Default time (seconds) that a browser may cache a preflight response.
pub const MAX_AGE_DEFAULT: u32 = 5;
/// Maximum number of entries in one list; equal to the limit in the CRD.
pub const ENTRIES_MAX: usize = 64;
/// Minimum time (seconds) that a browser may cache a preflight response.
pub const MAX_AGE_MIN: i64 = 1;

/// A CORS policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsSettings {
    /// Origins, as `*`, `https://example.com` or `https://*.example.com`.
    pub origins: Vec<String>,
    /// Origins as regular expressions (RE2, matching the whole origin).
    pub patterns: Vec<String>,
    /// Methods; `*` for all.
    pub methods: Vec<String>,
    /// Request headers; `*` for all.
    pub headers: Vec<String>,
    /// Response headers that scripts may read.
    pub expose: Vec<String>,
    /// Time (seconds) that a browser may cache a preflight response; the header is omitted where unset.
    pub max_age: Option<u32>,
    /// Whether requests may include credentials such as cookies.
    pub credentials: bool,
    /// Whether pages of the public network may send requests to a private network.
    pub private_network: bool,
}

impl CorsSettings {
    /// Validates the policy; every unusable entry is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let lists = [
            ("allowOrigins", &self.origins),
            ("allowMethods", &self.methods),
            ("allowHeaders", &self.headers),
            ("exposeHeaders", &self.expose),
        ];
        for (field, list) in lists {
            if list.len() > ENTRIES_MAX {
                flaws.push(Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries")));
            }
            for (index, entry) in list.iter().enumerate().take(ENTRIES_MAX) {
                let checked = match field {
                    "allowOrigins" => holdfast_check::host::origin(entry).map_err(|fault| fault.to_string()),
                    _ if entry == "*" => Ok(()),
                    "allowMethods" => holdfast_check::header::method(entry).map_err(|fault| fault.to_string()),
                    _ => holdfast_check::header::name(entry).map(drop).map_err(|fault| fault.to_string()),
                };
                if let Err(message) = checked {
                    flaws.push(Flaw::new(format!("{field}[{index}]"), message));
                }
            }
        }
        if self.credentials && self.expose.iter().any(|header| header == "*") {
            flaws.push(Flaw::new(
                "exposeHeaders",
                "\"*\" together with allowCredentials would be taken literally by browsers; list the headers",
            ));
        }
        flaws
    }

    /// Returns the Envoy configuration.
    pub fn encode(&self) -> CorsPolicy {
        // For "*" Envoy returns the method and headers that the browser requests, as Gateway API specifies.
        let list = |entries: &[String]| {
            if entries.iter().any(|entry| entry == "*") { "*".to_owned() } else { entries.join(", ") }
        };
        CorsPolicy {
            allow_origin_string_match: {
                let patterns = self.patterns.iter().map(|pattern| StringMatcher {
                    match_pattern: Some(MatchPattern::SafeRegex(regex(pattern.clone()))),
                    ..Default::default()
                });
                self.origins.iter().map(|origin| origin_matcher(origin)).chain(patterns).collect()
            },
            allow_methods: list(&self.methods),
            allow_headers: list(&self.headers),
            expose_headers: list(&self.expose),
            max_age: self.max_age.map(|age| age.to_string()).unwrap_or_default(),
            allow_credentials: Some(BoolValue { value: self.credentials }),
            allow_private_network_access: self.private_network.then_some(BoolValue { value: true }),
            forward_not_matching_preflights: Some(BoolValue { value: false }),
            ..Default::default()
        }
    }
}

fn origin_matcher(origin: &str) -> StringMatcher {
    let pattern = if origin == "*" {
        MatchPattern::SafeRegex(regex(".*".into()))
    } else if origin.contains('*') {
        // The wildcard matches one or more labels at the front of the host, never a slash or a port.
        let literal = origin.replace('.', "\\.").replace('*', "[^/:]+");
        MatchPattern::SafeRegex(regex(literal))
    } else {
        MatchPattern::Exact(origin.to_owned())
    };
    StringMatcher { match_pattern: Some(pattern), ..Default::default() }
}

fn regex(regex: String) -> RegexMatcher {
    RegexMatcher { regex, ..Default::default() }
}
