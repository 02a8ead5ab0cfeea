//! The tables: every rule is reached, every field exists, and every example is accepted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::report::{MigratedObject, MigrationEntry};
use super::rules::{MigrationAspect, MigrationRule, RuleCondition, RulePlace, RuleSubject};
use super::*;
use crate::cli::{Cli, Command};

const SOURCES: [(MigrationSource, &str); 3] =
    [(MigrationSource::Contour, "contour"), (MigrationSource::Kgateway, "kgateway"), (MigrationSource::Kong, "kong")];

fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn args(source: &str, path: &Path, flags: &str) -> MigrateArgs {
    let line = ["holdfast", "migrate", source, path.to_str().unwrap()];
    match Cli::try_parse_from(line.into_iter().chain(flags.split_whitespace())).unwrap().command {
        Command::Migrate(args) => args,
        other => panic!("{other:?}"),
    }
}

fn reported(source: &str, text: &str, flags: &str) -> MigrationReport {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("all.yaml"), text).unwrap();
    report(&args(source, folder.path(), flags)).unwrap()
}

fn entries(report: &MigrationReport) -> impl Iterator<Item = (&MigratedObject, &MigrationEntry)> {
    report.entries.iter().flat_map(|object| object.entries.iter().map(move |entry| (object, entry)))
}

/// An object with the annotation or plugin of a rule; others are in the files.
fn made(rule: &MigrationRule, index: usize) -> Option<Value> {
    let value = match rule.when {
        RuleCondition::Is(texts) => texts[0],
        _ => "other",
    };
    let metadata = json!({"name": format!("made-{index}"), "namespace": "shop"});
    match (rule.at, rule.of) {
        (RulePlace::Field("plugin"), RuleSubject::Kinds(group, kinds)) => Some(json!({
            "apiVersion": format!("{group}/v1"), "kind": kinds[0], "metadata": metadata, "plugin": value,
        })),
        (RulePlace::Annotation(name), RuleSubject::Any) => Some(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("made-{index}"), "namespace": "shop", "annotations": {name: value}},
            "spec": {"ports": [{"port": 80}]},
        })),
        (RulePlace::Annotations { domain, .. }, RuleSubject::Any) => Some(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("made-{index}"), "namespace": "shop", "annotations": {format!("a.{domain}/other"): "a"}},
            "spec": {"ports": [{"port": 80}]},
        })),
        _ => None,
    }
}

/// The fixture of a source, with the made objects.
fn fixture(source: MigrationSource, name: &str) -> String {
    let mut text = fs::read_to_string(top(&format!("tests/migrate/{name}.yaml"))).unwrap();
    for (index, rule) in source.rules().enumerate() {
        if let Some(object) = made(rule, index) {
            text += &format!("\n---\n{object}\n");
        }
    }
    text
}

#[test]
fn every_rule_is_reached() {
    for (source, name) in SOURCES {
        let report = reported(name, &fixture(source, name), "");
        for rule in source.rules() {
            let is_of = |entry: &MigrationEntry| {
                entry.message.ends_with(rule.message)
                    && (entry.aspect, entry.instead) == (rule.aspect, rule.instead)
                    && match rule.at {
                        RulePlace::Object => entry.field.is_empty(),
                        RulePlace::Annotation(it) => entry.field == format!("metadata.annotations[{it}]"),
                        RulePlace::Label(it) => entry.field == format!("metadata.labels[{it}]"),
                        RulePlace::Annotations { .. } => entry.field.starts_with("metadata.annotations["),
                        RulePlace::Field(_) => !entry.field.is_empty(),
                    }
            };
            assert!(entries(&report).any(|(_, entry)| is_of(entry)), "{name}: not reached: {rule:#?}");
        }
        for table in source.settings() {
            for row in table.rows() {
                let is_of = |entry: &MigrationEntry| {
                    entry.field.ends_with(&format!(".{}", row.path))
                        && entry.instead.is_some_and(|instead| instead.text == row.instead)
                };
                assert!(entries(&report).any(|(_, entry)| is_of(entry)), "{name}: not reached: {row:?}");
            }
        }
    }
}

