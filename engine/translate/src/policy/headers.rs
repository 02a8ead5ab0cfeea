//! Fields that change headers.

use std::sync::Arc;

use holdfast_api::apis::kgateway::headers::{Header, HeaderFilter, Template, Transform};
use holdfast_api::apis::kgateway::traffic_policy::TrafficSpec;
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::features::header_mutation::HeaderMutations;
use holdfast_envoy::features::headers::{ENTRIES_MAX, HeaderEdits};
use holdfast_envoy::features::metadata::MetadataSettings;
use holdfast_envoy::features::secret_headers::SecretHeaders;

use super::reading::Reading;
use super::{metadata, secret_headers};
use crate::precedence::settings::Piece;

/// Begin of an Inja template; Envoy does not support templates.
const TEMPLATES: [&str; 3] = ["{{", "{%", "{#"];

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    if let Some(written) = &spec.header_modifiers {
        let (request, of_secrets) = edits("headerModifiers.request", written.request.as_ref(), reading);
        let (response, others_of_secrets) = edits("headerModifiers.response", written.response.as_ref(), reading);
        let setting = Setting::Headers(HeaderMutations { request, response });
        let secret = SecretHeaders::new(HeaderMutations { request: of_secrets, response: others_of_secrets });
        // The less specific settings of this filter are overridden as well.
        let secret = if secret.is_empty() { Setting::Off } else { Setting::SecretHeaders(secret) };
        let settings = vec![(Filter::HeaderMutation, Arc::new(setting)), (Filter::SecretHeaders, Arc::new(secret))];
        reading.piece("headerModifiers", Piece::Filters(settings));
    }
    if let Some(written) = &spec.transformation {
        let request = transform("transformation.request", written.request.as_ref(), reading);
        let response = transform("transformation.response", written.response.as_ref(), reading);
        let setting = Setting::Headers(HeaderMutations { request, response });
        let mut metadata = |field: &str, written: Option<&Transform>, is_request| {
            let entries = written.and_then(|written| written.dynamic_metadata.as_deref()).unwrap_or_default();
            metadata::read(&format!("transformation.{field}.dynamicMetadata"), entries, is_request, reading)
        };
        let metadata = MetadataSettings {
            request: metadata("request", written.request.as_ref(), true),
            response: metadata("response", written.response.as_ref(), false),
        };
        let metadata = if metadata.is_empty() { Setting::Off } else { Setting::Metadata(metadata) };
        let settings = vec![(Filter::Transformation, Arc::new(setting)), (Filter::Metadata, Arc::new(metadata))];
        reading.piece("transformation", Piece::Filters(settings));
    }
}

/// Reads changes to headers, and separately those with values from Secrets.
pub(super) fn edits(
    field: &str,
    written: Option<&HeaderFilter>,
    reading: &mut Reading<'_, '_>,
) -> (HeaderEdits, HeaderEdits) {
    let (mut edits, mut secret) = (HeaderEdits::default(), HeaderEdits::default());
    let Some(written) = written else { return (edits, secret) };
    for (list, entries) in [("set", &written.set), ("add", &written.add)] {
        for (index, header) in entries.iter().flatten().enumerate() {
            let field = format!("spec.{field}.{list}[{index}]");
            if index >= ENTRIES_MAX {
                reading.invalid(field, format!("must have at most {ENTRIES_MAX} entries"));
                break;
            }
            match header {
                Header { name, value: None, secret_ref: Some(reference) } => {
                    secret_headers::read(&mut secret, list, &field, name.as_ref(), reference, reading);
                }
                Header { name: Some(name), value: Some(value), secret_ref: None } => {
                    put(&mut edits, list, &field, name, value, reading);
                }
                _ => reading.invalid(field, "either name and value must be set, or secretRef"),
            }
        }
    }
    remove(&mut edits, field, written.remove.as_deref(), reading);
    (edits, secret)
}

/// Checks whether a value contains a template.
pub(super) fn is_template(value: &str) -> bool {
    TEMPLATES.iter().any(|template| value.contains(template))
}

fn transform(field: &str, written: Option<&Transform>, reading: &mut Reading<'_, '_>) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    let Some(written) = written else { return edits };
    // Envoy's built-in filters do not change bodies.
    if written.body.as_ref().is_some_and(|body| body.parse_as.as_deref() != Some("None") || body.value.is_some()) {
        reading.unsupported(format!("{field}.body"));
    }
    for (list, entries) in [("set", &written.set), ("add", &written.add)] {
        for (index, Template { name, value }) in entries.iter().flatten().enumerate() {
            let entry = format!("{field}.{list}[{index}]");
            if index >= ENTRIES_MAX {
                reading.invalid(format!("spec.{field}.{list}"), format!("must have at most {ENTRIES_MAX} entries"));
                break;
            }
            let value = value.as_deref().unwrap_or_default();
            if is_template(value) {
                reading.unsupported(format!("{entry}.value"));
                continue;
            }
            put(&mut edits, list, &format!("spec.{entry}"), name, value, reading);
        }
    }
    remove(&mut edits, field, written.remove.as_deref(), reading);
    edits
}

fn put(edits: &mut HeaderEdits, list: &str, field: &str, name: &str, value: &str, reading: &mut Reading<'_, '_>) {
    let name: Arc<str> = match holdfast_check::header::modifiable_name(name) {
        Ok(name) => name.into(),
        Err(fault) => return reading.invalid(format!("{field}.name"), fault),
    };
    if let Err(fault) = holdfast_check::header::value(value) {
        return reading.invalid(format!("{field}.value"), fault);
    }
    let formatted = value.contains('%');
    if let Err(fault) = holdfast_check::format::check(value) {
        return reading.invalid(format!("{field}.value"), fault);
    }
    let entry = (name, Arc::from(value));
    match (list, formatted) {
        ("set", false) => edits.set.push(entry),
        ("set", true) => edits.set_formatted.push(entry),
        (_, false) => edits.add.push(entry),
        (_, true) => edits.add_formatted.push(entry),
    }
}

fn remove(edits: &mut HeaderEdits, field: &str, names: Option<&[Arc<str>]>, reading: &mut Reading<'_, '_>) {
    let names = names.unwrap_or_default();
    if names.len() > ENTRIES_MAX {
        reading.invalid(format!("spec.{field}.remove"), format!("must have at most {ENTRIES_MAX} entries"));
    }
    for (index, name) in names.iter().enumerate().take(ENTRIES_MAX) {
        match holdfast_check::header::modifiable_name(name) {
            Ok(name) => edits.remove.push(name.into()),
            Err(fault) => reading.invalid(format!("spec.{field}.remove[{index}]"), fault),
        }
    }
}
