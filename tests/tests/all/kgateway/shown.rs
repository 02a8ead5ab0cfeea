//! Coverage by golden pairs: every field of kgateway's kinds, and every reason in the status of policies.
//!
//! A new field of the schemas needs a golden pair that contains it, or an entry in [`CLOSING`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_test_support as testing;
use serde_json::Value;

use super::SCHEMAS;

/// Fields that close, or have no effect, as a whole: the fields below them need no golden pair.
const CLOSING: &[(&str, &str)] = &[
    ("Backend", "spec.aws"),
    ("Backend", "spec.dynamicForwardProxy"),
    ("Backend", "spec.gcp"),
    ("Backend", "spec.priorityGroups[]"),
    ("BackendConfigPolicy", "spec.loadBalancer.zoneAware"),
    ("BackendConfigPolicy", "spec.tls.files"),
    ("ListenerPolicy", "spec.default.httpSettings.localReplies.mappers[].headers.set[].secretRef"),
    ("TrafficPolicy", "spec.transformation.request.body"),
];

/// Fields that are decoded in the same way at several places: a golden pair for one place is enough.
const SAME: &[(&str, &str)] = &[
    ("spec.perPort[].listener", "spec.default"),
    (".andFilter[]", ""),
    (".orFilter[]", ""),
    ("localReplies.mappers[].filter", "accessLog[].filter"),
    ("localReplies.mappers[].bodyFormatOverride", "localReplies.defaultBodyFormat"),
    ("accessLog[].openTelemetry.grpcService", "accessLog[].grpcService"),
    ("tracing.provider.openTelemetry.grpcService", "accessLog[].grpcService"),
    ("accessLog[].grpcService.backendRef", "backendRef"),
    ("openTelemetry.attributes", "openTelemetry.resourceAttributes"),
    ("grpcService.backendRef", "backendRef"),
    ("httpService.backendRef", "backendRef"),
    ("jwks.remote.backendRef", "backendRef"),
    ("oauth2.backendRef", "backendRef"),
    ("jwt.jwksBackendRef", "backendRef"),
    ("spec.default.httpSettings.backendRef", "backendRef"),
    ("spec.extAuth.backendRef", "backendRef"),
    ("spec.extProc.backendRef", "backendRef"),
    ("spec.rateLimit.backendRef", "backendRef"),
    ("spec.jwt.providers[].backendRef", "backendRef"),
    ("spec.oauth2.backendRef", "backendRef"),
    ("spec.backendRef", "backendRef"),
    ("extProc.grpcService", "extAuth.grpcService"),
    ("rateLimit.grpcService", "extAuth.grpcService"),
    ("extAuth.httpService.retry", "extAuth.grpcService.retry"),
    ("oauth2.jwt.accessToken", "oauth2.jwt.idToken"),
    (".add[]", ".set[]"),
    ("response.set[].secretRef", "request.set[].secretRef"),
    ("transformation.response.body", "transformation.request.body"),
    ("loadBalancer.maglev.hashPolicies", "loadBalancer.ringHash.hashPolicies"),
    ("loadBalancer.roundRobin.slowStart", "loadBalancer.leastRequest.slowStart"),
    ("extProc.extensionRef", "extAuth.extensionRef"),
    ("jwtAuth.extensionRef", "extAuth.extensionRef"),
    ("oauth2.extensionRef", "extAuth.extensionRef"),
    ("rateLimit.global.extensionRef", "extAuth.extensionRef"),
];

fn folded(path: &str) -> String {
    SAME.iter().fold(path.to_owned(), |path, (one, other)| path.replace(one, other))
}

/// Collects the fields of a schema without fields below them.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema["type"] == "array" {
        leaves(&schema["items"], &format!("{path}[]"), found);
    } else if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        properties.iter().for_each(|(name, schema)| leaves(schema, &format!("{path}.{name}"), found));
    } else {
        found.insert(folded(path));
    }
}

/// Collects all fields of a value, including those with fields below them.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(folded(path));
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(name, value)| fields(value, &format!("{path}.{name}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

/// Returns the golden files of every area: the expected results, or the cases.
fn golden(answers: bool) -> Vec<String> {
    let read =
        |folder: &Path| -> Vec<PathBuf> { fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let areas = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"));
    let files = areas.iter().filter(|area| area.is_dir()).flat_map(|area| read(area));
    let is_answer = |path: &Path| path.to_str().unwrap().ends_with(".out.yaml");
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.filter(|path| is_answer(path) == answers).map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn every_field_has_a_golden_pair() {
    let schemas = testing::documents(SCHEMAS).remove(0);
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // A case may have several steps, without a document separator between them.
    let cases = golden(false).into_iter().map(|text| text.replace("\n# step", "\n---\n# step"));
    for document in cases.flat_map(|text| testing::documents(&text)) {
        let api = document["apiVersion"].as_str().unwrap_or_default();
        if let (Some(kind), true) = (document["kind"].as_str(), api.starts_with("gateway.kgateway.dev/")) {
            fields(&document["spec"], "spec", shown.entry(kind.to_owned()).or_default());
        }
    }
    let mut bare = Vec::new();
    let mut count = 0;
    for (kind, schema) in schemas.as_object().unwrap() {
        let (mut wanted, shown) = (BTreeSet::new(), shown.entry(kind.clone()).or_default());
        leaves(&schema["spec"], "spec", &mut wanted);
        let closing: Vec<&str> = CLOSING.iter().filter(|(of, _)| of == kind).map(|(_, path)| *path).collect();
        wanted.retain(|path| !closing.iter().any(|closing| path.starts_with(closing)));
        wanted.extend(closing.into_iter().map(str::to_owned));
        count += wanted.len();
        bare.extend(wanted.difference(shown).map(|path| format!("{kind} {path}")));
    }
    assert!(count > 300, "only {count} fields were looked for");
    assert!(bare.is_empty(), "no golden pair shows {bare:#?}");
}

/// Condition types with their possible statuses and reasons.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("Accepted", &["True Valid", "True Accepted", "False Invalid", "False Conflicted", "False Pending"]),
    ("Accepted", &["False ListenerReplaced", "False GatewayReplaced", "False NoValidCACertificate"]),
    ("Attached", &["True Attached", "True Merged", "False Overridden", "False Pending", "False TargetNotFound"]),
    ("Overridden", &["True ConflictedWithBackendTLSPolicy"]),
    ("ResolvedRefs", &["True ResolvedRefs", "False InvalidCACertificateRef", "False InvalidKind"]),
    ("holdfast.dev/Fallback", &["True Replaced"]),
];

#[test]
fn every_condition_of_policies_has_a_golden_pair() {
    let answers = golden(true);
    let rows =
        CONDITIONS.iter().flat_map(|(kind, reasons)| reasons.iter().map(move |reason| format!("{kind}: \"{reason}")));
    let bare: Vec<String> = rows.filter(|row| !answers.iter().any(|answer| answer.contains(row.as_str()))).collect();
    assert!(bare.is_empty(), "no golden pair shows {bare:#?}");
}
