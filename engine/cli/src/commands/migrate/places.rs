//! The values of an object at the place of a rule, each with its path.

use serde_json::Value;

use super::rules::RulePlace;
use super::source::is_below;

/// A value at a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedValue<'a> {
    /// The field as reports show it, as in `metadata.annotations[konghq.com/plugins]`; empty for the whole object.
    pub(super) field: String,
    /// The value.
    pub(super) value: &'a Value,
}

impl PlacedValue<'_> {
    /// The field as the positions of a document name it: without brackets around the names of annotations and labels.
    pub(super) fn path(field: &str) -> String {
        for map in ["metadata.annotations", "metadata.labels"] {
            let name = field.strip_prefix(map).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
            if let Some(name) = name {
                return format!("{map}.{name}");
            }
        }
        field.to_owned()
    }
}

/// Returns the values of an object at a place.
pub(super) fn values(document: &Value, at: RulePlace) -> Vec<PlacedValue<'_>> {
    match at {
        RulePlace::Object => vec![PlacedValue { field: String::new(), value: document }],
        RulePlace::Field(pattern) => below(document, pattern),
        RulePlace::Annotation(name) => metadata(document, "annotations", |it| it == name),
        RulePlace::Label(name) => metadata(document, "labels", |it| it == name),
        RulePlace::Annotations { domain, except } => metadata(document, "annotations", |it| {
            let of = it.split_once('/').map_or("", |(of, _)| of);
            is_below(of, domain) && !except.contains(&it)
        }),
    }
}

/// The annotations or labels with a name.
fn metadata<'a>(document: &'a Value, map: &str, is_named: impl Fn(&str) -> bool) -> Vec<PlacedValue<'a>> {
    let entries = document.get("metadata").and_then(|metadata| metadata.get(map)).and_then(Value::as_object);
    let named = entries.into_iter().flatten().filter(|(name, _)| is_named(name));
    named.map(|(name, value)| PlacedValue { field: format!("metadata.{map}[{name}]"), value }).collect()
}

/// The values below a pattern.
fn below<'a>(document: &'a Value, pattern: &str) -> Vec<PlacedValue<'a>> {
    let mut found = vec![PlacedValue { field: String::new(), value: document }];
    for part in pattern.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        found = found.into_iter().flat_map(|at| step(&at, name, is_list)).collect();
    }
    found
}

fn step<'a>(at: &PlacedValue<'a>, name: &str, is_list: bool) -> Vec<PlacedValue<'a>> {
    let Some(value) = at.value.get(name).filter(|value| !value.is_null()) else { return Vec::new() };
    let point = if at.field.is_empty() { "" } else { "." };
    let field = format!("{}{point}{name}", at.field);
    if !is_list {
        return vec![PlacedValue { field, value }];
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    items.map(|(index, value)| PlacedValue { field: format!("{field}[{index}]"), value }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_with_their_fields() {
        let object = json!({
            "metadata": {"annotations": {"a.konghq.com/x": "1", "konghq.com/y": "2", "xkonghq.com/z": "3"}},
            "spec": {"rules": [{"refs": [{"kind": "A"}, {}]}, {"refs": [{"kind": "B"}]}, {"refs": "text"}]},
        });
        let fields = |at: RulePlace| values(&object, at).into_iter().map(|it| it.field).collect::<Vec<_>>();
        assert_eq!(fields(RulePlace::Object), [""]);
        assert_eq!(
            fields(RulePlace::Field("spec.rules[].refs[].kind")),
            ["spec.rules[0].refs[0].kind", "spec.rules[1].refs[0].kind"]
        );
        assert_eq!(
            fields(RulePlace::Annotations { domain: "konghq.com", except: &["konghq.com/y"] }),
            ["metadata.annotations[a.konghq.com/x]"]
        );
        assert_eq!(fields(RulePlace::Annotation("konghq.com/y")), ["metadata.annotations[konghq.com/y]"]);
        assert_eq!(fields(RulePlace::Label("konghq.com/y")), [""; 0]);
        assert_eq!(PlacedValue::path("metadata.annotations[konghq.com/y]"), "metadata.annotations.konghq.com/y");
        assert_eq!(PlacedValue::path("spec.rules[0]"), "spec.rules[0]");
    }
}
