//! Tests of parsing and merging conditions.

#![allow(clippy::unwrap_used, reason = "a test's own input")]

use holdfast_check::re2::{Limits, Regexes};
use serde_json::json;

use super::*;

fn conditions(written: serde_json::Value) -> Vec<MatchCondition> {
    serde_json::from_value(written).unwrap()
}

fn describe(includes: &[serde_json::Value], route: serde_json::Value) -> String {
    let mut inherited = Inherited::default();
    for include in includes {
        match inherited.under(&conditions(include.clone()), &Regexes::of_object(Limits::default())) {
            Ok(below) => inherited = below,
            Err(unusable) => return format!("{}: {}", unusable.reason, unusable.message),
        }
    }
    match inherited.route(&conditions(route), &Regexes::of_object(Limits::default())) {
        Ok(conditions) => conditions.to_string(),
        Err(unusable) => format!("{}: {}", unusable.reason, unusable.message),
    }
}

#[test]
fn paths_are_joined() {
    let include = |prefix: &str| json!([{ "prefix": prefix }]);
    assert_eq!(describe(&[], json!([])), "path prefix: \"/\"");
    assert_eq!(describe(&[include("/foo")], json!([])), "path prefix: \"/foo\"");
    assert_eq!(describe(&[include("/foo")], json!([{"prefix": "/"}])), "path prefix: \"/foo\"");
    assert_eq!(describe(&[include("/")], json!([{"prefix": "/foo"}])), "path prefix: \"/foo\"");
    assert_eq!(describe(&[include("/a"), include("/b/")], json!([{"prefix": "/c"}])), "path prefix: \"/a/b/c\"");
    assert_eq!(describe(&[include("/a")], json!([{"exact": "/b"}])), "path exact: \"/a/b\"");
    assert_eq!(describe(&[include("/a")], json!([{"exact": "/"}])), "path exact: \"/a/\"");
    assert_eq!(describe(&[include("/a.")], json!([{"regex": "/b[0-9]"}])), "path regex: \"/a\\\\./b[0-9]\"");
}

#[test]
fn headers_and_parameters_are_sets() {
    let include = json!([{"header": {"name": "X-B", "contains": "b", "ignoreCase": true}}]);
    let route = json!([
        {"header": {"name": "x-a", "exact": "1"}},
        {"header": {"name": "x-b", "contains": "b", "ignoreCase": true}},
        {"queryParameter": {"name": "q", "present": true}},
        {"header": {"name": "x-c", "notexact": "1", "treatMissingAsEmpty": true}},
    ]);
    assert_eq!(
        describe(&[include], route),
        "path prefix: \"/\", header \"x-a\" exact \"1\", header \"x-b\" contains \"b\" ignoring case, header \"x-c\" \
         notexact \"1\" missing as empty, query parameter \"q\" present"
    );
}

#[test]
fn unusable_conditions_have_the_messages_of_contour() {
    let path = "PathMatchConditionsNotValid: ";
    let header = "HeaderMatchConditionsNotValid: ";
    let query = "QueryParameterMatchConditionsNotValid: ";
    let of = |conditions: &[(&str, &str)]| {
        let all = conditions.iter().map(|(kind, value)| {
            let mut header = json!({"name": "x-a"});
            header[*kind] = if kind.ends_with("present") { json!(true) } else { json!(value) };
            json!({ "header": header })
        });
        describe(&[], all.collect())
    };
    let more = "more than one prefix, exact or regex is not allowed in a condition block";
    assert_eq!(describe(&[], json!([{"prefix": "/a"}, {"prefix": "/b"}])), format!("{path}route: {more}"));
    assert_eq!(describe(&[], json!([{"prefix": "/a"}, {"exact": "/b"}])), format!("{path}route: {more}"));
    assert_eq!(
        describe(&[json!([{"prefix": "api"}])], json!([])),
        format!("{path}include: prefix conditions must start with /, api was supplied")
    );
    assert_eq!(
        describe(&[json!([{"exact": "/a"}])], json!([])),
        format!("{path}include: exact conditions are not allowed in includes block")
    );
    assert!(
        describe(&[], json!([{"regex": "/["}]))
            .starts_with(&format!("{path}route: supplied regex: /[ invalid. error: "))
    );
    assert_eq!(
        of(&[("exact", "1"), ("exact", "2")]),
        format!("{header}cannot specify duplicate header 'exact match' conditions in the same route")
    );
    for (one, two) in [("exact", "notexact"), ("contains", "notcontains"), ("present", "notpresent")] {
        let message = format!(
            "{header}cannot specify contradictory '{one}' and '{two}' conditions for the same route and header"
        );
        assert_eq!(of(&[(one, "1"), (two, "1")]), message);
        assert_eq!(of(&[(two, "1"), (one, "1")]), message);
    }
    assert!(!of(&[("exact", "1"), ("notexact", "2")]).starts_with(header));
    assert_eq!(
        describe(&[], json!([{"queryParameter": {"name": "q"}}])),
        format!("{query}must specify at least one query parameter condition")
    );
    assert_eq!(
        describe(&[], json!([{"queryParameter": {"name": "q", "exact": "1", "prefix": "2"}}])),
        format!("{query}cannot specify more than one condition in the same match condition branch")
    );
}

#[test]
fn a_regex_of_any_length_costs_as_much_as_it_is_long() {
    let inherited = Inherited::default();
    for pattern in [format!("/{}", "a?".repeat(150_000)), format!("/{}", "[[:".repeat(100_000)), "/(".repeat(150_000)] {
        let regexes = Regexes::of_object(Limits::default());
        let written = conditions(json!([{ "regex": pattern }]));
        let unusable = inherited.route(&written, &regexes).unwrap_err();
        assert!(unusable.message.len() < 512 && unusable.message.contains("at most 4096"), "{}", unusable.message);
        let _ = inherited.salvaged(&written, &regexes);
        assert!(regexes.spent() <= 4 * pattern.len() + 40 * 4096, "{}", regexes.spent());
    }
}
