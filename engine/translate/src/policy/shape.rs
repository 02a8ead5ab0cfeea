//! Fields that change or check the content of requests and responses: size, origin, compression, faults, traces.

use std::sync::Arc;

use holdfast_api::apis::kgateway::policy::Quantity;
use holdfast_api::apis::kgateway::traffic as written;
use holdfast_envoy::features::buffer::BufferLimit;
use holdfast_envoy::features::compression::Library;
use holdfast_envoy::features::csrf::{CsrfSettings, ORIGINS_MAX};
use holdfast_envoy::features::fault_injection::{Abort, FaultInjectionPolicy};
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::features::percent::Percent;
use holdfast_envoy::features::tracing::{
    ATTRIBUTES_MAX, AttributeMetadata, AttributeSource, MetadataOf, PATH_STEPS_MAX, TracingSettings,
};
use holdfast_envoy::model::{Like, MatchedPart, ValueMatch};

use super::reading::Reading;
use super::traffic::{number, percent, positive};
use crate::precedence::settings::Piece;

pub(super) fn buffer(written: &written::Buffer, reading: &mut Reading<'_, '_>) {
    let setting = match (&written.max_request_size, &written.disable) {
        (None, Some(_)) => Setting::Off,
        (Some(size), None) => {
            let text = match size {
                Quantity::Number(number) => number.to_string(),
                Quantity::Text(text) => text.to_string(),
            };
            let Some(buffer) = BufferLimit::read(&text) else {
                let message = format!(
                    "{text:?} is not a valid size: it must be a number of bytes above 0 and below 4Gi, such as 64Ki"
                );
                return reading.invalid("spec.buffer.maxRequestSize", message);
            };
            Setting::Buffer(buffer)
        }
        _ => return reading.invalid("spec.buffer", "exactly one of maxRequestSize and disable must be set"),
    };
    reading.piece("buffer", Piece::Filters(vec![(Filter::Buffer, Arc::new(setting))]));
}

pub(super) fn csrf(written: &written::Csrf, reading: &mut Reading<'_, '_>) {
    if written.percentage_enabled.is_some() && written.percentage_shadowed.is_some() {
        reading.invalid("spec.csrf", "only one of percentageEnabled and percentageShadowed may be set");
    }
    // Protection is the default.
    let default = if written.percentage_shadowed.is_some() { Percent::default() } else { Percent::ALL };
    let enabled = percent("csrf.percentageEnabled", written.percentage_enabled, default, reading);
    let shadowed = percent("csrf.percentageShadowed", written.percentage_shadowed, Percent::default(), reading);
    let mut origins = Vec::new();
    for (index, origin) in written.additional_origins.iter().flatten().enumerate() {
        let field = format!("spec.csrf.additionalOrigins[{index}]");
        if index >= ORIGINS_MAX {
            reading.invalid("spec.csrf.additionalOrigins", format!("must have at most {ORIGINS_MAX} entries"));
            break;
        }
        origins.extend(origin_match(&field, origin, reading));
    }
    let csrf = CsrfSettings { enabled, shadowed, origins };
    reading.piece("csrf", Piece::Filters(vec![(Filter::Csrf, Arc::new(Setting::Csrf(csrf)))]));
}

