//! YAML for review: keys in order, short values on one line.

use serde_json::Value;

/// Limit in columns of a line with more than one value.
const WIDTH: usize = 120;

/// Returns a value as YAML, with a line break at the end.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                text.push_str(&pad);
                entry(&format!("{}:", scalar(key)), value, indent, text);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for value in values {
                text.push_str(&pad);
                item(value, indent, text);
            }
        }
        value => {
            text.push_str(&pad);
            text.push_str(&flow(value));
            text.push('\n');
        }
    }
}

/// Writes a short value as `key: value`, any other value below its key.
fn entry(key: &str, value: &Value, indent: usize, text: &mut String) {
    let line = flow(value);
    text.push_str(key);
    if is_short(value, &line, indent + key.len()) {
        text.push(' ');
        text.push_str(&line);
        text.push('\n');
    } else {
        text.push('\n');
        block(value, indent + 2, text);
    }
}

fn item(value: &Value, indent: usize, text: &mut String) {
    let line = flow(value);
    if is_short(value, &line, indent + 2) {
        text.push_str("- ");
        text.push_str(&line);
        text.push('\n');
        return;
    }
    let mut inner = String::new();
    block(value, indent + 2, &mut inner);
    text.push_str("- ");
    text.push_str(inner.trim_start());
}

fn is_short(value: &Value, line: &str, column: usize) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty() || column + line.len() < WIDTH,
        Value::Array(values) => {
            let plain = values.iter().all(|value| !value.is_object() && !value.is_array());
            values.is_empty() || (plain && column + line.len() < WIDTH)
        }
        _ => true,
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(flow).collect();
            format!("[{}]", values.join(", "))
        }
        Value::String(text) => scalar(text),
        value => value.to_string(),
    }
}

/// Returns a text unchanged if it cannot be read as another value, otherwise in quotation marks.
fn scalar(text: &str) -> String {
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+()=;^$ ".contains(c);
    let is_plain = begins_well && text.chars().all(plain) && !text.ends_with(' ');
    let means_something = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_plain && !means_something { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}
