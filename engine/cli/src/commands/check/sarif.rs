//! The report in SARIF 2.1.0. <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report::{CheckFinding, CheckSeverity, Report};

/// The schema of the output.
const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The findings as a SARIF log with one run.
pub(super) fn format(report: &Report) -> Value {
    let rules: Vec<&str> = report.findings.iter().map(|f| f.reason).collect::<BTreeSet<_>>().into_iter().collect();
    let results: Vec<Value> = report.findings.iter().map(|finding| result(finding, &rules)).collect();
    let rules: Vec<Value> = rules.into_iter().map(|rule| json!({ "id": rule, "name": rule })).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "holdfast", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(finding: &CheckFinding, rules: &[&str]) -> Value {
    let mut text = String::new();
    for part in [&finding.object, &finding.field] {
        if !part.is_empty() {
            text.push_str(part);
            text.push_str(": ");
        }
    }
    text.push_str(&finding.message);
    json!({
        "ruleId": finding.reason,
        "ruleIndex": rules.iter().position(|rule| *rule == finding.reason),
        "level": match finding.severity {
            CheckSeverity::Error => "error",
            CheckSeverity::Warning => "warning",
        },
        "message": { "text": text },
        "locations": locations(finding),
    })
}

fn locations(finding: &CheckFinding) -> Vec<Value> {
    let mut location = serde_json::Map::new();
    if !finding.file.is_empty() {
        let mut physical = json!({ "artifactLocation": { "uri": uri(&finding.file) } });
        if let (Some(fields), true) = (physical.as_object_mut(), finding.line > 0) {
            let mut region = json!({ "startLine": finding.line });
            if let (Some(region), true) = (region.as_object_mut(), finding.column > 0) {
                region.insert("startColumn".into(), finding.column.into());
            }
            fields.insert("region".into(), region);
        }
        location.insert("physicalLocation".into(), physical);
    }
    if !finding.object.is_empty() {
        let name = if finding.field.is_empty() {
            finding.object.clone()
        } else {
            format!("{}: {}", finding.object, finding.field)
        };
        location.insert("logicalLocations".into(), json!([{ "fullyQualifiedName": name, "kind": "object" }]));
    }
    if location.is_empty() { Vec::new() } else { vec![Value::Object(location)] }
}

/// A path as a URI reference. Relative paths stay relative to the working directory of the check.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.strip_prefix("./").unwrap_or(path).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_uri_references() {
        assert_eq!(uri("./a b/c.yaml"), "a%20b/c.yaml");
        assert_eq!(uri("/x/ü.yaml"), "file:///x/%C3%BC.yaml");
    }
}
