//! Tests of the command: the examples of its page, and its exit codes.

use std::fs;
use std::path::Path;

use clap::Parser;

use super::*;
use crate::cli::{Cli, Command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/explain.md");

/// Returns the manifests of the page.
fn manifests() -> String {
    let page = fs::read_to_string(PAGE).unwrap();
    page.split("```yaml\n").nth(1).unwrap().split("```\n").next().unwrap().to_owned()
}

fn args(line: &[&str]) -> ExplainArgs {
    match Cli::try_parse_from(["holdfast", "explain"].iter().chain(line)).unwrap().command {
        Command::Explain(args) => args,
        other => panic!("{other:?}"),
    }
}

/// Explains a request with the manifests in a folder.
pub(super) fn explained(folder: &Path, line: &[&str]) -> Result<ExplainReport, Failure> {
    let folder = folder.display().to_string();
    let args = args(&[&["--manifests", &folder], line].concat());
    let request = ExplainRequest::read(&args.method, &args.url, &args.header).map_err(Failure::Usage)?;
    let offline = offline::translate(&args.manifests, args.translation.settings()?)?;
    let wanted = args.gateway.as_ref().map(|gateway| gateway.0.as_str());
    let facts =
        ExplainFacts::of_manifests(&offline.engine, &offline.actions, super::manifests(&offline, &args.manifests));
    ExplainReport::new(&facts, request, &args.url, wanted)
}

pub(super) fn folder(manifests: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    folder
}

#[test]
fn the_examples_of_the_page_are_what_the_command_prints() {
    let folder = folder(&manifests());
    let examples: [(&str, &[&str], RequestOutcome); 6] = [
        ("GET http://shop.example.com//cart/1", &["GET", "http://shop.example.com//cart/1"], RequestOutcome::Served),
        (
            "-H 'x-env: test' POST http://shop.example.com/cart",
            &["-H", "x-env: test", "POST", "http://shop.example.com/cart"],
            RequestOutcome::Served,
        ),
        ("GET http://pay.example.com/pay/5", &["GET", "http://pay.example.com/pay/5"], RequestOutcome::NotServed),
        ("GET http://pay.example.com/old/x?y=1", &["GET", "http://pay.example.com/old/x?y=1"], RequestOutcome::Served),
        (
            "-H 'content-type: application/grpc' POST http://pay.example.com/pay/5",
            &["-H", "content-type: application/grpc", "POST", "http://pay.example.com/pay/5"],
            RequestOutcome::NotServed,
        ),
        ("GET https://shop.example.com/cart", &["GET", "https://shop.example.com/cart"], RequestOutcome::NotServed),
    ];
    for (shown, line, outcome) in examples {
        let report = explained(folder.path(), line).unwrap();
        assert_eq!(report.outcome, outcome, "{shown}");
        let first = format!("```\n$ holdfast explain --manifests shop {shown}");
        let text = explain::format(&report).replace(&folder.path().display().to_string(), "shop");
        holdfast_golden::check_block(PAGE, (&first, "```"), &text);
    }
}

#[test]
fn json_has_the_same_as_the_text() {
    let folder = folder(&manifests());
    let report = explained(folder.path(), &["GET", "http://pay.example.com/pay/5"]).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["gateway"], "shop/public");
    assert_eq!(json["virtualHost"]["by"], "suffix");
    assert_eq!(json["answer"]["status"], 404);
    assert_eq!(json["replacement"]["section"], "rules[1]");
    assert_eq!(json["outcome"], "notServed");
    let report = explained(folder.path(), &["GET", "http://shop.example.com/cart"]).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["answer"]["kind"], "backends");
    assert_eq!(json["answer"]["backends"][0]["endpoints"], 2);
    assert_eq!(json["replacement"], serde_json::Value::Null);
    assert_eq!(json["outcome"], "served");
}

#[test]
fn a_named_rule_and_a_missing_backend_have_their_replacement() {
    let text =
        manifests().replace("- matches: [{path: {value: /cart}, method: GET}]", "- name: all\n    matches: [{}]");
    let folder =
        folder(&text.replace("{name: cart-next, port: 8080, weight: 1}", "{name: gone, port: 8080, weight: 1}"));
    let report = explained(folder.path(), &["GET", "http://shop.example.com/x"]).unwrap();
    let replacement = report.replacement.as_ref().unwrap();
    assert_eq!((&*replacement.section, report.outcome), ("rules[0]", RequestOutcome::NotServed));
    let text = explain::format(&report);
    assert!(
        text.contains("HTTPRoute shop/cart all: yes, any path") || text.contains("HTTPRoute shop/cart all: yes"),
        "{text}"
    );
    assert!(text.contains("weight 1 of 10, 0 endpoints: answers 500\n"), "{text}");
}

