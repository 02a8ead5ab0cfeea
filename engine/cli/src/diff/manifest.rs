//! The manifest of an object against what is served of it.

use std::collections::BTreeMap;

use holdfast_api::apis::shown::shown;
use holdfast_api::object::Object;
use holdfast_api::section::field;
use serde_json::Value;

use super::lines::{DiffLine, compare};
use crate::cli::DataFormat;
use crate::manifests::field_line;
use crate::output;

/// What is served of an object.
pub(super) enum ServedContent<'a> {
    /// An earlier version.
    Earlier(&'a Object),
    /// The desired version, with a note in place of each section that is not served.
    Desired,
    /// Nothing of it, for this reason.
    Nothing(String),
}

/// A fault of a field: the path of the field, and the message.
pub(super) type FieldFault<'a> = (&'a str, &'a str);

/// Returns the differences between what is served of an object and its desired version. `closed` has a note for each
/// section of the served version that is not served. `desired` is unset if the object cannot be read, `faults` are those
/// of the desired version.
pub(super) fn difference(
    desired: Option<&Object>,
    served: &ServedContent<'_>,
    closed: &[(&str, String)],
    faults: &[FieldFault<'_>],
) -> Vec<DiffLine> {
    let desired = match desired {
        None => None,
        Some(object) => match shown(object) {
            Some(document) => Some(document),
            // No document is kept of this kind.
            None => return Vec::new(),
        },
    };
    let served = match served {
        ServedContent::Nothing(why) => format!("# {why}\n"),
        ServedContent::Desired => {
            desired.clone().map(|document| text(&with_notes(document, closed))).unwrap_or_default()
        }
        ServedContent::Earlier(object) => {
            shown(object).map(|document| text(&with_notes(document, closed))).unwrap_or_default()
        }
    };
    let desired = desired.map_or_else(|| "# cannot be read\n".to_owned(), |document| text(&document));
    let mut at = BTreeMap::<usize, String>::new();
    for (path, message) in faults {
        // Lines are counted from 1.
        let Some(line) = field_line(&desired, path).map(|line| line.saturating_sub(1) as usize) else { continue };
        let known = at.entry(line).or_default();
        if !known.is_empty() {
            known.push_str("; ");
        }
        known.push_str(message);
    }
    compare(&served, &desired, &at)
}

fn with_notes(mut document: Value, closed: &[(&str, String)]) -> Value {
    for (section, note) in closed {
        replace(&mut document, section, format!("[{note}]").into());
    }
    document
}

/// Replaces a section of a document, if the document has it.
fn replace(document: &mut Value, section: &str, by: Value) {
    let Some(pointer) = pointer(document, section) else { return };
    if let Some(place) = document.pointer_mut(&pointer) {
        *place = by;
    }
}

/// Returns the JSON pointer (RFC 6901) of a section of a document; `None` if it has no such section. The entries of lists
/// are given by index, and listeners also by name.
fn pointer(document: &Value, section: &str) -> Option<String> {
    let mut pointer = String::new();
    for part in field(section).split('.') {
        let (name, index) = part.split_once('[').map_or((part, None), |(name, rest)| (name, rest.strip_suffix(']')));
        pointer.push_str(&format!("/{name}"));
        if let Some(index) = index {
            let list = document.pointer(&pointer)?.as_array()?;
            let has_name = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(index);
            let position = index.parse::<usize>().ok().or_else(|| list.iter().position(has_name))?;
            pointer.push_str(&format!("/{position}"));
        }
    }
    document.pointer(&pointer).map(|_| pointer)
}

/// A value as YAML; empty where it cannot be written, which no JSON value is known to cause.
pub(super) fn text(value: &Value) -> String {
    output::format(value, DataFormat::Yaml).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::apis::{Decoded, decode};
    use serde_json::json;

    use super::*;

    fn route(second: &str) -> Object {
        let rule = |path: &str| json!({"matches": [{"path": {"type": "RegularExpression", "value": path}}]});
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"rules": [rule("/a"), rule(second)]},
        });
        match decode(manifest, None) {
            Decoded::Object(object, _) => *object,
            other => unreachable!("{other:?}"),
        }
    }

    fn changed(lines: &[DiffLine]) -> Vec<String> {
        let changed = lines.iter().filter(|line| matches!(line.sign, '-' | '+'));
        changed.map(|line| format!("{}{}{}", line.sign, line.text, line.fault.as_deref().unwrap_or_default())).collect()
    }

    #[test]
    fn the_field_at_fault_is_marked_against_an_earlier_version() {
        let (desired, earlier) = (route("/b["), route("/b"));
        let faults = [("spec.rules[1].matches[0].path.value", " <- missing ]")];
        let lines = difference(Some(&desired), &ServedContent::Earlier(&earlier), &[], &faults);
        assert_eq!(changed(&lines), ["-        value: /b", "+        value: /b[ <- missing ]"]);
    }

    #[test]
    fn a_section_that_is_not_served_is_a_note() {
        let desired = route("/b[");
        let closed = [("rules[1]", "answers 404".to_owned()), ("rules[7]", "no such rule".to_owned())];
        let lines = changed(&difference(Some(&desired), &ServedContent::Desired, &closed, &[]));
        assert_eq!(lines.first().map(String::as_str), Some("-  - \"[answers 404]\""), "{lines:?}");
        assert!(lines.contains(&"+        value: /b[".to_owned()), "{lines:?}");
        let nothing = difference(Some(&desired), &ServedContent::Nothing("left out".into()), &[], &[]);
        assert_eq!(changed(&nothing).first().map(String::as_str), Some("-# left out"));
        let unreadable = difference(None, &ServedContent::Earlier(&desired), &[], &[]);
        assert_eq!(changed(&unreadable).last().map(String::as_str), Some("+# cannot be read"));
    }

    #[test]
    fn listeners_are_found_by_name() {
        let document = json!({"spec": {"listeners": [{"name": "a"}, {"name": "b"}], "virtualhost": {}}});
        assert_eq!(pointer(&document, "listeners[b]").as_deref(), Some("/spec/listeners/1"));
        assert_eq!(pointer(&document, "virtualhost").as_deref(), Some("/spec/virtualhost"));
        assert_eq!(pointer(&document, "listeners[c]"), None);
        assert_eq!(pointer(&document, "rules[0]"), None);
    }
}