/// The schemas of all CRDs of the chart, by group and kind: the versions of a kind are joined.
fn schemas() -> BTreeMap<(String, String), Vec<Value>> {
    let mut found: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for folder in ["contour", "gateway-api", "kgateway"] {
        for entry in fs::read_dir(top("charts/crds").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|it| it != "yaml") {
                continue;
            }
            for document in crate::manifests::yaml::parse(&fs::read_to_string(path).unwrap()).0 {
                let spec = &document.value["spec"];
                let (group, kind) = (spec["group"].as_str(), spec["names"]["kind"].as_str());
                let (Some(group), Some(kind)) = (group, kind) else { continue };
                for version in spec["versions"].as_array().unwrap() {
                    let schema = version["schema"]["openAPIV3Schema"].clone();
                    found.entry((group.to_owned(), kind.to_owned())).or_default().push(schema);
                }
            }
        }
    }
    found
}

/// Whether a schema has a field.
fn has(schema: &Value, pattern: &str) -> bool {
    let mut at = schema;
    for part in pattern.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        at = &at["properties"][name];
        if is_list {
            at = &at["items"];
        }
    }
    !at.is_null()
}

#[test]
fn every_field_of_a_served_kind_is_in_its_crd() {
    let schemas = schemas();
    let mut compared = 0;
    for (source, name) in SOURCES {
        for rule in source.rules() {
            let (RuleSubject::Kinds(group, kinds), RulePlace::Field(pattern)) = (rule.of, rule.at) else { continue };
            for kind in kinds {
                let Some(of) = schemas.get(&(group.to_owned(), (*kind).to_owned())) else { continue };
                compared += 1;
                // Routes of connections have the same references without filters.
                assert!(of.iter().any(|schema| has(schema, pattern)), "{name}: {kind} has no {pattern}");
            }
        }
        for table in source.settings() {
            let Some(of) = schemas.get(&(table.of.0.to_owned(), table.of.1.to_owned())) else { continue };
            for row in table.rows() {
                compared += 1;
                let path = format!("{}.{}", table.field, row.path);
                assert!(of.iter().any(|schema| has(schema, &path)), "{name}: {} has no {path}", table.of.1);
            }
        }
    }
    assert!(compared > 40, "{compared}");
}

