//! Policies of hosts and routes: access lists, CORS, retries, load balancing by hash.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::contour::policy::{
    CorsPolicy, HeadersPolicy, IpFilterPolicy, LoadBalancerPolicy, RateLimitPolicy, RetryPolicy,
};
use holdfast_api::apis::contour::route::InternalRedirectPolicy;
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::cors::{CorsSettings, ENTRIES_MAX};
use holdfast_envoy::features::hash::{Hashed, HashedPart};
use holdfast_envoy::features::internal_redirect::{CrossScheme, FollowedRedirects};
use holdfast_envoy::features::ip_filter::{IpFilter, IpRange};
use holdfast_envoy::features::local_rate_limit::LocalLimit;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::upstream::Balance;
use holdfast_graph::ObjectKey;

use super::action::Guard;
use super::auth::{self, HostAuth};
use super::headers::{self, HostValues};
use super::limits::LimitFault;
use super::timeouts::{self, Limit};
use super::{HOST, jwt, limits};
use crate::outcome::finding::{Finding, Level};
use crate::reader::Reader;

/// Maximum number of entries of one list of addresses, statuses or hashed parts.
const LIST_MAX: usize = 256;
/// Cookie for session affinity.
const SESSION_COOKIE: &str = "X-Contour-Session-Affinity";

/// Reads the policies of a host; an error if one of them cannot be served, so that the host must be closed.
pub(super) fn guard(
    key: &ObjectKey,
    proxy: &HttpProxy,
    regexes: &Regexes,
    settings: &Settings,
    reader: &mut Reader<'_>,
    findings: &mut Vec<Finding>,
) -> Result<Guard, ()> {
    let Some(host) = proxy.virtual_host.as_ref().and_then(|host| host.written.as_ref()) else { return Err(()) };
    let mut shut = false;
    let mut add = |found: Finding, class: Class| {
        shut |= class != Class::Ignored;
        let level = if class == Class::Ignored { Level::Warning } else { Level::Error };
        findings.push(Finding { level, ..found }.of_class(class));
    };
    let found = |field: &str, kind: &'static str, reason: &'static str, message: String| {
        Finding::error(key, format!("spec.virtualhost.{field}"), kind, reason, message)
    };
    let auth = auth::of_host(key, host, reader);
    if let Some(HostAuth { server: Err(wrong), enabled, .. }) = &auth {
        // If authorization is disabled by default, only routes that enable it are closed.
        let class = if *enabled { wrong.class } else { Class::Ignored };
        let found = found(&wrong.field, "AuthError", wrong.reason, wrong.message.clone());
        add(found.caused_by(wrong.cause.as_deref().cloned()), class);
    }
    let mut warnings = Vec::new();
    let jwt = jwt::of_host(key, host, settings, reader, &mut warnings).unwrap_or_else(|wrong| {
        let found = found(&wrong.field, "JWTVerificationError", wrong.reason, wrong.message);
        add(found.caused_by(wrong.cause.map(|cause| *cause)), wrong.class);
        None
    });
    for (field, warning) in warnings {
        add(warning.found(key, format!("spec.virtualhost.{field}"), "JWTVerificationError"), Class::Ignored);
    }
    let mut limit_wrong = |class, why: String, cause: Option<ObjectKey>| {
        let message = format!("Spec.VirtualHost.RateLimitPolicy is invalid: {why}");
        let found = found("rateLimitPolicy", "VirtualHostError", "RateLimitPolicyNotValid", message);
        add(found.caused_by(cause), class);
    };
    let local = rate_limit(host.rate_limit_policy.as_ref()).unwrap_or_else(|why| {
        limit_wrong(Class::Invalid, why, None);
        None
    });
    let global = host.rate_limit_policy.as_ref().and_then(|policy| policy.global.as_ref());
    let global = global.map(|global| limits::read(key, HOST, global, regexes, settings, reader)).transpose();
    let global = global.unwrap_or_else(|LimitFault { class, message, cause }| {
        limit_wrong(class, message, cause);
        None
    });
    let mut error = |field: &str, kind: &'static str, reason: &'static str, message: String| {
        add(found(field, kind, reason, message), Class::Invalid);
    };
    let cors = match host.cors_policy.as_ref().map(|policy| cors(policy, regexes)).transpose() {
        Ok(cors) => cors,
        Err(message) => {
            error("corsPolicy", "CORSError", "PolicyDidNotParse", format!("Spec.VirtualHost.CORSPolicy: {message}"));
            None
        }
    };
    let ip_filter = match ip_filter(host.ip_allow_policy.as_deref(), host.ip_deny_policy.as_deref()) {
        Ok(filter) => filter,
        Err((field, reason, message)) => {
            error(field, "IPFilterError", reason, format!("Spec.VirtualHost: {message}"));
            None
        }
    };
    if shut { Err(()) } else { Ok(Guard { cors, ip_filter, auth, jwt, local, global: global.flatten() }) }
}

