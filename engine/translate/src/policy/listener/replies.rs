//! Local replies: responses that Envoy itself generates.

use std::sync::Arc;

use holdfast_api::apis::kgateway::http_settings::{
    LocalReplies as Written, LocalReplyBodyFormat as WrittenFormat, LocalReplyMapper,
};
use holdfast_envoy::features::connection::format::{Format, LocalReplyBody};
use holdfast_envoy::features::connection::local_replies::{BODY_BYTES_MAX, LocalReplySettings, MAPPERS_MAX, Mapper};

use super::super::headers;
use super::super::reading::Reading;
use super::filters;

/// Allowed response statuses.
const STATUSES: std::ops::RangeInclusive<i64> = 200..=599;

pub(super) fn read(field: &str, written: &Written, reading: &mut Reading<'_, '_>) -> LocalReplySettings {
    let mappers = written.mappers.as_deref();
    if mappers.is_none() && written.default_body_format.is_none() {
        reading.invalid(format!("spec.{field}"), "mappers or defaultBodyFormat must be set");
    }
    let mappers = mappers.unwrap_or_default();
    if written.mappers.is_some() && !(1..=MAPPERS_MAX).contains(&mappers.len()) {
        reading.invalid(format!("spec.{field}.mappers"), format!("must have from 1 to {MAPPERS_MAX} entries"));
    }
    let format = written.default_body_format.as_ref();
    let format = format.and_then(|format| self::format(&format!("{field}.defaultBodyFormat"), format, reading));
    let mappers = mappers.iter().enumerate().take(MAPPERS_MAX);
    let mappers = mappers.filter_map(|(index, one)| mapper(&format!("{field}.mappers[{index}]"), one, reading));
    let mappers = mappers.collect();
    LocalReplySettings { format, mappers }
}

fn format(field: &str, written: &WrittenFormat, reading: &mut Reading<'_, '_>) -> Option<LocalReplyBody> {
    let (below, format) = match (&written.text, &written.json) {
        (Some(text), None) => ("text", Format::Text(text.clone())),
        (None, Some(fields)) => ("json", Format::Json(fields.clone())),
        _ => {
            reading.invalid(format!("spec.{field}"), "exactly one of text and json must be set");
            return None;
        }
    };
    if let Some(message) = format.check() {
        reading.invalid(format!("spec.{field}.{below}"), message);
    }
    let content_type: Option<Arc<str>> = written.content_type.clone().filter(|kind| !kind.is_empty());
    if let Some(fault) = content_type.as_ref().and_then(|kind| holdfast_check::header::value(kind).err()) {
        reading.invalid(format!("spec.{field}.contentType"), fault);
    }
    Some(LocalReplyBody { format, content_type })
}

fn mapper(field: &str, written: &LocalReplyMapper, reading: &mut Reading<'_, '_>) -> Option<Mapper> {
    let format = written.body_format_override.as_ref();
    let format = format.and_then(|format| self::format(&format!("{field}.bodyFormatOverride"), format, reading));
    if written.body.as_ref().is_some_and(|body| body.len() > BODY_BYTES_MAX) {
        reading.invalid(format!("spec.{field}.body"), format!("must have at most {BODY_BYTES_MAX} bytes"));
    }
    let status = written.status_code.and_then(|status| {
        let known = u32::try_from(status).ok().filter(|_| STATUSES.contains(&status));
        if known.is_none() {
            let message = format!("must be between {} and {}", STATUSES.start(), STATUSES.end());
            reading.invalid(format!("spec.{field}.statusCode"), message);
        }
        known
    });
    if written.headers.as_ref().is_some_and(|headers| headers.remove.is_some()) {
        reading.invalid(format!("spec.{field}.headers.remove"), "cannot be applied to local replies of Envoy");
    }
    let (headers, secret) = headers::edits(&format!("{field}.headers"), written.headers.as_ref(), reading);
    if !secret.is_empty() {
        // Diagnostics show listeners with their headers, so headers from Secrets are not supported.
        reading.unsupported(format!("{field}.headers: secretRef"));
    }
    let filter = filters::read(&format!("{field}.filter"), &written.filter, reading)?;
    Some(Mapper { filter, status, body: written.body.clone(), format, headers })
}
