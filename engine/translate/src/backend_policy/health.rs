//! Health checks, outlier detection and circuit breakers of BackendConfigPolicy.

use std::time::Duration;

use holdfast_api::apis::kgateway::backend_config as written;
use holdfast_envoy::features::upstream::{Breakers, Checked, Outliers, Question};

use super::notes::Notes;

/// HTTP methods of health checks.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];
/// Interval of outlier detection where none is set.
const LOOKS_DEFAULT: Duration = Duration::from_secs(10);
/// Ejection time of outliers where none is set.
const EJECTION_DEFAULT: Duration = Duration::from_secs(30);
/// The largest share of ejected endpoints, in percent, where none is set.
const OUTLIERS_DEFAULT: u32 = 10;
/// Consecutive errors that eject an endpoint, where no number is set.
const ERRORS_DEFAULT: u32 = 5;

pub(super) fn checked(written: &written::HealthCheck, notes: &mut Notes) -> Option<Checked> {
    let field = "spec.healthCheck";
    let interval = notes.positive(&format!("{field}.interval"), Some(&written.interval));
    let timeout = notes.positive(&format!("{field}.timeout"), Some(&written.timeout));
    let mut count = |below: &str, value| notes.number(&format!("{field}.{below}"), Some(value), 0, u32::MAX);
    let unhealthy = count("unhealthyThreshold", written.unhealthy_threshold);
    let healthy = count("healthyThreshold", written.healthy_threshold);
    let request = match (&written.http, &written.grpc) {
        (Some(http), None) => http_request(http, notes),
        (None, Some(grpc)) => Question::Grpc {
            service: notes.text(&format!("{field}.grpc.serviceName"), grpc.service_name.as_ref()),
            authority: notes.text(&format!("{field}.grpc.authority"), grpc.authority.as_ref()),
        },
        _ => {
            notes.invalid(field, "exactly one of http and grpc must be set");
            return None;
        }
    };
    Some(Checked {
        request,
        interval: interval?,
        timeout: timeout?,
        unhealthy: unhealthy?,
        healthy: healthy?,
        h2: false,
    })
}

fn http_request(written: &written::HttpCheck, notes: &mut Notes) -> Question {
    let field = "spec.healthCheck.http";
    let path = notes.text(&format!("{field}.path"), Some(&written.path));
    if !path.starts_with('/') {
        notes.invalid(format!("{field}.path"), "must begin with /");
    }
    let method = written.method.clone().unwrap_or_else(|| "GET".into());
    if !METHODS.contains(&&*method) {
        notes.invalid(format!("{field}.method"), format!("{method:?} is none of {}", METHODS.join(", ")));
    }
    Question::Http { path, host: notes.text(&format!("{field}.host"), written.host.as_ref()), method }
}

pub(super) fn outliers(written: &written::OutlierDetection, notes: &mut Notes) -> Outliers {
    let field = "spec.outlierDetection";
    let interval = notes.positive(&format!("{field}.interval"), written.interval.as_deref());
    let ejection = notes.positive(&format!("{field}.baseEjectionTime"), written.base_ejection_time.as_deref());
    let mut number = |below: &str, value, to| notes.number(&format!("{field}.{below}"), value, 0, to);
    let local = written.enforcing_consecutive_local_origin_failure;
    Outliers {
        interval: interval.unwrap_or(LOOKS_DEFAULT),
        ejection: ejection.unwrap_or(EJECTION_DEFAULT),
        most: number("maxEjectionPercent", written.max_ejection_percent, 100).unwrap_or(OUTLIERS_DEFAULT),
        errors: number("consecutive5xx", written.consecutive_5xx, u32::MAX).unwrap_or(ERRORS_DEFAULT),
        enforcing: number("enforcingConsecutive5xx", written.enforcing_consecutive_5xx, 100),
        split: written.split_external_local_origin_errors.unwrap_or(false),
        local: number("consecutiveLocalOriginFailure", written.consecutive_local_origin_failure, u32::MAX),
        enforcing_local: number("enforcingConsecutiveLocalOriginFailure", local, 100),
    }
}

pub(super) fn breakers(written: &written::BackendCircuitBreakers, notes: &mut Notes) -> Breakers {
    let field = "spec.circuitBreakers";
    let mut number = |below: &str, value, from| notes.number(&format!("{field}.{below}"), value, from, u32::MAX);
    let breakers = Breakers {
        connections: number("maxConnections", written.max_connections, 1),
        pending: number("maxPendingRequests", written.max_pending_requests, 1),
        requests: number("maxRequests", written.max_requests, 1),
        retries: number("maxRetries", written.max_retries, 0),
        track: written.track_remaining.unwrap_or(false),
    };
    let nothing = Breakers { track: breakers.track, ..Breakers::default() };
    if breakers == nothing {
        notes.invalid(field, "one of maxConnections, maxPendingRequests, maxRequests and maxRetries must be set");
    }
    breakers
}