/// Reads access lists; the error has the field, the reason and a sentence.
pub(super) fn ip_filter(
    allow: Option<&[IpFilterPolicy]>,
    deny: Option<&[IpFilterPolicy]>,
) -> Result<Option<IpFilter>, (&'static str, &'static str, String)> {
    let (allow, deny) = (allow.unwrap_or_default(), deny.unwrap_or_default());
    let (field, entries) = match (allow.is_empty(), deny.is_empty()) {
        (true, true) => return Ok(None),
        (false, false) => {
            let message = "only one of ipAllowPolicy and ipDenyPolicy may be set".to_owned();
            return Err(("ipAllowPolicy", "IncompatibleIPAddressFilters", message));
        }
        (false, true) => ("ipAllowPolicy", allow),
        (true, false) => ("ipDenyPolicy", deny),
    };
    if entries.len() > LIST_MAX {
        return Err((field, "IPFilterPolicyNotValid", format!("more than {LIST_MAX} entries")));
    }
    let mut ranges = Vec::new();
    for entry in entries {
        let remote = match &*entry.source {
            "Remote" => true,
            "Peer" => false,
            other => {
                return Err((field, "IPFilterPolicyNotValid", format!("source {other:?} is neither Peer nor Remote")));
            }
        };
        // An invalid entry must neither open an allow list nor weaken a deny list.
        let Some(range) = IpRange::read(remote, &entry.cidr) else {
            return Err((field, "InvalidCIDR", format!("{} failed to parse: invalid CIDR address", entry.cidr)));
        };
        ranges.push(range);
    }
    Ok(Some(IpFilter { allow: field == "ipAllowPolicy", ranges }))
}

fn cors(written: &CorsPolicy, regexes: &Regexes) -> Result<CorsSettings, String> {
    let list = |entries: &Option<Vec<Arc<str>>>| -> Vec<String> {
        entries.iter().flatten().map(|entry| entry.to_string()).collect()
    };
    let (written_origins, methods) = (list(&written.allow_origin), list(&written.allow_methods));
    if written_origins.is_empty() {
        return Err("must specify at least one allowed origin".into());
    }
    if methods.is_empty() {
        return Err("must specify at least one allowed method".into());
    }
    if written_origins.len() > ENTRIES_MAX {
        return Err(format!("more than {ENTRIES_MAX} origins"));
    }
    let (mut origins, mut patterns) = (Vec::new(), Vec::new());
    for origin in written_origins {
        let precise = !origin.contains('*') && holdfast_check::host::origin(&origin).is_ok();
        if origin == "*" || precise {
            origins.push(origin);
        } else {
            regexes.check(&origin).map_err(|fault| format!("allowed origin {origin:?} is invalid: {fault}"))?;
            patterns.push(origin);
        }
    }
    let max_age = match written.max_age.as_deref() {
        None | Some("") => None,
        Some(text) => {
            let age = timeouts::go_duration(text).map_err(|fault| format!("maxAge: {fault}"))?;
            Some(u32::try_from(age.as_secs()).unwrap_or(u32::MAX))
        }
    };
    let cors = CorsSettings {
        origins,
        patterns,
        methods,
        headers: list(&written.allow_headers),
        expose: list(&written.expose_headers),
        max_age,
        credentials: written.allow_credentials.unwrap_or(false),
        private_network: written.allow_private_network.unwrap_or(false),
    };
    match cors.check().into_iter().next() {
        Some(flaw) => Err(format!("{}: {}", flaw.field, flaw.message)),
        None => Ok(cors),
    }
}