fn origin_match(field: &str, origin: &written::TextMatch, reading: &mut Reading<'_, '_>) -> Option<ValueMatch> {
    let ignore_case = origin.ignore_case.unwrap_or(false);
    let parts = [
        (MatchedPart::Whole, &origin.exact),
        (MatchedPart::Prefix, &origin.prefix),
        (MatchedPart::Suffix, &origin.suffix),
        (MatchedPart::Contains, &origin.contains),
    ];
    let mut set: Vec<ValueMatch> = parts
        .into_iter()
        .filter_map(|(part, text)| Some((part, text.clone()?)))
        .map(|(part, text)| ValueMatch::Like(Like { part, text, ignore_case }))
        .collect();
    set.extend(origin.safe_regex.clone().map(ValueMatch::Regex));
    match (set.pop(), set.is_empty()) {
        (Some(ValueMatch::Regex(pattern)), true) => match reading.regexes().check(&pattern) {
            Ok(_) => Some(ValueMatch::Regex(pattern)),
            Err(fault) => {
                reading.invalid(format!("{field}.safeRegex"), fault);
                None
            }
        },
        (Some(ValueMatch::Like(like)), true) if !like.text.is_empty() => Some(ValueMatch::Like(like)),
        _ => {
            reading.invalid(field, "exactly one of exact, prefix, suffix, contains and safeRegex must be set");
            None
        }
    }
}

pub(super) fn fault_injection(written: &written::FaultInjection, reading: &mut Reading<'_, '_>) {
    let piece = |setting| Piece::Filters(vec![(Filter::Fault, Arc::new(setting))]);
    if written.disable.is_some() {
        return reading.piece("faultInjection", piece(Setting::Off));
    }
    let mut fault = FaultInjectionPolicy::default();
    if let Some(delay) = &written.delay {
        let time = positive("faultInjection.delay.fixedDelay", Some(&delay.fixed_delay), reading);
        let share = percent("faultInjection.delay.percentage", delay.percentage, Percent::ALL, reading);
        fault.delay = time.map(|time| (time, share));
    }
    if let Some(abort) = &written.abort {
        let share = percent("faultInjection.abort.percentage", abort.percentage, Percent::ALL, reading);
        let how = match (abort.http_status, abort.grpc_status) {
            (Some(status), None) => match holdfast_check::number::response_status(status) {
                Ok(status) => Some(Abort::Http(status)),
                Err(error) => return reading.invalid("spec.faultInjection.abort.httpStatus", error),
            },
            (None, Some(status)) => match u32::try_from(status) {
                Ok(status @ 0..=16) => Some(Abort::Grpc(status)),
                _ => return reading.invalid("spec.faultInjection.abort.grpcStatus", "must be between 0 and 16"),
            },
            _ => return reading.invalid("spec.faultInjection.abort", "one of httpStatus and grpcStatus must be set"),
        };
        fault.abort = how.map(|how| (how, share));
    }
    if let Some(rate) = &written.response_rate_limit {
        let share = percent("faultInjection.responseRateLimit.percentage", rate.percentage, Percent::ALL, reading);
        let speed = u64::try_from(rate.kbits_per_second).unwrap_or(0);
        if speed == 0 {
            reading.invalid("spec.faultInjection.responseRateLimit.kbitsPerSecond", "must be at least 1");
        }
        fault.rate = Some((speed, share));
    }
    fault.active = written.max_active_faults.map(|most| number("faultInjection.maxActiveFaults", most, 0, reading));
    reading.piece("faultInjection", piece(Setting::Fault(fault)));
}

pub(super) fn compression(written: &written::Compression, reading: &mut Reading<'_, '_>) {
    let mut codec = |field: &'static str, codec: &written::Codec, filter: fn(Library) -> Filter| {
        let mut wanted = Vec::new();
        let default = [Arc::from("Gzip")];
        let names = codec.libraries.as_deref().unwrap_or(&default);
        for (index, name) in names.iter().enumerate().filter(|_| codec.disable.is_none()) {
            match Library::read(name) {
                Some(library) => wanted.push(library),
                None => reading.invalid(
                    format!("spec.{field}.libraries[{index}]"),
                    format!("{name:?} is none of Gzip, Brotli and Zstd"),
                ),
            }
        }
        // Libraries that are not listed are disabled, even if a less specific policy lists them.
        let setting = |library: &Library| if wanted.contains(library) { Setting::On } else { Setting::Off };
        let settings = Library::ALL.iter().map(|library| (filter(*library), Arc::new(setting(library))));
        let settings = settings.collect();
        reading.piece(field, Piece::Filters(settings));
    };
    if let Some(response) = &written.response_compression {
        codec("compression.responseCompression", response, Filter::Compressor);
    }
    if let Some(request) = &written.request_decompression {
        codec("compression.requestDecompression", request, Filter::Decompressor);
    }
}

