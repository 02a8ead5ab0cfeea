//! Fields for the forwarding of requests.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_api::apis::kgateway::traffic as written;
use holdfast_api::apis::kgateway::traffic_policy::{LocalRateLimit, TrafficSpec};
use holdfast_api::apis::kinds;
use holdfast_envoy::features::cors::{CorsSettings, MAX_AGE_DEFAULT, MAX_AGE_MIN};
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::features::internal_redirect::{CrossScheme, FollowedRedirects};
use holdfast_envoy::features::mirror::Mirroring;
use holdfast_envoy::features::percent::Percent;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::rewrite::PathRewrite;
use holdfast_envoy::features::token_bucket::{INTERVAL_MIN, TokenBucketSettings};

use super::reading::Reading;
use super::shape;
use crate::precedence::settings::{CORS, Piece};

/// Conditions of retries.
const RETRY_ON: [&str; 15] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "envoy-ratelimited",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];
/// Redirect statuses that Envoy can follow.
const REDIRECTS: [i64; 5] = [301, 302, 303, 307, 308];
/// Range of response statuses for retries.
const RETRIABLE: std::ops::RangeInclusive<i64> = 400..=599;
/// Maximum length of a prefix of statistics in characters; the limit of the CRD.
const STAT_PREFIX_CHARS_MAX: usize = 256;
/// Minimum of durations that must not be zero.
const SHORTEST: Duration = Duration::from_millis(1);

pub(super) fn read(spec: &TrafficSpec, targets: &Targets, reading: &mut Reading<'_, '_>) {
    timeouts(spec, reading);
    if let Some(written) = &spec.retry {
        retry(written, spec, reading);
    }
    if let Some(written) = &spec.cors {
        cors(written, reading);
    }
    if let Some(written) = spec.rate_limit.as_ref().and_then(|limits| limits.local.as_ref()) {
        rate_limit(written, reading);
    }
    if let Some(written) = &spec.buffer {
        shape::buffer(written, reading);
    }
    if let Some(written) = &spec.csrf {
        shape::csrf(written, reading);
    }
    if let Some(written) = &spec.request_mirror {
        mirroring(written, reading);
    }
    if let Some(written) = &spec.internal_redirect {
        internal_redirect(written, reading);
    }
    if let Some(written) = &spec.fault_injection {
        shape::fault_injection(written, reading);
    }
    if let Some(written) = &spec.compression {
        shape::compression(written, reading);
    }
    if let Some(written) = &spec.url_rewrite {
        only_for("urlRewrite", &[kinds::HTTP_ROUTE], targets, reading);
        url_rewrite(written, reading);
    }
    if let Some(auto) = spec.auto_host_rewrite {
        only_for("autoHostRewrite", &[kinds::HTTP_ROUTE], targets, reading);
        reading.piece("autoHostRewrite", Piece::AutoHost(auto));
    }
    if let Some(prefix) = &spec.stat_prefix {
        let piece = reading.observing(|reading| {
            only_for("statPrefix", &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE], targets, reading);
            stat_prefix(prefix, reading)
        });
        if let Some(piece) = piece {
            reading.piece("statPrefix", piece);
        }
    }
    if let Some(written) = &spec.tracing {
        let piece = reading.observing(|reading| {
            only_for("tracing", &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE], targets, reading);
            Some(shape::tracing(written, reading))
        });
        if let Some(piece) = piece {
            reading.piece("tracing", piece);
        }
    }
}

/// Checks that a field that is only for routes is not used with other targets.
fn only_for(field: &str, kinds: &[&str], targets: &Targets, reading: &mut Reading<'_, '_>) {
    let references = targets.references.iter().map(|(_, target)| &*target.kind);
    let mut all = references.chain(targets.selectors.iter().map(|(_, target)| &*target.kind));
    if let Some(other) = all.find(|kind| !kinds.contains(kind)) {
        let message = format!("{field} is supported for {} only, not for a {other}", kinds.join(" and "));
        reading.invalid(format!("spec.{field}"), message);
    }
}

pub(super) fn duration(field: &str, text: Option<&str>, reading: &mut Reading<'_, '_>) -> Option<Duration> {
    match text.map(holdfast_check::duration::duration)? {
        Ok(duration) => Some(duration),
        Err(fault) => {
            reading.invalid(format!("spec.{field}"), fault);
            None
        }
    }
}

/// Reads a duration that must not be zero.
pub(super) fn positive(field: &str, text: Option<&str>, reading: &mut Reading<'_, '_>) -> Option<Duration> {
    let duration = duration(field, text, reading)?;
    if duration < SHORTEST {
        reading.invalid(format!("spec.{field}"), "must be 1ms or longer");
    }
    Some(duration)
}