/// Reads a local rate limit.
pub(super) fn rate_limit(written: Option<&RateLimitPolicy>) -> Result<Option<LocalLimit>, String> {
    let Some(written) = written.and_then(|policy| policy.local.as_ref()) else { return Ok(None) };
    let unit = match &*written.unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        other => return Err(format!("invalid unit {other:?} in local rate limit policy")),
    };
    let number = |field: &str, value: i64| {
        u32::try_from(value).map_err(|_| format!("invalid {field} value {value} in local rate limit policy"))
    };
    let requests = number("requests", written.requests)?;
    if requests == 0 {
        return Err("invalid requests value 0 in local rate limit policy".into());
    }
    let status = match written.response_status_code.unwrap_or(0) {
        0 => 429,
        status => u16::try_from(status)
            .ok()
            .filter(|status| (400..600).contains(status))
            .ok_or_else(|| format!("invalid response status code {status} in local rate limit policy"))?,
    };
    let headers = HeadersPolicy { set: written.response_headers_to_add.clone(), remove: None };
    Ok(Some(LocalLimit {
        requests,
        unit: Duration::from_secs(unit),
        burst: number("burst", written.burst.unwrap_or(0))?,
        status,
        headers: headers::read(Some(&headers), HostValues::Refused, &[])?.edits,
    }))
}

/// Reads a retry policy.
pub(super) fn retry(written: Option<&RetryPolicy>) -> Result<Option<RouteRetryPolicy>, String> {
    let Some(written) = written else { return Ok(None) };
    let count = match written.count.unwrap_or(0) {
        -1 => 0,
        0 => 1,
        count => u32::try_from(count).map_err(|_| format!("retry count {count} is below -1 or too large"))?,
    };
    let per_try = match timeouts::limit(written.per_try_timeout.as_deref())? {
        Limit::After(limit) => Some(limit),
        Limit::Default | Limit::Off => None,
    };
    let written_on = written.retry_on.as_deref().unwrap_or_default();
    let is_condition =
        |on: &Arc<str>| !on.is_empty() && on.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if let Some(wrong) = written_on.iter().find(|on| !is_condition(on)) {
        return Err(format!("retryOn: {wrong:?} is not a retry condition of Envoy"));
    }
    let on = if written_on.is_empty() { "5xx".to_owned() } else { written_on.join(",") };
    let statuses = written.retriable_status_codes.as_deref().unwrap_or_default();
    if statuses.len() > LIST_MAX || written_on.len() > LIST_MAX {
        return Err(format!("more than {LIST_MAX} entries"));
    }
    let statuses = statuses.iter().map(|status| {
        let number = u32::try_from(*status).ok().filter(|status| (100..600).contains(status));
        number.ok_or_else(|| format!("retriable status {status} is no HTTP status"))
    });
    Ok(Some(RouteRetryPolicy {
        count,
        on: on.into(),
        statuses: statuses.collect::<Result<_, _>>()?,
        per_try,
        pause: None,
    }))
}

