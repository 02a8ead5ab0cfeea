//! Filters of access logs and of local replies.

use std::sync::Arc;

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::comparison_filter::Op as EnvoyOp;
use envoy_types::pb::envoy::config::accesslog::v3::extension_filter::ConfigType;
use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLogFilter, AndFilter, ComparisonFilter, DurationFilter, ExtensionFilter, GrpcStatusFilter, HeaderFilter,
    NotHealthCheckFilter, OrFilter, ResponseFlagFilter, RuntimeFilter, StatusCodeFilter, TraceableFilter,
};
use envoy_types::pb::envoy::config::core::v3::RuntimeUInt32;
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

use crate::encode::any;

/// Maximum number of filters in a list, and of entries in other lists of a filter.
pub const ENTRIES_MAX: usize = 32;
/// Maximum length of a text in a filter, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// The gRPC statuses by name, in the order of their numbers.
pub const GRPC_STATUSES: [&str; 17] = [
    "OK",
    "CANCELED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A filter of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFilter {
    /// Requests that match all of these filters.
    And(Vec<LogFilter>),
    /// Requests that match one of these filters.
    Or(Vec<LogFilter>),
    /// Requests for which a CEL condition is true.
    Cel(Arc<str>),
    /// Requests by duration in milliseconds.
    Duration(Op, u32),
    /// Requests by HTTP status.
    Status(Op, u32),
    /// Requests by gRPC status: these statuses, or where true all others.
    GrpcStatus(Vec<i32>, bool),
    /// Requests with a header of this value.
    Header(Arc<str>, Arc<str>),
    /// Requests with a header value that matches this regular expression.
    HeaderRegex(Arc<str>, Arc<str>),
    /// Requests that are not health checks.
    NotHealthCheck,
    /// Requests that are traced.
    Traceable,
    /// Requests by response flags.
    Flags(Vec<Arc<str>>),
    /// A share of requests.
    Sampled(Sampled),
}

/// A comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Equal.
    Equal,
    /// Greater than or equal.
    AtLeast,
    /// Less than or equal.
    AtMost,
}

/// A sampled share of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The key in Envoy's runtime that overrides the share.
    pub key: Arc<str>,
    /// The numerator and denominator of the share.
    pub share: Option<(u32, Denominator)>,
    /// Whether each log decides independently.
    pub independent: bool,
}

/// The denominator of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denominator {
    /// 100.
    Hundred,
    /// 10,000.
    TenThousand,
    /// 1,000,000.
    Million,
}

impl LogFilter {
    /// Returns the Envoy configuration.
    pub(super) fn encode(&self) -> AccessLogFilter {
        let all = |filters: &[LogFilter]| filters.iter().map(LogFilter::encode).collect();
        let specifier = match self {
            LogFilter::And(filters) => FilterSpecifier::AndFilter(AndFilter { filters: all(filters) }),
            LogFilter::Or(filters) => FilterSpecifier::OrFilter(OrFilter { filters: all(filters) }),
            LogFilter::Cel(condition) => {
                let config = ExpressionFilter { expression: condition.to_string(), ..Default::default() };
                FilterSpecifier::ExtensionFilter(ExtensionFilter {
                    name: "envoy.access_loggers.extension_filters.cel".into(),
                    config_type: Some(ConfigType::TypedConfig(any(&config))),
                })
            }
            LogFilter::Duration(op, value) => {
                FilterSpecifier::DurationFilter(DurationFilter { comparison: Some(op.comparison(*value)) })
            }
            LogFilter::Status(op, value) => {
                FilterSpecifier::StatusCodeFilter(StatusCodeFilter { comparison: Some(op.comparison(*value)) })
            }
            LogFilter::GrpcStatus(statuses, exclude) => {
                FilterSpecifier::GrpcStatusFilter(GrpcStatusFilter { statuses: statuses.clone(), exclude: *exclude })
            }
            LogFilter::Header(name, value) => header(name, MatchPattern::Exact(value.to_string())),
            LogFilter::HeaderRegex(name, value) => {
                let regex = RegexMatcher { regex: value.to_string(), ..Default::default() };
                header(name, MatchPattern::SafeRegex(regex))
            }
            LogFilter::NotHealthCheck => FilterSpecifier::NotHealthCheckFilter(NotHealthCheckFilter {}),
            LogFilter::Traceable => FilterSpecifier::TraceableFilter(TraceableFilter {}),
            LogFilter::Flags(flags) => {
                let flags = flags.iter().map(ToString::to_string).collect();
                FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter { flags })
            }
            LogFilter::Sampled(sampled) => FilterSpecifier::RuntimeFilter(sampled.encode()),
        };
        AccessLogFilter { filter_specifier: Some(specifier) }
    }
}

fn header(name: &str, pattern: MatchPattern) -> FilterSpecifier {
    FilterSpecifier::HeaderFilter(HeaderFilter {
        header: Some(HeaderMatcher {
            name: name.to_owned(),
            header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
                match_pattern: Some(pattern),
                ..Default::default()
            })),
            ..Default::default()
        }),
    })
}

impl Op {
    /// Parses the operator's name.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name {
            "EQ" => Op::Equal,
            "GE" => Op::AtLeast,
            "LE" => Op::AtMost,
            _ => return None,
        })
    }

    fn comparison(self, value: u32) -> ComparisonFilter {
        let op = match self {
            Op::Equal => EnvoyOp::Eq,
            Op::AtLeast => EnvoyOp::Ge,
            Op::AtMost => EnvoyOp::Le,
        };
        ComparisonFilter { op: op.into(), value: Some(RuntimeUInt32 { default_value: value, ..Default::default() }) }
    }
}

impl Denominator {
    /// Parses the denominator's name.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name {
            "HUNDRED" => Denominator::Hundred,
            "TEN_THOUSAND" => Denominator::TenThousand,
            "MILLION" => Denominator::Million,
            _ => return None,
        })
    }
}

impl Sampled {
    fn encode(&self) -> RuntimeFilter {
        let share = |(numerator, denominator): (u32, Denominator)| FractionalPercent {
            numerator,
            denominator: match denominator {
                Denominator::Hundred => DenominatorType::Hundred,
                Denominator::TenThousand => DenominatorType::TenThousand,
                Denominator::Million => DenominatorType::Million,
            }
            .into(),
        };
        RuntimeFilter {
            runtime_key: self.key.to_string(),
            percent_sampled: self.share.map(share),
            use_independent_randomness: self.independent,
        }
    }
}