pub(super) fn number(field: &str, value: i64, least: u32, reading: &mut Reading<'_, '_>) -> u32 {
    match u32::try_from(value) {
        Ok(number) if number >= least => number,
        _ => {
            reading.invalid(format!("spec.{field}"), format!("{value} is out of range: it must be at least {least}"));
            least
        }
    }
}

pub(super) fn percent(field: &str, value: Option<i64>, default: Percent, reading: &mut Reading<'_, '_>) -> Percent {
    let Some(value) = value else { return default };
    Percent::new(value).unwrap_or_else(|| {
        reading.invalid(format!("spec.{field}"), format!("{value} is not a percentage between 0 and 100"));
        default
    })
}

fn timeouts(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    let Some(written) = &spec.timeouts else { return };
    let request = duration("timeouts.request", written.request.as_deref(), reading);
    let idle = duration("timeouts.streamIdle", written.stream_idle.as_deref(), reading);
    reading.piece("timeouts", Piece::Timeouts(request, idle));
}

fn retry(written: &written::Retry, spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    let (on, statuses) = (written.retry_on.as_deref().unwrap_or_default(), written.status_codes.as_deref());
    for (index, condition) in on.iter().enumerate().filter(|(_, condition)| !RETRY_ON.contains(&&***condition)) {
        reading.invalid(
            format!("spec.retry.retryOn[{index}]"),
            format!("{condition:?} is not a retry condition of Envoy"),
        );
    }
    let statuses = statuses.unwrap_or_default();
    for (index, status) in statuses.iter().enumerate().filter(|(_, status)| !RETRIABLE.contains(*status)) {
        reading.invalid(format!("spec.retry.statusCodes[{index}]"), format!("{status} is not between 400 and 599"));
    }
    if on.is_empty() && statuses.is_empty() {
        reading.invalid("spec.retry", "one of retryOn and statusCodes must be set");
    }
    let mut conditions: Vec<&str> = on.iter().map(|condition| &**condition).collect();
    if !statuses.is_empty() && !conditions.contains(&"retriable-status-codes") {
        conditions.push("retriable-status-codes");
    }
    let per_try = positive("retry.perTryTimeout", written.per_try_timeout.as_deref(), reading);
    let pause = positive("retry.backoffBaseInterval", written.backoff_base_interval.as_deref(), reading);
    let request = spec.timeouts.as_ref().and_then(|timeouts| timeouts.request.as_deref());
    let request =
        request.and_then(|text| holdfast_check::duration::duration(text).ok()).filter(|limit| !limit.is_zero());
    if let (Some(one), Some(all)) = (per_try, request)
        && one >= all
    {
        reading.invalid("spec.retry.perTryTimeout", "must be shorter than timeouts.request");
    }
    let count = number("retry.attempts", written.attempts.unwrap_or(1), 0, reading);
    let statuses = statuses.iter().filter_map(|status| u32::try_from(*status).ok()).collect();
    reading.piece(
        "retry",
        Piece::Retry(RouteRetryPolicy { count, on: conditions.join(",").into(), statuses, per_try, pause }),
    );
}

fn cors(written: &written::Cors, reading: &mut Reading<'_, '_>) {
    if written.disable.is_some() {
        reading.piece(CORS, Piece::Filters(vec![(Filter::Cors, Arc::new(Setting::Off))]));
        return;
    }
    let age = written.max_age.unwrap_or_else(|| MAX_AGE_DEFAULT.into());
    let max_age = u32::try_from(age).ok().filter(|_| age >= MAX_AGE_MIN);
    if max_age.is_none() {
        reading.invalid("spec.cors.maxAge", format!("maxAge is {age}; it must be at least {MAX_AGE_MIN}"));
    }
    let cors = CorsSettings {
        origins: written.allow_origins.clone().unwrap_or_default(),
        methods: written.allow_methods.clone().unwrap_or_default(),
        headers: written.allow_headers.clone().unwrap_or_default(),
        expose: written.expose_headers.clone().unwrap_or_default(),
        max_age,
        credentials: written.allow_credentials.unwrap_or(false),
        ..CorsSettings::default()
    };
    reading.flaws("cors", cors.check());
    reading.piece(CORS, Piece::Filters(vec![(Filter::Cors, Arc::new(Setting::Cors(cors)))]));
}