/// Returns the load balancing policy, the hashed parts of requests, and a warning.
pub(super) fn balance(written: Option<&LoadBalancerPolicy>) -> (Balance, Vec<Hashed>, Option<String>) {
    let plain = |balance| (balance, Vec::new(), None);
    let strategy = written.and_then(|policy| policy.strategy.as_deref()).unwrap_or_default();
    match strategy {
        "" | "RoundRobin" => plain(Balance::RoundRobin),
        "WeightedLeastRequest" => plain(Balance::LeastRequest),
        "Random" => plain(Balance::Random),
        "Cookie" => {
            let part = HashedPart::Cookie(SESSION_COOKIE.into());
            (Balance::RingHash, vec![Hashed { terminal: false, part }], None)
        }
        "RequestHash" => {
            let policies = written.and_then(|policy| policy.request_hash_policies.as_deref()).unwrap_or_default();
            let mut hashed: Vec<Hashed> = Vec::new();
            let mut wrong = policies.len() > LIST_MAX;
            for policy in policies.iter().take(LIST_MAX) {
                let header = policy.header_hash_options.as_ref().map(|options| {
                    let name = options.header_name.as_deref().unwrap_or_default();
                    holdfast_check::header::name(name).ok().map(|name| HashedPart::Header(name.into()))
                });
                let query = policy.query_parameter_hash_options.as_ref().map(|options| {
                    let name = options.parameter_name.as_deref().unwrap_or_default();
                    holdfast_check::header::query_name(name).ok().map(|()| HashedPart::Query(name.into()))
                });
                let address = (policy.hash_source_ip == Some(true)).then_some(Some(HashedPart::Address));
                let mut parts = [header, query, address].into_iter().flatten();
                match (parts.next(), parts.next()) {
                    (Some(Some(part)), None) if !hashed.iter().any(|known| known.part == part) => {
                        hashed.push(Hashed { terminal: policy.terminal.unwrap_or(false), part });
                    }
                    _ => wrong = true,
                }
            }
            let ignored = "ignoring invalid request hash policies";
            match hashed.is_empty() {
                true => {
                    let message = format!("{ignored}, setting load balancer strategy to default RoundRobin");
                    (Balance::RoundRobin, Vec::new(), Some(message))
                }
                false => (Balance::RingHash, hashed, wrong.then(|| ignored.to_owned())),
            }
        }
        other => {
            let message = format!("load balancer strategy {other:?} is not known, RoundRobin is used");
            (Balance::RoundRobin, Vec::new(), Some(message))
        }
    }
}

/// Reads the internal redirects that Envoy follows.
pub(super) fn internal_redirect(written: Option<&InternalRedirectPolicy>) -> Result<Option<FollowedRedirects>, String> {
    let Some(written) = written else { return Ok(None) };
    let max = written.max_internal_redirects.map(|max| u32::try_from(max).map_err(|_| max)).transpose();
    let max = max.map_err(|max| format!("maxInternalRedirects {max} is out of range"))?;
    let statuses = written.redirect_response_codes.as_deref().unwrap_or_default().iter().map(|status| {
        let known = u32::try_from(*status).ok().filter(|status| [301, 302, 303, 307, 308].contains(status));
        known.ok_or_else(|| format!("redirect status {status} is none of 301, 302, 303, 307 and 308"))
    });
    let cross_scheme = match written.allow_cross_scheme_redirect.as_deref() {
        None | Some("" | "Never") => CrossScheme::Never,
        Some("Always") => CrossScheme::Always,
        Some("SafeOnly") => CrossScheme::Safe,
        Some(other) => return Err(format!("allowCrossSchemeRedirect {other:?} is none of Always, Never and SafeOnly")),
    };
    Ok(Some(FollowedRedirects {
        copied: Vec::new(),
        max: Some(max.unwrap_or(1)),
        // Envoy accepts at most these five statuses.
        statuses: statuses.collect::<Result<std::collections::BTreeSet<_>, _>>()?.into_iter().collect(),
        cross_scheme,
        deny_repeated: written.deny_repeated_route_redirect.unwrap_or(false),
    }))
}
