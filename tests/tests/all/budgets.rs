//! One step budget for all regular expressions of an object, across its fields.

use holdfast_api::settings::Settings;
use holdfast_check::re2::{Limits, OBJECT_STEPS_MAX, RegexFault, Regexes};
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;

const SHOP: &str = include_str!("../../golden/include/shop.yaml");
const SERVICES: &str = include_str!("../../golden/include/services.yaml");

/// Returns a regular expression that Envoy accepts, with a check of many steps.
fn costly(number: usize) -> String {
    format!("(?i)/{number}{}", r"\pL".repeat(1300))
}

/// Returns the number of costly expressions that an object may have.
fn allowed() -> usize {
    let regexes = Regexes::of_object(Limits::default());
    let beyond = (0..1000).find(|number| regexes.check(&costly(*number)) == Err(RegexFault::Together));
    assert!(regexes.spent() <= OBJECT_STEPS_MAX);
    beyond.unwrap()
}

/// Returns the fields with a regular expression beyond the budget, ordered by the indexes in their paths.
fn beyond(engine: &Engine) -> Vec<String> {
    let beyond =
        engine.faults().into_iter().filter(|fault| fault.message.contains("checking those before this one took"));
    let mut fields: Vec<(Vec<usize>, String)> = beyond
        .map(|fault| {
            let numbers = fault.field.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
            (numbers.collect(), format!("{} {}", fault.object.kind, fault.field))
        })
        .collect();
    fields.sort();
    fields.dedup();
    fields.into_iter().map(|(_, field)| field).collect()
}

/// Returns a YAML list with an entry for each expression.
fn list(patterns: impl Iterator<Item = String>, entry: impl Fn(String) -> String) -> String {
    let entries: Vec<String> = patterns.map(entry).collect();
    format!("[{}]", entries.join(", "))
}

#[test]
fn filters_of_access_logs() {
    let log = |from: usize| {
        let filters = list((from * 32..from * 32 + 32).map(costly), |regex| {
            format!("{{headerFilter: {{header: {{name: x, type: RegularExpression, value: '{regex}'}}}}}}")
        });
        format!("{{fileSink: {{path: /dev/stdout, stringFormat: a}}, filter: {{orFilter: {filters}}}}}")
    };
    let logs: Vec<String> = (0..2).map(log).collect();
    let policy = format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: ListenerPolicy\nmetadata: {{name: edge, namespace: infra}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public}}]\n  \
         default: {{httpSettings: {{accessLog: [{}]}}}}\n",
        logs.join(", ")
    );
    let engine = testing::engine(&format!("{SHOP}{policy}"), Settings::standalone());
    let (beyond, first) = (beyond(&engine), allowed());
    let field = |number: usize| {
        let (log, filter) = (number / 32, number % 32);
        format!(
            "ListenerPolicy spec.default.httpSettings.accessLog[{log}].filter.orFilter[{filter}].headerFilter.header.value"
        )
    };
    assert_eq!(beyond, (first..64).map(field).collect::<Vec<_>>());
}

/// Returns one of three regular expressions of a policy's condition: a long text, and a small program in Envoy.
fn of_condition(number: usize) -> String {
    format!("{number}[{}]", "abcdefgh".repeat(500))
}

/// Number of conditions of a policy that spends its whole budget.
const CONDITIONS: usize = 256;
/// Number of origins of that policy.
const ORIGINS: usize = 16;

/// Returns a TrafficPolicy with origins and conditions that spend its whole budget, and with further fields.
fn spent_policy(more: &str) -> String {
    let origins = list((0..ORIGINS).map(costly), |regex| format!("{{safeRegex: '{regex}'}}"));
    let condition = |number: usize| {
        let parts = (0..3).map(|part| format!("request.path.matches('{}')", of_condition(number * 3 + part)));
        format!("\"{}\"", parts.collect::<Vec<_>>().join(" || "))
    };
    let conditions: Vec<String> = (0..CONDITIONS).map(condition).collect();
    format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: spent, namespace: shop}}\n\
         spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}], \
         csrf: {{percentageEnabled: 100, additionalOrigins: {origins}}}, \
         rbac: {{policy: {{matchExpressions: [{}]}}}}{more}}}\n",
        conditions.join(", ")
    )
}

