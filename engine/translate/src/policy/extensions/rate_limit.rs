//! `rateLimit.global`: rate limits that all Envoys share.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::extension::RateLimitProvider;
use holdfast_api::apis::kgateway::traffic_policy::{DescriptorEntry, GlobalRateLimit, TrafficSpec};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::rate_limit::{CounterEntry, GlobalLimit, RateLimitService};

use super::super::reading::Reading;
use super::{Used, extension};
use crate::precedence::settings::Piece;

/// Default timeout of a rate limit service.
const LIMIT_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    if let Some(written) = spec.rate_limit.as_ref().and_then(|limits| limits.global.as_ref())
        && let Some(limit) = limit(written, reading)
    {
        reading.piece("rateLimit.global", Piece::GlobalLimit(limit));
    }
}

fn limit(written: &GlobalRateLimit, reading: &mut Reading<'_, '_>) -> Option<GlobalLimit> {
    let Some(reference) = &written.extension_ref else {
        reading.invalid("spec.rateLimit.global", "extensionRef must be set");
        return None;
    };
    let (key, extension) = extension("rateLimit.global", reference, reading)?;
    let mut descriptors = Vec::new();
    for (index, descriptor) in written.descriptors.iter().enumerate() {
        let mut entries = Vec::new();
        for (place, written) in descriptor.entries.iter().enumerate() {
            let Some(entry) = entry(written) else {
                let field = format!("spec.rateLimit.global.descriptors[{index}].entries[{place}]");
                reading.invalid(field, "type must be set, together with the field for this type and no other field");
                return None;
            };
            entries.push(entry);
        }
        descriptors.push(entries);
    }
    if descriptors.is_empty() {
        reading.invalid("spec.rateLimit.global.descriptors", "must have an entry");
        return None;
    }
    let mut used = Used { key: &key, field: "rateLimit.global", reading };
    let Some(RateLimitProvider { grpc_service: Some(service), domain: Some(domain), fail_open, timeout, .. }) =
        &extension.rate_limit
    else {
        used.misused(
            "rateLimit",
            "must be set, with domain and grpcService, if rateLimit.global of a policy references the extension",
        );
        return None;
    };
    let quota_headers = match extension.rate_limit.as_ref().and_then(|limit| limit.x_rate_limit_headers.as_deref()) {
        None | Some("Off") => false,
        Some("DraftVersion03") => true,
        Some(other) => {
            used.wrong("rateLimit.xRateLimitHeaders", format!("{other:?} is neither Off nor DraftVersion03"));
            return None;
        }
    };
    let fail_open = *fail_open != Some(false);
    let timeout = used.duration("rateLimit.timeout", timeout.as_deref()).unwrap_or(LIMIT_TIMEOUT);
    // Both fields limit the response time: the shorter one applies.
    let request = used.duration("rateLimit.grpcService.requestTimeout", service.request_timeout.as_deref());
    let (remote, call_options) = used.grpc("rateLimit.grpcService", service)?;
    let service = RateLimitService {
        name: names::extension_filter("ratelimit", &key, fail_open).into(),
        owners: vec![key.clone()],
        remote,
        call_options,
        domain: domain.clone(),
        timeout: request.map_or(timeout, |request| request.min(timeout)),
        fail_open,
        quota_headers,
        resource_exhausted: false,
    };
    let limit = GlobalLimit { service: Arc::new(service), descriptors };
    let flaws = limit.check();
    let usable = flaws.is_empty();
    used.reading.flaws("rateLimit.global", flaws);
    usable.then_some(limit)
}

fn entry(written: &DescriptorEntry) -> Option<CounterEntry> {
    match (&*written.kind, &written.generic, &written.header) {
        ("Generic", Some(generic), None) => {
            Some(CounterEntry::Generic { key: Some(generic.key.clone()), value: generic.value.clone() })
        }
        ("Header", None, Some(header)) => Some(CounterEntry::Header { name: header.clone(), key: header.clone() }),
        ("RemoteAddress", None, None) => Some(CounterEntry::RemoteAddress),
        ("Path", None, None) => Some(CounterEntry::Path),
        _ => None,
    }
}
