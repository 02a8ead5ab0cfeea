//! The page about kgateway against its CRDs: every field has a row that names it, and every row names a field.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use holdfast_test_support as testing;
use serde_json::Value;

/// Sections of the page with the fields of a kind.
const SECTIONS: [&str; 6] =
    ["TrafficPolicy", "ListenerPolicy", "DirectResponse", "GatewayExtension", "Backend", "BackendConfigPolicy"];
/// The section with fields that have the same meaning at several places.
const SHARED: &str = "Fields of several kinds";
/// Fields that prose describes for all policies.
const ATTACHMENT: [&str; 2] = ["targetRefs", "targetSelectors"];

/// The first cell of a row, and the words that the row shows as code.
struct FieldRow {
    paths: Vec<Vec<String>>,
    words: BTreeSet<String>,
}

fn top(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns the texts between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn segments(path: &str) -> Vec<String> {
    path.split('.').map(|segment| segment.trim_end_matches("[]").to_owned()).collect()
}

/// Returns the rows of the tables of fields, by section: a level below counts as the section, unless it is shared.
fn rows(page: &str) -> BTreeMap<String, Vec<FieldRow>> {
    let (mut section, mut is_of_fields) = (String::new(), false);
    let mut rows: BTreeMap<String, Vec<FieldRow>> = BTreeMap::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ").filter(|it| *it == SHARED)) {
            section = title.to_owned();
        }
        let Some(row) = line.strip_prefix("| ") else {
            is_of_fields = false;
            continue;
        };
        is_of_fields |= row.starts_with("Field | Support |");
        let (first, _) = row.split_once(" | ").unwrap_or((row, ""));
        if !is_of_fields || !first.starts_with('`') {
            continue;
        }
        let named = first.split(" (").next().unwrap_or_default();
        let words = code(row).flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric()));
        let row = FieldRow { paths: code(named).map(segments).collect(), words: words.map(str::to_owned).collect() };
        rows.entry(section.clone()).or_default().push(row);
    }
    rows
}

/// Collects the fields of a schema without fields below them.
fn leaves(schema: &Value, path: &[String], found: &mut BTreeSet<Vec<String>>) {
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties.iter().for_each(|(name, schema)| {
            leaves(schema, &[path, std::slice::from_ref(name)].concat(), found);
        }),
        None => drop(found.insert(path.to_vec())),
    }
}

/// Returns the fields of the specs in the CRDs, by kind. What ListenerPolicies have for all ports and for single ones is
/// in the page once.
fn crds() -> BTreeMap<String, BTreeSet<Vec<String>>> {
    let mut kinds: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for entry in fs::read_dir(top("charts/crds/kgateway")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let crd = testing::documents(&fs::read_to_string(&path).unwrap()).remove(0);
        let fields = kinds.entry(crd["spec"]["names"]["kind"].as_str().unwrap().to_owned()).or_default();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let mut found = BTreeSet::new();
            leaves(&version["schema"]["openAPIV3Schema"]["properties"]["spec"], &[], &mut found);
            fields.extend(found.into_iter().map(|field| match &field[..] {
                [default, rest @ ..] if default == "default" => rest.to_vec(),
                [ports, listener, rest @ ..] if ports == "perPort" && listener == "listener" => rest.to_vec(),
                _ => field,
            }));
        }
    }
    kinds
}

/// Returns the part of a field that no row names, if there is one.
fn unnamed<'a>(field: &'a [String], own: &[FieldRow], shared: &[FieldRow]) -> Option<&'a str> {
    let row = own.iter().flat_map(|row| row.paths.iter().map(move |path| (path, row)));
    let Some((path, row)) = row.filter(|(path, _)| field.starts_with(path)).max_by_key(|(path, _)| path.len()) else {
        return field.first().map(String::as_str);
    };
    let mut naming = vec![row];
    let mut above = path.last();
    for segment in &field[path.len()..] {
        naming.extend(shared.iter().filter(|row| row.paths.iter().any(|path| path.last() == above)));
        if !naming.iter().any(|row| row.words.contains(segment)) {
            return Some(segment);
        }
        above = Some(segment);
    }
    None
}

#[test]
fn every_field_of_the_crds_has_a_row() {
    let rows = rows(&fs::read_to_string(top("docs/reference/kgateway.md")).unwrap());
    let crds = crds();
    assert!(crds.keys().map(String::as_str).eq(BTreeSet::from(SECTIONS)), "{:?}", crds.keys());
    let (mut lacking, mut fields) = (Vec::new(), 0);
    for (kind, found) in &crds {
        for field in found.iter().filter(|field| !ATTACHMENT.contains(&&*field[0])) {
            fields += 1;
            if let Some(part) = unnamed(field, &rows[kind], &rows[SHARED]) {
                lacking.push(format!("{kind} {}: {part}", field.join(".")));
            }
        }
    }
    assert!(lacking.is_empty(), "docs/reference/kgateway.md has no row that names {lacking:#?}");
    assert!(fields > 500, "only {fields} fields were compared");
}

#[test]
fn every_row_is_about_a_field_of_the_crds() {
    let rows = rows(&fs::read_to_string(top("docs/reference/kgateway.md")).unwrap());
    let crds = crds();
    for kind in SECTIONS {
        for path in rows[kind].iter().flat_map(|row| &row.paths) {
            let is_known = path == &["perPort"] || crds[kind].iter().any(|field| field.starts_with(path));
            assert!(is_known, "{kind}: no CRD has the field {}", path.join("."));
        }
    }
    for path in rows[SHARED].iter().flat_map(|row| &row.paths) {
        let is_known = crds.values().flatten().any(|field| field.contains(&path[0]));
        assert!(is_known, "no CRD has the field {}", path.join("."));
    }
}