#[test]
fn origins_and_conditions_of_a_traffic_policy() {
    let regexes = Regexes::of_object(Limits::default());
    assert!((0..ORIGINS).all(|number| regexes.check(&costly(number)).is_ok()));
    let small = Limits { program_size: 100 };
    let beyond_budget = |number: &usize| regexes.check_utf8(&of_condition(*number), small) == Err(RegexFault::Together);
    let first = (0..3 * CONDITIONS).find(beyond_budget).unwrap() / 3;
    let engine = testing::engine(&format!("{SHOP}{}", spent_policy("")), Settings::standalone());
    let field = |number: usize| format!("TrafficPolicy spec.rbac.policy.matchExpressions[{number}]");
    assert_eq!(beyond(&engine), (first..CONDITIONS).map(field).collect::<Vec<_>>());
}

#[test]
fn an_extension_spends_nothing_of_a_policy_nor_the_other_way_round() {
    let extension = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: client, namespace: shop}\n\
         stringData: {client-secret: s3cr3t}\n\
         ---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
         metadata: {name: login, namespace: shop}\n\
         spec: {oauth2: {backendRef: {name: a, port: 80}, authorizationEndpoint: \"https://idp.example.com/authorize\", \
         tokenEndpoint: \"https://idp.example.com/token\", credentials: {clientID: shop, clientSecretRef: {name: client}}, \
         denyRedirect: {headers: [{name: accept, type: RegularExpression, value: PATTERN}]}}}\n";
    let policy = spent_policy(", oauth2: {extensionRef: {name: login}}");
    let faults = |pattern: &str| {
        let objects = format!("{SHOP}{}{policy}", extension.replace("PATTERN", pattern));
        let engine = testing::engine(&objects, Settings::standalone());
        let all = engine.faults().into_iter().filter(|fault| &*fault.object.kind == "GatewayExtension");
        all.map(|fault| fault.field).collect::<Vec<_>>()
    };
    assert_eq!(faults(".*json.*"), [""; 0]);
    assert_eq!(faults("'['"), ["spec.oauth2.denyRedirect.headers[0].value"]);
}

#[test]
fn origins_and_limits_of_an_http_proxy() {
    let proxy = |cors: &str, limits: &str| {
        format!(
            "---\napiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: costly, namespace: shop}}\n\
             spec:\n  virtualhost: {{fqdn: costly.example.com, {cors}}}\n  \
             routes:\n  - {{services: [{{name: a, port: 80}}], {limits}}}\n"
        )
    };
    // Each list has fewer expressions than the object may have; both lists together have more.
    let half = allowed() / 2 + 1;
    let origins = list((0..half).map(costly), |regex| format!("'{regex}'"));
    let cors = format!("corsPolicy: {{allowOrigin: {origins}, allowMethods: [GET]}}");
    let entries = list((half..2 * half).map(costly), |regex| {
        format!("{{requestHeaderValueMatch: {{headers: [{{name: a, regex: '{regex}'}}], value: a}}}}")
    });
    let limits = format!("rateLimitPolicy: {{global: {{descriptors: [{{entries: {entries}}}]}}}}");
    for (proxy, wrong) in [(proxy(&cors, ""), false), (proxy("", &limits), false), (proxy(&cors, &limits), true)] {
        let engine = testing::engine(&format!("{SERVICES}{proxy}"), Settings::standalone());
        let faults = engine.faults();
        let has = faults.iter().any(|fault| fault.message.contains("regular expression"));
        assert_eq!(has, wrong, "{faults:?}");
    }
}
