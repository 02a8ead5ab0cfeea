//! JSON values as YAML text: the files that Envoy reads, and the documents that commands print.

use serde_json::Value;

/// Returns a value as YAML, with its keys in order.
///
/// # Errors
/// Returns no error in practice: every JSON value can be written.
pub fn text(value: &Value) -> Result<String, serde_saphyr::SerializeError> {
    // Each value is on one line, whatever its length, so that a text search finds it.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = serde_saphyr::to_string_with_options(value, options)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
