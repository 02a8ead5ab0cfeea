//! Formats of log entries and response bodies: text with Envoy's command operators, or an object of such texts.
//!
//! Objects are encoded by hand: the maps in Envoy's messages have no defined order.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format as EnvoyFormat;
use envoy_types::pb::envoy::config::core::v3::{DataSource, SubstitutionFormatString, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::formatter::metadata::v3::Metadata;
use envoy_types::pb::envoy::extensions::formatter::req_without_query::v3::ReqWithoutQuery;
use holdfast_check::log_format;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use crate::encode::{any, entry};

/// Maximum length of a format as written in the policy, in bytes.
pub const FORMAT_BYTES_MAX: usize = 16 * 1024;
/// Command operators that would expose data outside of a policy's scope: Envoy's environment, files and secrets.
pub const FORBIDDEN: [&str; 3] = ["%ENVIRONMENT(", "%FILE_CONTENT(", "%SECRET("];

/// Field number of `SubstitutionFormatString.json_format`.
const JSON_FIELD: u32 = 2;
/// Field number of `Struct.fields`.
const FIELDS: u32 = 1;
/// Field numbers of `Value`: `null_value`, `number_value`, `string_value`, `bool_value`, `struct_value` and
/// `list_value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;
/// Field number of `ListValue.values`.
const VALUES: u32 = 1;

/// A format.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// Text.
    Text(Arc<str>),
    /// An object.
    Json(Map<String, Value>),
}

/// A format with the content type of the resulting body.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalReplyBody {
    /// The format.
    pub format: Format,
    /// The content type; the default for the format where unset.
    pub content_type: Option<Arc<str>>,
}

impl Format {
    /// Returns what is wrong with the format, as far as this is known without Envoy.
    pub fn check(&self) -> Option<String> {
        let written = match self {
            Format::Text(text) => text.to_string(),
            Format::Json(fields) => Value::Object(fields.clone()).to_string(),
        };
        if written.is_empty() {
            return Some("must not be empty".into());
        }
        if written.len() > FORMAT_BYTES_MAX {
            return Some(format!("must have at most {FORMAT_BYTES_MAX} bytes"));
        }
        if let Some(command) = FORBIDDEN.iter().find(|command| written.contains(*command)) {
            return Some(format!("the command {command}…)% is not allowed: it reads data of the Envoy process"));
        }
        let known = match self {
            Format::Text(text) => log_format::check(text),
            Format::Json(fields) => fields.values().try_for_each(log_format::every_text),
        };
        known.err().map(|fault| fault.to_string())
    }

    /// Encodes the format as Envoy's `SubstitutionFormatString`.
    pub(super) fn encode(&self, content_type: Option<&str>, formatters: bool) -> Vec<u8> {
        let formatter = |name: &str, config| TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
        let mut envoy =
            SubstitutionFormatString { content_type: content_type.unwrap_or_default().into(), ..Default::default() };
        if formatters {
            envoy.formatters = vec![
                formatter("envoy.formatter.req_without_query", any(&ReqWithoutQuery::default())),
                formatter("envoy.formatter.metadata", any(&Metadata::default())),
            ];
        }
        match self {
            Format::Text(text) => {
                let specifier = Some(Specifier::InlineString(text.to_string()));
                envoy.format = Some(EnvoyFormat::TextFormatSource(DataSource { specifier, ..Default::default() }));
                envoy.encode_to_vec()
            }
            Format::Json(fields) => {
                let mut bytes = envoy.encode_to_vec();
                message(JSON_FIELD, &object(fields), &mut bytes);
                bytes
            }
        }
    }
}

/// Appends an encoded message as a field of another message.
pub(super) fn message(field: u32, content: &[u8], bytes: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

/// Encodes a `Struct`, with its fields in the order of their names.
fn object(fields: &Map<String, Value>) -> Vec<u8> {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    let mut bytes = Vec::new();
    for (name, value) in sorted {
        entry(FIELDS, name, |bytes| message(2, &self::value(value), bytes), &mut bytes);
    }
    bytes
}

/// Encodes a `Value`.
fn value(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        Value::Null => prost::encoding::int32::encode(NULL, &0, &mut bytes),
        Value::Bool(flag) => prost::encoding::bool::encode(BOOL, flag, &mut bytes),
        Value::Number(number) => {
            prost::encoding::double::encode(NUMBER, &number.as_f64().unwrap_or_default(), &mut bytes);
        }
        Value::String(text) => prost::encoding::string::encode(STRING, text, &mut bytes),
        Value::Array(values) => {
            let mut list = Vec::new();
            values.iter().for_each(|value| message(VALUES, &self::value(value), &mut list));
            message(LIST, &list, &mut bytes);
        }
        Value::Object(fields) => message(STRUCT, &object(fields), &mut bytes),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_what_envoy_reads_whatever_the_order_of_their_fields() {
        let written = json!({"b": "%PROTOCOL%", "a": {"x": [1, true, null, {"y": "z"}]}});
        let Value::Object(fields) = written else { unreachable!() };
        let bytes = Format::Json(fields.clone()).encode(Some("application/x"), false);
        let read = SubstitutionFormatString::decode(&*bytes).unwrap_or_default();
        assert_eq!(read.content_type, "application/x");
        let Some(EnvoyFormat::JsonFormat(read)) = read.format else { unreachable!("{read:?}") };
        assert_eq!(read.fields.len(), 2);
        let shown = format!("{:?}", read.fields["a"]);
        for part in ["NumberValue(1.0)", "BoolValue(true)", "NullValue", "StringValue(\"z\")"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        let other: Map<String, Value> = fields.into_iter().rev().collect();
        assert_eq!(Format::Json(other).encode(Some("application/x"), false), bytes);
    }

    #[test]
    fn formats_cannot_reveal_data_of_the_envoy_host() {
        for wrong in ["", "%ENVIRONMENT(HOME)%", "a%FILE_CONTENT(/etc/passwd)%"] {
            assert!(Format::Text(wrong.into()).check().is_some(), "{wrong}");
        }
        assert!(Format::Text("%BOGUS(%".into()).check().is_some());
        let Value::Object(nested) = json!({"a": {"b": "%SECRET(x)%"}}) else { unreachable!() };
        assert!(Format::Json(nested).check().is_some());
    }
}
