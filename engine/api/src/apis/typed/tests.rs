//! Values, messages and paths, compared with those of `serde_json`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{TypedValue, read};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    port: Option<u16>,
    #[serde(default)]
    weights: Vec<f64>,
    #[serde(default)]
    labels: BTreeMap<String, Level>,
    inner: Option<Box<Rule>>,
    any: Option<Value>,
    pair: Option<(i32, bool)>,
}

#[derive(Debug, PartialEq, Deserialize)]
enum Level {
    Low,
    High,
    Exact(i8),
    Between { from: i8, to: i8 },
}

fn unknown(value: &Value) -> Vec<String> {
    read::<Vec<Rule>>(value).unknown.into_iter().map(|unknown| unknown.path).collect()
}

fn error(value: &Value) -> (String, String) {
    let error = read::<Vec<Rule>>(value).result.unwrap_err();
    (error.path, error.message)
}

#[test]
fn values_are_read_as_by_serde_json() {
    let whole = json!([
        {"name": "a", "port": 80, "weights": [1, 2.5, -3], "any": {"x": [null, "y"]}, "pair": [-4, true]},
        {"name": "b", "port": null, "labels": {"l": "Low", "h": "High", "e": {"Exact": 3}}},
        {"name": "c", "inner": {"name": "d", "labels": {"r": {"Between": {"from": 1, "to": 2}}}}},
    ]);
    let TypedValue { result, unknown } = read::<Vec<Rule>>(&whole);
    assert_eq!(result.unwrap(), serde_json::from_value::<Vec<Rule>>(whole).unwrap());
    assert_eq!(unknown, []);
}

#[test]
fn messages_are_those_of_serde_json() {
    for broken in [
        json!(null),
        json!({"name": "a"}),
        json!([null]),
        json!([{"name": null}]),
        json!([{}]),
        json!([{"name": 5}]),
        json!([{"name": "a", "port": "80"}]),
        json!([{"name": "a", "port": 70000}]),
        json!([{"name": "a", "port": -1}]),
        json!([{"name": "a", "port": 1.5}]),
        json!([{"name": "a", "weights": {}}]),
        json!([{"name": "a", "weights": ["x"]}]),
        json!([{"name": "a", "labels": []}]),
        json!([{"name": "a", "labels": {"l": "Medium"}}]),
        json!([{"name": "a", "labels": {"l": 1}}]),
        json!([{"name": "a", "labels": {"l": "Exact"}}]),
        json!([{"name": "a", "labels": {"l": {}}}]),
        json!([{"name": "a", "labels": {"l": {"Low": null, "High": null}}}]),
        json!([{"name": "a", "pair": [1, true, 2]}]),
        json!([{"name": "a", "pair": [1]}]),
        json!([{"name": "a", "inner": 1.25}]),
    ] {
        let expected = serde_json::from_value::<Vec<Rule>>(broken.clone()).unwrap_err().to_string();
        assert_eq!(error(&broken).1, expected, "{broken}");
    }
}

#[test]
fn errors_have_the_path_of_the_innermost_value() {
    let path = |value: &Value| error(value).0;
    assert_eq!(path(&json!("a")), "");
    assert_eq!(path(&json!([{"name": "a"}, {}])), "[1]");
    assert_eq!(path(&json!([{"name": "a", "inner": {"name": "b", "port": "x"}}])), "[0].inner.port");
    assert_eq!(path(&json!([{"name": "a", "weights": [1, "x"]}])), "[0].weights[1]");
    assert_eq!(path(&json!([{"name": "a", "labels": {"l": "Medium"}}])), "[0].labels.l");
    assert_eq!(path(&json!([{"name": "a", "labels": {"l": {"Exact": "x"}}}])), "[0].labels.l.Exact");
}

#[test]
fn unknown_fields_have_paths() {
    let value = json!([{"name": "a", "prot": 1, "inner": {"name": "b", "x": {"y": {}}, "any": {"z": 1}}}]);
    assert_eq!(unknown(&value), ["[0].inner.x", "[0].prot"]);
}

#[test]
fn a_list_is_not_an_object() {
    let list = json!([["a", 80, [], {}, null, null, null]]);
    assert_eq!(error(&list), ("[0]".into(), "invalid type: sequence, expected struct Rule".into()));
}

#[test]
fn a_misspelt_field_is_compared_with_the_absent_fields_of_its_object() {
    let meant = |value: Value| {
        let unknown = read::<Vec<Rule>>(&json!([value])).unknown;
        unknown.into_iter().map(|unknown| (unknown.path, unknown.meant)).collect::<Vec<_>>()
    };
    assert_eq!(meant(json!({"name": "a", "prot": 80})), [("[0].prot".to_owned(), Some("port"))]);
    assert_eq!(meant(json!({"name": "a", "weight": 1})), [("[0].weight".to_owned(), Some("weights"))]);
    assert_eq!(meant(json!({"name": "a", "weights": [], "weight": 1})), [("[0].weight".to_owned(), None)]);
    assert_eq!(meant(json!({"name": "a", "timeouts": {}})), [("[0].timeouts".to_owned(), None)]);
    let inner = json!({"name": "a", "inner": {"name": "b", "Labels": {}}});
    assert_eq!(meant(inner), [("[0].inner.Labels".to_owned(), Some("labels"))]);
    let mut many: serde_json::Map<String, Value> = (0..100).map(|index| (format!("x{index:02}"), json!(1))).collect();
    many.insert("zort".into(), json!(1));
    many.insert("name".into(), json!("a"));
    assert_eq!(meant(Value::Object(many)).last().unwrap().1, None);
}
