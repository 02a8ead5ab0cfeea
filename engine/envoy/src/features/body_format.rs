//! Bodies of direct responses that Envoy generates from a format string.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::config::core::v3::{DataSource, SubstitutionFormatString};
use prost::Message;
use prost::encoding::{bool, bytes, double, int32, string};
use serde_json::Value;

use crate::encode::entry;

/// Field number of `SubstitutionFormatString.json_format`.
const JSON_FORMAT: u32 = 2;
/// Field numbers of `Struct.fields`, and of `value` in a map entry.
const FIELDS: u32 = 1;
const VALUE: u32 = 2;
/// Field numbers of `Value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const TEXT: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;
/// Field number of `ListValue.values`.
const VALUES: u32 = 1;

/// A format string, and the content type of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseBodyFormat {
    format: Written,
    /// The content type; Envoy's default for text or JSON where unset.
    content_type: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Written {
    Text(Arc<str>),
    Json(Value),
}

impl ResponseBodyFormat {
    /// Creates a format from checked input: the text, or else the JSON.
    pub fn new(text: Option<&Arc<str>>, json: Option<&Value>, content_type: Option<&Arc<str>>) -> Self {
        let json = || Written::Json(json.cloned().unwrap_or_default());
        let format = text.map_or_else(json, |text| Written::Text(text.clone()));
        Self { format, content_type: content_type.cloned() }
    }

    /// Encodes the format for Envoy as bytes, with the entries of maps in the order of their keys.
    pub fn encode(&self) -> Vec<u8> {
        let mut format = SubstitutionFormatString {
            content_type: self.content_type.as_deref().unwrap_or_default().to_owned(),
            ..Default::default()
        };
        let json = match &self.format {
            Written::Text(text) => {
                let specifier = Some(Specifier::InlineString(text.to_string()));
                format.format = Some(Format::TextFormatSource(DataSource { specifier, ..Default::default() }));
                None
            }
            Written::Json(json) => Some(json),
        };
        let mut encoded = format.encode_to_vec();
        if let Some(Value::Object(fields)) = json {
            bytes::encode(JSON_FORMAT, &encoded_fields(fields), &mut encoded);
        }
        encoded
    }
}

fn encoded_fields(fields: &serde_json::Map<String, Value>) -> Vec<u8> {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    let mut encoded = Vec::new();
    for (name, value) in sorted {
        entry(FIELDS, name, |entry| bytes::encode(VALUE, &encoded_value(value), entry), &mut encoded);
    }
    encoded
}

fn encoded_value(value: &Value) -> Vec<u8> {
    let mut encoded = Vec::new();
    match value {
        Value::Null => int32::encode(NULL, &0, &mut encoded),
        Value::Bool(value) => bool::encode(BOOL, value, &mut encoded),
        Value::Number(number) => double::encode(NUMBER, &number.as_f64().unwrap_or_default(), &mut encoded),
        Value::String(text) => string::encode(TEXT, text, &mut encoded),
        Value::Object(fields) => bytes::encode(STRUCT, &encoded_fields(fields), &mut encoded),
        Value::Array(values) => {
            let mut list = Vec::new();
            for value in values {
                bytes::encode(VALUES, &encoded_value(value), &mut list);
            }
            bytes::encode(LIST, &list, &mut encoded);
        }
    }
    encoded
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_encoded_as_prost_decodes_it() {
        let value = json!({"a": "%REQ(a)%", "b": [1, true, null, {"c": -0.5, "d": {}}], "e": [], "f": "", "g": false});
        let bytes = ResponseBodyFormat::new(None, Some(&value), None).encode();
        let decoded = SubstitutionFormatString::decode(&*bytes).unwrap();
        let Some(Format::JsonFormat(fields)) = decoded.format else { unreachable!("{decoded:?}") };
        fn back(value: &envoy_types::pb::google::protobuf::Value) -> Value {
            use envoy_types::pb::google::protobuf::value::Kind;
            match value.kind.clone().unwrap() {
                Kind::NullValue(_) => Value::Null,
                Kind::NumberValue(number) => json!(number),
                Kind::StringValue(text) => json!(text),
                Kind::BoolValue(value) => json!(value),
                Kind::StructValue(fields) => of(fields),
                Kind::ListValue(list) => list.values.iter().map(back).collect(),
            }
        }
        fn of(fields: envoy_types::pb::google::protobuf::Struct) -> Value {
            fields.fields.iter().map(|(name, value)| (name.clone(), back(value))).collect()
        }
        let mut expected = value;
        expected["b"][0] = json!(1.0);
        assert_eq!(of(fields), expected);
        assert_eq!(bytes, ResponseBodyFormat::new(None, Some(&expected), None).encode());
    }
}