/// Policies of a Gateway: a condition on a header, which the ListenerPolicy may change before.
const HEADERS: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: roles, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  rbac: {policy: {matchExpressions: [\"request.headers['role'] == 'admin'\"]}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {name: early, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  default: {httpSettings: {earlyRequestHeaderModifier: {set: [{name: role, value: guest}]}}}
";

#[test]
fn a_condition_on_headers_that_may_have_changed_is_not_evaluated() {
    let outcome = |text: &str| {
        let folder = folder(&format!("{}{text}", manifests()));
        let line = ["-H", "role: admin", "GET", "http://shop.example.com/cart"];
        explained(folder.path(), &line).unwrap().outcome
    };
    let (roles, _) = HEADERS.rsplit_once("---").unwrap();
    assert_eq!(outcome(roles), RequestOutcome::Served);
    assert_eq!(outcome(HEADERS), RequestOutcome::Unknown);
}

#[test]
fn the_replacement_of_an_include_is_its_own() {
    let proxies = "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: root, namespace: shop}, spec: \
                   {virtualhost: {fqdn: shop.test}, includes: [{name: one, conditions: [{prefix: /one}]}, \
                   {name: two, conditions: [{prefix: /two}]}]}}";
    let folder = folder(proxies);
    for (path, section) in [("one", "includes[0]"), ("two", "includes[1]")] {
        let url = format!("http://shop.test:8080/{path}");
        let report = explained(folder.path(), &["--httpproxy-http", "8080", "GET", &url]).unwrap();
        let replacement = report.replacement.unwrap();
        assert_eq!(replacement.section, section);
        assert!(replacement.message.contains(path), "{}", replacement.message);
    }
}

#[test]
fn a_request_that_no_route_below_a_rule_takes_is_explained() {
    let text = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: top, namespace: shop}
spec:
  parentRefs: [{name: public}]
  hostnames: [top.example.com]
  rules:
  - matches: [{path: {value: /good}}]
    backendRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: below}]
  - name: lacking
    matches: [{path: {value: /bad}}]
    backendRefs:
    - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: gone}
    - {group: delegation.kgateway.dev, kind: label, name: team, namespace: all}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: below, namespace: shop}
spec:
  rules: [{matches: [{path: {value: /good/x}}], backendRefs: [{name: cart, port: 8080}]}]
";
    let folder = folder(&format!("{}{text}", manifests()));
    let explained = |path: &str| explained(folder.path(), &["GET", &format!("http://top.example.com{path}")]).unwrap();
    let lines = |report: &ExplainReport| {
        let text = explain::format(report);
        let shown = text.lines().skip_while(|line| !line.starts_with("answer"));
        let shown = shown.filter(|line| !line.starts_with("next")).collect::<Vec<_>>();
        shown.join("\n")
    };
    let served = explained("/good/x");
    assert_eq!((served.delegates_to.len(), served.outcome), (0, RequestOutcome::Served));
    let other = explained("/good/y");
    assert_eq!(other.outcome, RequestOutcome::NotServed);
    assert_eq!(
        lines(&other),
        "answer        404: No route takes this request.\n\
         delegates to  HTTPRoute shop/below: no route below the rule takes the request, which is answered with 404"
    );
    let lacking = explained("/bad/x");
    assert_eq!(lacking.outcome, RequestOutcome::NotServed);
    let text = lines(&lacking);
    let line = "delegates to  HTTPRoute shop/gone, HTTPRoutes with the label delegation.kgateway.dev/label=team: no route \
                below the rule takes the request, which is answered with 500, because a reference of the rule has no \
                route\nreplaced      HTTPRoute shop/top rules[1]: spec.rules[1].backendRefs[0]: HTTPRoute shop/gone does \
                not exist";
    assert!(text.contains(line), "{text}");
}

#[test]
fn unusable_requests_are_errors_of_usage() {
    let folder = folder(&manifests());
    for line in [["GET", "shop.example.com/cart"], ["G T", "http://shop.example.com/"]] {
        assert!(matches!(explained(folder.path(), &line), Err(Failure::Usage(_))), "{line:?}");
    }
    assert!(Cli::try_parse_from(["holdfast", "explain", "--manifests", "m", "-H", "x", "GET", "http://a/"]).is_err());
}
