//! Values of the chart: values.yaml, its schema and the README agree.

use std::fmt::Write;

use holdfast_cli::arguments;
use serde_json::{Map, Value};

use super::{path, text, yaml};

/// Lines before and after the table of values in the README.
const TABLE: (&str, &str) = ("<!-- values: made from values.yaml -->", "<!-- end of values -->");
/// Values that Helm adds for the subcharts of a chart.
const OF_HELM: [&str; 4] = ["contour-crds", "gateway-api-crds", "global", "kgateway-crds"];

fn schema() -> Value {
    serde_json::from_str(&text("values.schema.json")).unwrap()
}

/// One value: its path, and the comment above it.
struct ValueLine {
    path: Vec<String>,
    comment: String,
}

/// Returns the lines of values.yaml that the schema describes, in order.
fn lines(schema: &Value) -> Vec<ValueLine> {
    let (mut lines, mut path, mut comment) = (Vec::new(), Vec::<String>::new(), String::new());
    for line in text("values.yaml").lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("# ") {
            comment = rest.to_owned();
            continue;
        }
        let Some((key, _)) = line.split_once(':') else { continue };
        path.truncate(indent / 2);
        path.push(key.to_owned());
        if described(schema, &path).is_some() {
            lines.push(ValueLine { path: path.clone(), comment: std::mem::take(&mut comment) });
        }
    }
    lines
}

fn described<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |node, key| node.get("properties")?.get(key))
}

fn at<'a>(values: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(values, |node, key| &node[key])
}

#[test]
fn every_value_is_described_once_and_the_same_everywhere() {
    let (schema, values) = (schema(), yaml("values.yaml"));
    let lines = lines(&schema);
    for line in &lines {
        let node = described(&schema, &line.path).unwrap();
        assert_eq!(node["description"], *line.comment, "{}", line.path.join("."));
    }
    let mut in_schema = Vec::new();
    collect(&schema, &mut Vec::new(), &mut in_schema);
    for path in in_schema.iter().filter(|path| !OF_HELM.contains(&path[0].as_str())) {
        assert!(lines.iter().any(|line| line.path == *path), "values.yaml lacks {}", path.join("."));
        assert!(!at(&values, path).is_null(), "{} has no default", path.join("."));
    }
    assert_eq!(lines.len() + OF_HELM.len(), in_schema.len());
}

/// Collects the paths of all values, and checks that each group rejects unknown values.
fn collect(node: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
    assert_eq!(node["additionalProperties"], false, "{} takes anything", path.join("."));
    for (name, below) in properties {
        path.push(name.clone());
        assert!(below["description"].is_string() && below["type"].is_string(), "{}", path.join("."));
        found.push(path.clone());
        collect(below, path, found);
        path.pop();
    }
}

#[test]
fn every_default_is_of_its_type() {
    let (schema, values) = (schema(), yaml("values.yaml"));
    for line in lines(&schema) {
        let (node, value) = (described(&schema, &line.path).unwrap(), at(&values, &line.path));
        let fits = match node["type"].as_str().unwrap() {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other}"),
        };
        assert!(fits, "{}: {value}", line.path.join("."));
    }
}

#[test]
fn the_readme_has_a_row_for_each_value() {
    let (schema, values) = (schema(), yaml("values.yaml"));
    let mut table = String::from("| Value | Default | What |\n| --- | --- | --- |\n");
    for line in lines(&schema) {
        let node = described(&schema, &line.path).unwrap();
        if node.get("properties").is_none() {
            let default = at(&values, &line.path).to_string();
            writeln!(table, "| `{}` | `{default}` | {} |", line.path.join("."), line.comment.replace('|', "\\|"))
                .unwrap();
        }
    }
    holdfast_golden::check_block(path("README.md"), TABLE, &table);
}

#[test]
fn the_gates_are_those_of_the_program_with_their_defaults() {
    let gates: Map<String, Value> =
        arguments::gates().map(|(name, default)| (name.to_owned(), Value::Bool(default))).collect();
    assert_eq!(yaml("values.yaml")["featureGates"], Value::Object(gates));
}
