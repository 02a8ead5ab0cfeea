//! Settings of another gateway against a table: each setting that is written, with what Holdfast has instead.

use serde_json::Value;

use super::rules::{MigrationInstead, SettingTable};
use crate::manifests::yaml;

/// Maximum number of settings of one object that are reported; further ones are only counted.
const SETTINGS_LISTED_MAX: usize = 1000;

/// A setting that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenSetting {
    /// The field of the object.
    pub(super) field: String,
    /// A sentence.
    pub(super) message: String,
    /// What Holdfast has instead.
    pub(super) instead: Option<MigrationInstead>,
}

/// Returns the settings of an object; none if the object is of another kind than the table.
pub(super) fn written(table: &SettingTable, group: &str, kind: &str, document: &Value) -> Vec<WrittenSetting> {
    if (group, kind) != table.of {
        return Vec::new();
    }
    if !table.is_text {
        return document.get(table.field).map(|value| listed(table, table.field, value)).unwrap_or_default();
    }
    let text = document.get("data").and_then(|data| data.get(table.field)).and_then(Value::as_str);
    let Some(text) = text else { return Vec::new() };
    let field = format!("data.{}", table.field);
    let (documents, errors) = yaml::parse(text);
    let mut found: Vec<WrittenSetting> =
        documents.iter().flat_map(|document| listed(table, &field, &document.value)).collect();
    found.extend(errors.iter().map(|error| WrittenSetting {
        field: field.clone(),
        message: format!("line {} of the text cannot be read: {}", error.line, error.message),
        instead: None,
    }));
    found
}

fn listed(table: &SettingTable, field: &str, value: &Value) -> Vec<WrittenSetting> {
    let mut paths = Vec::new();
    leaves(value, "", &mut paths);
    let mut found: Vec<WrittenSetting> = Vec::new();
    let mut passed = 0;
    for path in &paths {
        let setting = setting(table, field, path);
        if found.contains(&setting) {
            continue;
        }
        if found.len() < SETTINGS_LISTED_MAX { found.push(setting) } else { passed += 1 }
    }
    if passed > 0 {
        let message = format!("{passed} more settings: {}", table.unknown);
        found.push(WrittenSetting { field: field.to_owned(), message, instead: None });
    }
    found
}

/// The setting at a path: of the row with the longest path at or above it.
fn setting(table: &SettingTable, field: &str, path: &str) -> WrittenSetting {
    let is_at = |row: &str| path.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let row = table.rows().filter(|row| is_at(row.path)).max_by_key(|row| row.path.len());
    match row {
        Some(row) => WrittenSetting {
            field: format!("{field}.{}", row.path),
            message: table.known.to_owned(),
            instead: Some(MigrationInstead { text: row.instead, yaml: "" }),
        },
        None => {
            let point = if path.is_empty() { "" } else { "." };
            WrittenSetting { field: format!("{field}{point}{path}"), message: table.unknown.to_owned(), instead: None }
        }
    }
}

/// The paths of all values that are no mappings, in order. A mapping is as deep as a document may be.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let point = if path.is_empty() { "" } else { "." };
            for (name, value) in fields {
                leaves(value, &format!("{path}{point}{name}"), found);
            }
        }
        Value::Null => {}
        _ => found.push(path.to_owned()),
    }
}
