//! Flags of global rate limits.

use std::time::Duration;

use clap::Args;
use holdfast_api::apis::scheme;
use holdfast_api::settings::RateLimits;
use holdfast_check::duration;
use holdfast_graph::ObjectKey;

use crate::arguments::GatewayName;
use crate::failure::Failure;
use crate::headings;

/// The default domain of limits.
const DOMAIN_DEFAULT: &str = "contour";
/// The default timeout of the service.
const TIMEOUT_DEFAULT: Duration = Duration::from_millis(100);
/// Bounds of the timeout.
const RATE_LIMIT_TIMEOUT_MIN: Duration = Duration::from_millis(1);
const RATE_LIMIT_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Flags of the global rate limit service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::RATE_LIMITS)]
pub struct RateLimitArgs {
    /// ExtensionService with the global rate limits of all Envoys; without it, routes of HTTPProxies with global rate
    /// limits stay closed
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_SERVICE", value_name = "NAMESPACE/NAME")]
    #[arg(value_parser = extension_service)]
    pub rate_limit_service: Option<ObjectKey>,
    /// Domain of the limits, sent to the service [default: contour]
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_DOMAIN", value_name = "NAME")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub rate_limit_domain: Option<String>,
    /// Timeout of the service, unless its timeoutPolicy sets one [default: 100ms]
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_TIMEOUT", value_name = "DURATION", value_parser = answer_timeout)]
    pub rate_limit_timeout: Option<Duration>,
    /// Allow requests while the service does not answer
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_FAIL_OPEN", value_name = "BOOL", default_value_t = false)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub rate_limit_fail_open: bool,
    /// Add X-RateLimit headers with the remaining quota to responses
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_HEADERS", value_name = "BOOL", default_value_t = false)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub rate_limit_headers: bool,
    /// Answer gRPC calls over the limit with RESOURCE_EXHAUSTED instead of UNAVAILABLE
    #[arg(long, env = "CONTROLLER_RATE_LIMIT_RESOURCE_EXHAUSTED", value_name = "BOOL", default_value_t = false)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub rate_limit_resource_exhausted: bool,
}

fn extension_service(text: &str) -> Result<ObjectKey, String> {
    let wrong = || "expected the ExtensionService as NAMESPACE/NAME".to_owned();
    text.parse::<GatewayName>().map_err(|_| wrong())?;
    let (namespace, name) = text.split_once('/').ok_or_else(wrong)?;
    Ok(scheme::extension_key(namespace, name))
}

fn answer_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration::duration(text).map_err(|fault| fault.to_string())?;
    let in_range = (RATE_LIMIT_TIMEOUT_MIN..=RATE_LIMIT_TIMEOUT_MAX).contains(&timeout);
    if in_range {
        Ok(timeout)
    } else {
        Err(format!("the timeout must be from {RATE_LIMIT_TIMEOUT_MIN:?} to {RATE_LIMIT_TIMEOUT_MAX:?}"))
    }
}

impl RateLimitArgs {
    /// The settings; `None` without a service.
    ///
    /// # Errors
    /// Returns an error if another flag is set without a service.
    pub fn settings(&self) -> Result<Option<RateLimits>, Failure> {
        let others = [
            ("--rate-limit-domain", self.rate_limit_domain.is_some()),
            ("--rate-limit-timeout", self.rate_limit_timeout.is_some()),
            ("--rate-limit-fail-open", self.rate_limit_fail_open),
            ("--rate-limit-headers", self.rate_limit_headers),
            ("--rate-limit-resource-exhausted", self.rate_limit_resource_exhausted),
        ];
        let Some(service) = &self.rate_limit_service else {
            return match others.iter().find(|(_, set)| *set) {
                Some((flag, _)) => Err(Failure::usage(format!("{flag} needs --rate-limit-service"))),
                None => Ok(None),
            };
        };
        Ok(Some(RateLimits {
            service: service.clone(),
            domain: self.rate_limit_domain.as_deref().unwrap_or(DOMAIN_DEFAULT).into(),
            timeout: self.rate_limit_timeout.unwrap_or(TIMEOUT_DEFAULT),
            fail_open: self.rate_limit_fail_open,
            quota_headers: self.rate_limit_headers,
            resource_exhausted: self.rate_limit_resource_exhausted,
        }))
    }
}