pub(super) fn tracing(written: &written::RouteTracing, reading: &mut Reading<'_, '_>) -> Piece {
    if written.disable.is_some() {
        return Piece::Tracing(TracingSettings::off());
    }
    let mut share = |field: &str, value: Option<i64>| {
        value.map(|value| percent(&format!("tracing.{field}"), Some(value), Percent::ALL, reading))
    };
    let tracing = TracingSettings {
        client: share("clientSampling", written.client_sampling),
        random: share("randomSampling", written.random_sampling),
        overall: share("overallSampling", written.overall_sampling),
        attributes: attributes("tracing", written.attributes.as_deref(), reading),
    };
    Piece::Tracing(tracing)
}

/// Reads additional attributes of traces.
pub(super) fn attributes(
    field: &str,
    written: Option<&[written::Attribute]>,
    reading: &mut Reading<'_, '_>,
) -> Vec<(Arc<str>, AttributeSource)> {
    let mut attributes = Vec::new();
    for (index, attribute) in written.unwrap_or_default().iter().enumerate() {
        let (whole, field) = (field, format!("{field}.attributes[{index}]"));
        if index >= ATTRIBUTES_MAX {
            reading.invalid(format!("spec.{whole}.attributes"), format!("must have at most {ATTRIBUTES_MAX} entries"));
            break;
        }
        let otherwise = |named: &written::NamedSource| named.default_value.clone().unwrap_or_default();
        let from = match (&attribute.literal, &attribute.environment, &attribute.request_header, &attribute.metadata) {
            (Some(literal), None, None, None) => AttributeSource::Literal(literal.value.clone()),
            (None, Some(named), None, None) => AttributeSource::Environment(named.name.clone(), otherwise(named)),
            (None, None, Some(named), None) if holdfast_check::header::name(&named.name).is_ok() => {
                AttributeSource::Header(named.name.clone(), otherwise(named))
            }
            (None, None, None, Some(metadata)) => match attribute_of_metadata(metadata) {
                Ok(value) => AttributeSource::Metadata(value),
                Err((below, message)) => {
                    reading.invalid(format!("spec.{field}.metadata.{below}"), message);
                    continue;
                }
            },
            _ => {
                reading.invalid(format!("spec.{field}"), "must have exactly one source, with a valid name");
                continue;
            }
        };
        if attribute.name.is_empty() || matches!(&from, AttributeSource::Literal(text) if text.is_empty()) {
            reading.invalid(format!("spec.{field}"), "name and value must not be empty");
        }
        attributes.push((attribute.name.clone(), from));
    }
    attributes
}

fn attribute_of_metadata(written: &written::MetadataAttribute) -> Result<AttributeMetadata, (&'static str, String)> {
    let of = written.kind.as_deref().and_then(MetadataOf::read);
    let of = of.ok_or_else(|| ("kind", "must be Request, Route, Cluster or Host".to_owned()))?;
    let key = written.metadata_key.as_ref();
    let path: Vec<Arc<str>> = key.iter().flat_map(|key| &key.path).map(|step| step.key.clone()).collect();
    match key {
        Some(key) if !key.key.is_empty() && !path.is_empty() && path.iter().all(|step| !step.is_empty()) => {
            if path.len() > PATH_STEPS_MAX {
                return Err(("metadataKey.path", format!("must have at most {PATH_STEPS_MAX} entries")));
            }
            let otherwise = written.default_value.clone().unwrap_or_default();
            Ok(AttributeMetadata { of, namespace: key.key.clone(), path, otherwise })
        }
        _ => Err(("metadataKey", "must have a key, and a path with a key in each entry".to_owned())),
    }
}
