//! Retries of the requests of an HTTPRoute rule.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-1731/>

use std::ops::RangeInclusive;

use holdfast_api::apis::gateway::http_route::HttpRetry;
use holdfast_api::fault::at;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::timeout::RouteTimeouts;

/// The response statuses that may be retried.
const RETRIABLE: RangeInclusive<i64> = 400..=599;
/// Maximum number of entries of `codes`: one for each status.
const RETRY_CODES_MAX: usize = 200;
/// Retries without a number of attempts, as many as Envoy makes.
const ATTEMPTS: u32 = 1;
/// Envoy's conditions for retries after connection errors: the connection fails or is reset, or the timeout of one try
/// is reached.
const CONNECTION_ERRORS: &str = "connect-failure,refused-stream,reset";
/// Envoy's condition for retries after responses.
const STATUSES: &str = "retriable-status-codes";

/// Reads the retries of a rule.
pub(super) fn read(written: &HttpRetry, timeouts: &RouteTimeouts, flaws: &mut Vec<Flaw>) -> RouteRetryPolicy {
    let mut flaw = |field: &str, message: String| flaws.push(Flaw::new(format!("retry.{field}"), message));
    let codes = written.codes.as_deref().unwrap_or_default();
    if codes.len() > RETRY_CODES_MAX {
        flaw("codes", format!("more than {RETRY_CODES_MAX} entries"));
    }
    for (index, code) in codes.iter().enumerate().filter(|(_, code)| !RETRIABLE.contains(*code)) {
        flaw(&at("codes", index), format!("{code} is not between 400 and 599"));
    }
    let count = match written.attempts.map(u32::try_from) {
        Some(Ok(count)) if count > 0 => count,
        Some(_) => {
            flaw("attempts", format!("must be between 1 and {}", u32::MAX));
            ATTEMPTS
        }
        None => ATTEMPTS,
    };
    let pause = written.backoff.as_deref().map(holdfast_check::duration::duration).transpose();
    let pause = pause.map_err(|fault| flaw("backoff", fault.to_string())).unwrap_or_default();
    RouteRetryPolicy {
        count,
        on: if codes.is_empty() { CONNECTION_ERRORS.into() } else { format!("{CONNECTION_ERRORS},{STATUSES}").into() },
        statuses: codes.iter().take(RETRY_CODES_MAX).filter_map(|code| u32::try_from(*code).ok()).collect(),
        per_try: timeouts.backend_request.filter(|limit| !limit.is_zero()),
        // Envoy needs an interval above zero; without one it uses its default.
        pause: pause.filter(|pause| !pause.is_zero()),
    }
}