fn rate_limit(written: &LocalRateLimit, reading: &mut Reading<'_, '_>) {
    let piece = |setting| Piece::Filters(vec![(Filter::LocalRateLimit, Arc::new(setting))]);
    let Some(bucket) = &written.token_bucket else {
        // Disables limits of less specific policies.
        reading.piece("rateLimit.local", piece(Setting::Off));
        return;
    };
    let below = "rateLimit.local.tokenBucket";
    let most = number(&format!("{below}.maxTokens"), bucket.max_tokens, 1, reading);
    let fill = number(&format!("{below}.tokensPerFill"), bucket.tokens_per_fill.unwrap_or(1), 1, reading);
    let field = format!("{below}.fillInterval");
    let interval = duration(&field, Some(&bucket.fill_interval), reading).unwrap_or(INTERVAL_MIN);
    if interval < INTERVAL_MIN {
        reading.invalid(format!("spec.{field}"), "must be 50ms or longer");
    }
    let enabled = percent("rateLimit.local.percentEnabled", written.percent_enabled, Percent::ALL, reading);
    let enforced = percent("rateLimit.local.percentEnforced", written.percent_enforced, Percent::ALL, reading);
    let bucket = TokenBucketSettings { most, fill, interval, enabled, enforced };
    reading.piece("rateLimit.local", piece(Setting::LocalRateLimit(bucket)));
}

fn mirroring(written: &written::RequestMirror, reading: &mut Reading<'_, '_>) {
    if let Some(host) = &written.host_rewrite_literal
        && (host.is_empty() || holdfast_check::header::value(host).is_err())
    {
        reading.invalid("spec.requestMirror.hostRewriteLiteral", "this is not a valid Host header");
    }
    let plain_host = written.disable_shadow_host_suffix_append.unwrap_or(false);
    let host = written.host_rewrite_literal.clone();
    reading.piece("requestMirror", Piece::Mirroring(Mirroring { plain_host, host }));
}

fn internal_redirect(written: &written::InternalRedirect, reading: &mut Reading<'_, '_>) {
    let codes = written.redirect_response_codes.as_deref().unwrap_or_default();
    for (index, code) in codes.iter().enumerate().filter(|(_, code)| !REDIRECTS.contains(code)) {
        let field = format!("spec.internalRedirect.redirectResponseCodes[{index}]");
        reading.invalid(field, format!("{code} is not a redirect status that Envoy can follow"));
    }
    let mut copied = Vec::new();
    for (index, name) in written.response_headers_to_copy.iter().flatten().enumerate() {
        match holdfast_check::header::modifiable_name(name) {
            Ok(name) => copied.push(Arc::from(name)),
            Err(fault) => reading.invalid(format!("spec.internalRedirect.responseHeadersToCopy[{index}]"), fault),
        }
    }
    let max = written.max_redirects.map(|most| number("internalRedirect.maxRedirects", most, 1, reading));
    let statuses = codes.iter().filter_map(|code| u32::try_from(*code).ok()).collect();
    let any = written.allow_cross_scheme_redirect.unwrap_or(false);
    let cross_scheme = if any { CrossScheme::Always } else { CrossScheme::Never };
    let redirect = FollowedRedirects { max, statuses, cross_scheme, copied, deny_repeated: false };
    reading.piece("internalRedirect", Piece::InternalRedirect(redirect));
}

fn url_rewrite(written: &written::UrlRewrite, reading: &mut Reading<'_, '_>) {
    let Some(path) = &written.path_regex else {
        return reading.invalid("spec.urlRewrite", "pathRegex must be set");
    };
    let field = "spec.urlRewrite.pathRegex";
    let program = match reading.regexes().check(&path.pattern) {
        Ok(program) => program,
        Err(fault) => return reading.invalid(format!("{field}.pattern"), fault),
    };
    if let Err(fault) = holdfast_check::re2::check_substitution(&path.substitution, program.captures) {
        return reading.invalid(format!("{field}.substitution"), fault);
    }
    if let Err(fault) = holdfast_check::path::regex_replacement(&path.pattern, &path.substitution) {
        return reading.invalid(format!("{field}.substitution"), fault);
    }
    let rewrite = PathRewrite::Regex(path.pattern.clone(), path.substitution.clone());
    reading.piece("urlRewrite", Piece::Path(rewrite));
}

fn stat_prefix(prefix: &Arc<str>, reading: &mut Reading<'_, '_>) -> Option<Piece> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_%.-{} ".contains(c);
    if prefix.is_empty() || prefix.chars().count() > STAT_PREFIX_CHARS_MAX || !prefix.chars().all(legal) {
        reading.invalid("spec.statPrefix", "must consist of letters, digits, _, %, ., - and placeholders in {{ }}");
        return None;
    }
    if crate::precedence::fill::filled(prefix, &|_| Some(String::new())).is_none() {
        let message = "a placeholder in {{ }} must be route_name, route_namespace or rule_name";
        reading.invalid("spec.statPrefix", message);
    }
    Some(Piece::StatPrefix(prefix.clone()))
}