/// Gateway, route and Services for the examples. The Secrets and extensions of policies are missing.
const AROUND: &str = "
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: public, namespace: default}, spec: {gatewayClassName: holdfast, listeners: [{name: http, port: 80, protocol: HTTP}, {name: db, port: 5432, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: shop}, spec: {parentRefs: [{name: public}], rules: [{backendRefs: [{name: shop, port: 80}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: collector}, spec: {ports: [{port: 4317, appProtocol: grpc}]}}
---
";

/// The examples with the kind of the object, once each.
fn examples() -> Vec<&'static str> {
    let rules = SOURCES.into_iter().flat_map(|(source, _)| source.rules());
    let mut examples: Vec<&str> = rules.filter_map(|rule| rule.instead).map(|instead| instead.yaml).collect();
    examples.sort_unstable();
    examples.dedup();
    examples
}

#[test]
fn every_example_is_accepted_as_it_is() {
    let mut whole = 0;
    for yaml in examples() {
        let (documents, errors) = crate::manifests::yaml::parse(yaml);
        assert!(errors.is_empty() && documents.len() <= 1, "{yaml}: {errors:?}");
        if !yaml.starts_with("{apiVersion") || yaml.ends_with("kind: ListenerSet}") {
            continue;
        }
        whole += 1;
        let name = &documents[0].value["metadata"]["name"];
        let around: Vec<&str> = AROUND
            .split("---\n")
            .filter(|it| {
                *name != "shop"
                    || !it.contains("HTTPRoute, metadata: {name: shop}")
                    || !yaml.contains("kind: HTTPRoute, metadata")
            })
            .collect();
        let report = reported("kgateway", &format!("{}---\n{yaml}\n", around.join("---\n")), "");
        let bad: Vec<_> = entries(&report)
            .filter(|(_, entry)| {
                matches!(entry.aspect, MigrationAspect::NotValid | MigrationAspect::Unreadable)
                    || entry.aspect == MigrationAspect::NotServed && entry.instead.is_none()
            })
            .collect();
        assert!(bad.is_empty(), "{yaml}: {bad:#?}");
    }
    assert!(whole > 25, "{whole}");
}

/// Examples of a part of an object, below the object that has it.
#[test]
fn every_part_is_accepted_where_it_belongs() {
    let policy = |kind: &str, target: &str, part: &str| {
        format!(
            "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: {kind}, metadata: {{name: p}}, spec: {{targetRefs: [{target}], {part}}}}}"
        )
    };
    let route = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}";
    let service = "{group: '', kind: Service, name: shop}";
    let mut accepted = 0;
    for yaml in examples().into_iter().filter(|yaml| !yaml.is_empty() && !yaml.starts_with('{')) {
        let key = yaml.split(':').next().unwrap();
        let object = match key {
            "filters" | "matches" | "timeouts" => {
                let backend =
                    if yaml.contains("RequestRedirect") { "" } else { ", backendRefs: [{name: shop, port: 80}]" };
                format!(
                    "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: part}}, spec: {{parentRefs: [{{name: public}}], rules: [{{{yaml}{backend}}}]}}}}"
                )
            }
            "buffer" | "urlRewrite" | "retry" => policy("TrafficPolicy", route, yaml),
            "loadBalancer" | "healthCheck" | "outlierDetection" | "connectTimeout" => {
                policy("BackendConfigPolicy", service, yaml)
            }
            "matchExpressions" => {
                policy("TrafficPolicy", route, &format!("rbac: {{action: Deny, policy: {{{yaml}}}}}"))
            }
            "retryPolicy" | "timeoutPolicy" | "enableWebsockets" => format!(
                "{{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {{name: p}}, spec: {{virtualhost: {{fqdn: a.example.com}}, routes: [{{{yaml}, services: [{{name: shop, port: 80}}]}}]}}}}"
            ),
            _ => continue,
        };
        accepted += 1;
        let report = reported("contour", &format!("{AROUND}{object}\n"), "");
        let bad: Vec<_> = entries(&report)
            .filter(|(object, entry)| !object.object.contains("Gateway:") && entry.aspect != MigrationAspect::Differs)
            .collect();
        assert!(bad.is_empty(), "{yaml}: {bad:#?}");
    }
    assert!(accepted > 15, "{accepted}");
}

/// The names of parameters in the table are those that Holdfast reads.
#[test]
fn every_parameter_is_one_that_holdfast_reads() {
    let parameters = "{replicas: 3, logLevel: debug, imagePullPolicy: Always, image: a/b:c, resources: {requests: {cpu: 1}}, imagePullSecrets: [r], \
        drainSeconds: 20, pod: {labels: {a: b}, annotations: {a: b}, nodeSelector: {a: b}, affinity: {}, tolerations: [], \
        topologySpreadConstraints: [], priorityClassName: high}, service: {type: LoadBalancer, labels: {a: b}, annotations: {a: b}, \
        externalTrafficPolicy: Local, loadBalancerClass: a/b, loadBalancerSourceRanges: [10.0.0.0/8]}, podDisruptionBudget: {minAvailable: 1}}";
    let value = &crate::manifests::yaml::parse(parameters).0[0].value;
    for table in MigrationSource::Kgateway.settings() {
        for row in table.rows() {
            let name = row.instead.split(',').next().unwrap();
            let pointer = format!("/{}", name.replace('.', "/"));
            let is_alternative = name.starts_with("autoscaling.") || name.ends_with("maxUnavailable");
            assert!(is_alternative || value.pointer(&pointer).is_some(), "{name}");
        }
    }
    let refused = |parameters: &str| {
        let text = format!(
            "{}\n---\n{}\n---\n{}\n",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}, "data": {"parameters.yaml": parameters}}),
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"}, "spec": {
                "gatewayClassName": "holdfast", "infrastructure": {"parametersRef": {"group": "", "kind": "ConfigMap", "name": "e"}},
                "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}]}}),
            ""
        );
        let report = reported("kgateway", &text, "");
        entries(&report).map(|(_, entry)| entry.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(refused(parameters), [""; 0]);
    assert_eq!(
        refused("{autoscaling: {minReplicas: 1, maxReplicas: 3}, podDisruptionBudget: {maxUnavailable: 1}}"),
        [""; 0]
    );
    assert_eq!(refused("{nodeSelector: {}}").len(), 1);
}

#[test]
fn what_holdfast_serves_needs_no_change() {
    let report = reported(
        "contour",
        "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: a, namespace: shop}, spec: {ingressClassName: contour, \
         virtualhost: {fqdn: a.example.com}, routes: [{services: [{name: shop, port: 80}]}]}}\n---\n\
         {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}\n",
        "",
    );
    assert_eq!((report.summary.to_change, report.objects), (0, 2), "{report:#?}");
    assert_eq!(report.entries, []);
}

/// Returns the field of each difference for a user of kgateway, and whether something else is to be written.
fn of_kgateway(object: &str) -> Vec<(String, bool)> {
    let report = reported("kgateway", object, "");
    entries(&report).map(|(_, entry)| (entry.field.clone(), entry.instead.is_some())).collect()
}

#[test]
fn delegation_is_reported_with_an_annotation_only_where_none_is_set() {
    let route = |annotations: &str, reference: &str| {
        of_kgateway(&format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: a, namespace: shop, \
             annotations: {{{annotations}}}}}, spec: {{parentRefs: [{{name: public}}], rules: [{{matches: [{{path: {{value: /a}}}}], \
             backendRefs: [{{{reference}}}]}}]}}}}"
        ))
    };
    let field = "spec.rules[0].backendRefs[0].kind".to_owned();
    let named = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: b";
    let labelled = "group: delegation.kgateway.dev, kind: label, name: b, namespace: all";
    for reference in [named, labelled] {
        assert_eq!(route("", reference), [(field.clone(), true)], "{reference}");
        for (name, value) in [("kgateway.dev", "ShallowMergePreferChild"), ("delegation.kgateway.dev", "PreferParent")]
        {
            let annotation = format!("{name}/inherited-policy-priority: {value}");
            assert_eq!(route(&annotation, reference), [(field.clone(), false)], "{reference}");
        }
        let deep = route("kgateway.dev/inherited-policy-priority: DeepMergePreferChild", reference);
        // The reason why the rule closes, and the difference.
        let annotation = "metadata.annotations[kgateway.dev/inherited-policy-priority]".to_owned();
        assert_eq!(deep, [(annotation, false), (field.clone(), false)], "{reference}");
    }
}

