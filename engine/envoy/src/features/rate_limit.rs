//! Global rate limits, counted by a rate limit service for all Envoys together.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/rate_limit_filter>

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::ApiVersion;
use envoy_types::pb::envoy::config::ratelimit::v3::RateLimitServiceConfig;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::envoy::config::route::v3::rate_limit::action::{
    ActionSpecifier, GenericKey, HeaderValueMatch, RemoteAddress, RequestHeaders,
};
use envoy_types::pb::envoy::extensions::filters::http::ratelimit::v3::rate_limit::XRateLimitHeadersRfcVersion;
use envoy_types::pb::envoy::extensions::filters::http::ratelimit::v3::{RateLimit, RateLimitPerRoute};
use envoy_types::pb::google::protobuf::BoolValue;
use holdfast_graph::ObjectKey;

use super::Flaw;
use super::call_options::CallOptions;
use super::remote::Remote;
use crate::encode;
use crate::model::NamedMatch;

/// Maximum number of descriptors of one route, of entries in one descriptor, and of headers in one entry.
pub const ENTRIES_MAX: usize = 64;
/// Maximum length of a key or value of an entry, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// A rate limit service, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateLimitService {
    /// The filter's name.
    pub name: Arc<str>,
    /// The objects that configure the service.
    pub owners: Vec<ObjectKey>,
    /// The service that Envoy calls.
    pub remote: Remote,
    /// Authority and retries.
    pub call_options: CallOptions,
    /// The domain of the limits, which separates the users of a shared service.
    pub domain: Arc<str>,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Whether requests pass when the service does not answer.
    pub fail_open: bool,
    /// Whether responses include the remaining quota (`X-RateLimit-*`).
    pub quota_headers: bool,
    /// Whether gRPC calls over the limit get `RESOURCE_EXHAUSTED` instead of `UNAVAILABLE`.
    pub resource_exhausted: bool,
}

/// Per-route settings: the descriptors that requests of a route are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalLimit {
    /// The rate limit service.
    pub service: Arc<RateLimitService>,
    /// The descriptors; never empty.
    pub descriptors: Vec<CounterDescriptor>,
}

/// A descriptor: its entries together identify one counter.
pub type CounterDescriptor = Vec<CounterEntry>;

/// An entry of a descriptor. Where Envoy cannot determine an entry for a request, the descriptor does not count the
/// request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterEntry {
    /// A fixed text.
    Generic {
        /// The key; `generic_key` where unset.
        key: Option<Arc<str>>,
        /// The value.
        value: Arc<str>,
    },
    /// The value of a header.
    Header {
        /// The name of the header.
        name: Arc<str>,
        /// The key.
        key: Arc<str>,
    },
    /// A fixed text for requests with matching headers.
    HeaderMatch {
        /// The headers, at least one.
        headers: Vec<NamedMatch>,
        /// Whether the entry is for requests that match; otherwise for all others.
        expect: bool,
        /// The value.
        value: Arc<str>,
    },
    /// The client's address.
    RemoteAddress,
    /// The path with its query.
    Path,
}

impl RateLimitService {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> RateLimit {
        let headers = if self.quota_headers {
            XRateLimitHeadersRfcVersion::DraftVersion03
        } else {
            XRateLimitHeadersRfcVersion::Off
        };
        RateLimit {
            domain: self.domain.to_string(),
            timeout: Some(encode::duration(self.timeout)),
            failure_mode_deny: !self.fail_open,
            rate_limited_as_resource_exhausted: self.resource_exhausted,
            enable_x_ratelimit_headers: headers.into(),
            rate_limit_service: Some(RateLimitServiceConfig {
                grpc_service: Some(self.call_options.grpc(&self.remote, Some(self.timeout))),
                transport_api_version: ApiVersion::V3.into(),
            }),
            ..Default::default()
        }
    }
}

impl GlobalLimit {
    /// Validates the descriptors; every unusable one is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if self.descriptors.len() > ENTRIES_MAX {
            flaws.push(Flaw::new("descriptors", format!("must have at most {ENTRIES_MAX} entries")));
        }
        for (index, descriptor) in self.descriptors.iter().enumerate().take(ENTRIES_MAX) {
            let field = format!("descriptors[{index}].entries");
            if descriptor.is_empty() || descriptor.len() > ENTRIES_MAX {
                flaws.push(Flaw::new(&field, format!("must have at least 1 and at most {ENTRIES_MAX} entries")));
            }
            for (place, entry) in descriptor.iter().enumerate().take(ENTRIES_MAX) {
                if let Err(message) = entry.check() {
                    flaws.push(Flaw::new(format!("{field}[{place}]"), message));
                }
            }
        }
        flaws
    }

    /// Returns the per-route configuration.
    pub fn encode(&self) -> RateLimitPerRoute {
        let limit = |descriptor: &CounterDescriptor| {
            let action = |entry: &CounterEntry| envoy::rate_limit::Action { action_specifier: Some(entry.encode()) };
            envoy::RateLimit { actions: descriptor.iter().map(action).collect(), ..Default::default() }
        };
        RateLimitPerRoute { rate_limits: self.descriptors.iter().map(limit).collect(), ..Default::default() }
    }
}

impl CounterEntry {
    fn check(&self) -> Result<(), String> {
        let text = |text: &str| match text.len() {
            1..=TEXT_BYTES_MAX => Ok(()),
            _ => Err(format!("keys and values have 1 to {TEXT_BYTES_MAX} bytes")),
        };
        match self {
            CounterEntry::Generic { key, value } => key.iter().chain([value]).try_for_each(|one| text(one)),
            CounterEntry::Header { name, key } => {
                holdfast_check::header::name(name).map_err(|fault| fault.to_string())?;
                text(key)
            }
            CounterEntry::HeaderMatch { headers, value, .. } => {
                if headers.is_empty() || headers.len() > ENTRIES_MAX {
                    return Err(format!("there must be at least 1 and at most {ENTRIES_MAX} headers"));
                }
                text(value)
            }
            CounterEntry::RemoteAddress | CounterEntry::Path => Ok(()),
        }
    }

    fn encode(&self) -> ActionSpecifier {
        match self {
            CounterEntry::Generic { key, value } => ActionSpecifier::GenericKey(GenericKey {
                descriptor_key: key.iter().map(ToString::to_string).collect(),
                descriptor_value: value.to_string(),
                ..Default::default()
            }),
            CounterEntry::Path => ActionSpecifier::RequestHeaders(RequestHeaders {
                header_name: ":path".to_owned(),
                descriptor_key: "path".to_owned(),
                ..Default::default()
            }),
            CounterEntry::Header { name, key } => ActionSpecifier::RequestHeaders(RequestHeaders {
                header_name: name.to_string(),
                descriptor_key: key.to_string(),
                ..Default::default()
            }),
            CounterEntry::HeaderMatch { headers, expect, value } => {
                ActionSpecifier::HeaderValueMatch(HeaderValueMatch {
                    descriptor_value: value.to_string(),
                    expect_match: Some(BoolValue { value: *expect }),
                    headers: headers.iter().map(encode::route::header).collect(),
                    ..Default::default()
                })
            }
            CounterEntry::RemoteAddress => ActionSpecifier::RemoteAddress(RemoteAddress {}),
        }
    }
}
