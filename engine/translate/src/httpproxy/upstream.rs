//! Connections to a Service: health checks and slow start.

use std::time::Duration;

use holdfast_api::apis::contour::policy::HealthCheckPolicy;
use holdfast_api::apis::contour::route::SlowStartPolicy;
use holdfast_envoy::features::upstream::{ActiveHealthCheck, HttpHealthRequest, SlowStartSettings};

use super::timeouts;

/// Default host of health checks.
const HEALTH_HOST: &str = "contour-envoy-healthcheck";
/// Maximum number of status ranges of one health check.
const STATUSES_MAX: usize = 64;

/// Reads a health check over HTTP.
pub(super) fn health(written: Option<&HealthCheckPolicy>) -> Result<Option<ActiveHealthCheck>, String> {
    let Some(written) = written else { return Ok(None) };
    if !written.path.starts_with('/') {
        return Err(format!("the path {:?} of a health check must begin with /", written.path));
    }
    holdfast_check::header::value(&written.path).map_err(|fault| fault.to_string())?;
    let host = written.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(HEALTH_HOST);
    holdfast_check::header::value(host).map_err(|fault| fault.to_string())?;
    let ranges = written.expected_statuses.as_deref().unwrap_or_default();
    if ranges.len() > STATUSES_MAX {
        return Err(format!("more than {STATUSES_MAX} ranges of statuses"));
    }
    let expected = ranges.iter().map(|range| {
        let status = |status: i64| u16::try_from(status).ok().filter(|status| (100..=600).contains(status));
        let both = status(range.start).zip(status(range.end)).filter(|(start, end)| start < end);
        both.ok_or_else(|| {
            format!("expectedStatuses: {} to {} is not a range of HTTP statuses", range.start, range.end)
        })
    });
    let request = HttpHealthRequest {
        path: written.path.clone(),
        host: host.into(),
        expected: expected.collect::<Result<_, _>>()?,
    };
    checked(written, Some(request)).map(Some)
}

/// Reads a health check that only connects.
pub(super) fn connects(written: Option<&HealthCheckPolicy>) -> Result<Option<ActiveHealthCheck>, String> {
    written.map(|written| checked(written, None)).transpose()
}

fn checked(written: &HealthCheckPolicy, request: Option<HttpHealthRequest>) -> Result<ActiveHealthCheck, String> {
    let number = |field: &str, value: Option<i64>, default: u32| match value.unwrap_or(0) {
        0 => Ok(default),
        value => u32::try_from(value)
            .ok()
            .filter(|value| *value <= 86_400)
            .ok_or_else(|| format!("{field} {value} is not between 0 and 86400")),
    };
    let seconds =
        |field: &str, value, default| number(field, value, default).map(|seconds| Duration::from_secs(seconds.into()));
    Ok(ActiveHealthCheck {
        request,
        interval: seconds("intervalSeconds", written.interval_seconds, 10)?,
        timeout: seconds("timeoutSeconds", written.timeout_seconds, 2)?,
        unhealthy: number("unhealthyThresholdCount", written.unhealthy_threshold_count, 3)?,
        healthy: number("healthyThresholdCount", written.healthy_threshold_count, 2)?,
    })
}

/// Reads the slow start of new endpoints.
pub(super) fn slow_start(written: Option<&SlowStartPolicy>) -> Result<Option<SlowStartSettings>, String> {
    let Some(written) = written else { return Ok(None) };
    let window = timeouts::go_duration(&written.window).map_err(|fault| format!("error parsing window: {fault}"))?;
    let text = written.aggression.as_deref().unwrap_or("1.0");
    let aggression = text.parse::<f64>().ok().filter(|value| value.is_finite() && (0.001..=1000.0).contains(value));
    let Some(aggression) = aggression else {
        return Err(format!("error parsing aggression: {text:?} is no number above 0"));
    };
    let percent = written.min_weight_percent.unwrap_or(10);
    let Some(min_weight) = u32::try_from(percent).ok().filter(|percent| *percent <= 100) else {
        return Err(format!("minWeightPercent {percent} is not between 0 and 100"));
    };
    // A value of at most 1000 in thousandths fits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let aggression = (aggression * 1000.0).round() as u32;
    Ok(Some(SlowStartSettings { window, aggression, min_weight }))
}