#[test]
fn policies_that_protect_less_than_in_kgateway_are_reported() {
    let policy = |targets: &str, spec: &str| {
        of_kgateway(&format!(
            "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {{name: a, namespace: shop}}, spec: \
             {{{targets}, {spec}}}}}"
        ))
    };
    let login = "basicAuth: {users: ['ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=']}";
    let set = "group: gateway.networking.x-k8s.io, kind: XListenerSet";
    let named = policy(&format!("targetRefs: [{{{set}, name: more}}]"), login);
    assert_eq!(named, [("spec.targetRefs[0].kind".to_owned(), true)]);
    let selected = policy(&format!("targetSelectors: [{{{set}, matchLabels: {{a: b}}}}]"), login);
    assert_eq!(selected, [("spec.targetSelectors[0].kind".to_owned(), true)]);
    let served = policy("targetRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: more}]", login);
    assert_eq!(served, []);
    let token = "jwtAuth: {extensionRef: {name: tokens}}";
    let target = |kind: &str, more: &str| {
        let targets = format!("targetRefs: [{{group: gateway.networking.k8s.io, kind: {kind}, name: a{more}}}]");
        policy(&targets, token)
    };
    let closer = [("spec.jwtAuth.extensionRef".to_owned(), false)];
    assert_eq!(target("HTTPRoute", ""), closer);
    assert_eq!(target("Gateway", ", sectionName: http"), closer);
    assert_eq!(target("Gateway", ""), []);
}

#[test]
fn flags_of_holdfast_count() {
    let proxy = "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: a, namespace: shop}, spec: {ingressClassName: public, \
        virtualhost: {fqdn: a.example.com, rateLimitPolicy: {global: {descriptors: [{entries: [{remoteAddress: {}}]}]}}}, \
        routes: [{services: [{name: shop, port: 80}]}]}}\n";
    let fields = |flags: &str| {
        let report = reported("contour", proxy, flags);
        entries(&report).map(|(_, entry)| entry.field.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fields(""), ["spec.ingressClassName", "spec.virtualhost.rateLimitPolicy.global"]);
    assert_eq!(fields("--ingress-class-names public --rate-limit-service infra/limits"), [""; 0]);
}

/// The values of Secrets and of plugins are in no report.
#[test]
fn contents_of_secrets_are_not_reported() {
    let text = fixture(MigrationSource::Kong, "kong");
    let report = reported("kong", &text, "");
    let shown = format!("{}{}", text::format(&report), serde_json::to_string(&report).unwrap());
    assert!(text.contains("hidden-key") && !shown.contains("hidden-key"));
}

#[test]
fn kinds_without_a_rule_have_what_to_use_instead() {
    let object =
        |kind: &str| format!("{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: {kind}, metadata: {{name: a}}}}\n");
    let report = reported("kgateway", &[object("RoutePolicy"), object("Waypoint")].join("---\n"), "");
    let instead: Vec<_> = entries(&report).map(|(_, entry)| entry.instead.map(|instead| instead.text)).collect();
    assert_eq!(instead, [Some("a TrafficPolicy, its later name"), None]);
}
