//! Dynamic metadata of transformations: a text, or a header of the request.

use holdfast_api::apis::kgateway::headers::MetadataTransform;
use holdfast_envoy::features::metadata::{ENTRIES_MAX, MetadataEntry, MetadataSource};

use super::headers::is_template;
use super::reading::Reading;

/// Maximum length of a namespace or key in characters; the limit of the CRD.
const NAME_CHARS_MAX: usize = 256;

/// Reads the entries of one direction; `is_request` is true for requests.
pub(super) fn read(
    field: &str,
    written: &[MetadataTransform],
    is_request: bool,
    reading: &mut Reading<'_, '_>,
) -> Vec<MetadataEntry> {
    let mut entries = Vec::new();
    if written.len() > ENTRIES_MAX {
        reading.invalid(format!("spec.{field}"), format!("must have at most {ENTRIES_MAX} entries"));
    }
    for (index, transform) in written.iter().enumerate().take(ENTRIES_MAX) {
        let field = format!("{field}[{index}]");
        let namespace = transform.namespace.clone().unwrap_or_default();
        for (below, name) in [("namespace", &namespace), ("key", &transform.key)] {
            if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
                reading.invalid(format!("spec.{field}.{below}"), format!("has 1 to {NAME_CHARS_MAX} characters"));
            }
        }
        let Some(value) = transform.value.as_ref().and_then(|value| value.string_value.as_ref()) else {
            reading.invalid(format!("spec.{field}.value"), "stringValue must be set");
            continue;
        };
        let value = if let Some(header) = holdfast_check::format::single_header(value).filter(|_| is_request) {
            MetadataSource::Header(header.to_ascii_lowercase().into())
        } else if value.is_empty() {
            reading.invalid(format!("spec.{field}.value.stringValue"), "must not be empty");
            continue;
        } else if is_template(value) || value.replace("%%", "").contains('%') {
            // Envoy's filter supports an unchanged header value or a text.
            reading.unsupported(format!("{field}.value.stringValue"));
            continue;
        } else {
            MetadataSource::Text(value.replace("%%", "%").into())
        };
        entries.push(MetadataEntry { namespace, key: transform.key.clone(), value });
    }
    entries
}
