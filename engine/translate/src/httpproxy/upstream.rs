//! Connections to a Service: health checks, slow start, TLS and verification of its certificate.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::policy::HealthCheckPolicy;
use holdfast_api::apis::contour::route::{SlowStartPolicy, UpstreamValidation};
use holdfast_api::fault::Class;
use holdfast_envoy::features::upstream::{
    ActiveHealthCheck, CertificateValidation, HttpHealthRequest, SlowStartSettings, SubjectAltName, Trust,
};
use holdfast_graph::{ObjectKey, Role};

use super::{timeouts, tls};
use crate::reader::Reader;

/// Default host of health checks.
const HEALTH_HOST: &str = "contour-envoy-healthcheck";
/// Maximum number of status ranges of one health check.
const STATUSES_MAX: usize = 64;
/// Text that identifies a private key.
const PRIVATE: &[u8] = b"PRIVATE KEY";
/// Maximum number of names in one certificate.
const NAMES_MAX: usize = 8;

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

/// Reason of an invalid validation of a backend's certificate.
pub(super) const REASON: &str = "TLSUpstreamValidation";

/// Reason why the certificate of a backend cannot be validated.
#[derive(Debug)]
pub(super) struct NoValidation {
    pub(super) reason: &'static str,
    pub(super) class: Class,
    /// A sentence for users.
    pub(super) message: String,
    /// The object at fault, if it is not the one that requires the validation.
    pub(super) cause: Option<Box<ObjectKey>>,
}

/// Reads the verification of a backend's certificate; the error has the reason, its class and a sentence.
pub(super) fn validation(
    proxy: &ObjectKey,
    section: &str,
    written: Option<&UpstreamValidation>,
    reader: &mut Reader<'_>,
) -> Result<Option<CertificateValidation>, NoValidation> {
    let Some(written) = written else { return Ok(None) };
    let invalid = |message: String| NoValidation { reason: REASON, class: Class::Invalid, message, cause: None };
    let mut names: Vec<Arc<str>> = written.subject_names.clone().unwrap_or_default();
    if names.is_empty() {
        names.push(written.subject_name.clone());
    } else if names.first() != Some(&written.subject_name) {
        return Err(invalid("subjectName must be equal to the first of subjectNames".into()));
    }
    if names.len() > NAMES_MAX || names.iter().any(|name| name.is_empty()) {
        return Err(invalid(format!("there must be a subjectName, and at most {NAMES_MAX} of them, none empty")));
    }
    if written.ca_secret.is_empty() {
        return Err(invalid("missing required CA Secret".into()));
    }
    let secret = tls::secret(&proxy.namespace, &written.ca_secret);
    reader.edge(proxy, section, &secret, Role::Requires);
    if !tls::delegated(proxy, &secret, reader) {
        let message = format!(
            "service.UpstreamValidation.CACertificate Secret {:?} is not configured for certificate delegation",
            secret.namespaced_name().as_str()
        );
        let (reason, class) = ("CACertificateNotDelegated", Class::Referential);
        return Err(NoValidation { reason, class, message, cause: None });
    }
    let name = secret.namespaced_name();
    let Some(object) = reader.object(&secret) else {
        let message = format!("invalid CA Secret {name:?}: Secret {}", reader.unfound(&secret));
        let cause = Some(Box::new(secret));
        return Err(NoValidation { reason: REASON, class: Class::Referential, message, cause });
    };
    let Body::Secret(data) = &object.body else { return Err(invalid(format!("{secret} is no Secret"))) };
    let Some(bundle) = data.data.get("ca.crt") else {
        return Err(invalid(format!("invalid CA Secret {name:?}: it has no ca.crt")));
    };
    // The bundle becomes part of the cluster, which diagnostics show.
    if bundle.windows(PRIVATE.len()).any(|window| window == PRIVATE) {
        return Err(invalid(format!("invalid CA Secret {name:?}: ca.crt holds a private key")));
    }
    holdfast_check::certificate::check_ca_bundle(bundle)
        .map_err(|fault| invalid(format!("invalid CA Secret {name:?}: {fault}")))?;
    let trust = Trust::Bundle { from: vec![secret], authorities: bundle.as_ref().into() };
    Ok(Some(CertificateValidation { trust, names: names.into_iter().map(SubjectAltName::Dns).collect() }))
}
