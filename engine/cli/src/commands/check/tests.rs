//! Checks against stores that an engine and a simulated Envoy have filled.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use holdfast_api::settings::{Fallback, Settings};
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_fallback::restore;
use holdfast_store::{Batch, LastValidStore, Options, SledStore};
use holdfast_test_support as testing;
use holdfast_test_support::played::PlayedEnvoy;
use tempfile::TempDir;

use super::*;
use crate::cli::{Cli, Command};
use crate::data::DataDir;
use crate::manifests::{Incarnations, Manifests, Readings, Root};
use crate::store::{FOLDER, identity};

pub(super) const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: holdfast}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: holdfast
  listeners:
  - {name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
";
const CART: &str = "gateway.networking.k8s.io/HTTPRoute:shop/cart";
const GATES: &str = "--feature-gates FallbackConfiguration=true --use-last-valid-config-for-fallback";

fn service(ports: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: cart, namespace: shop}}\nspec: {{ports: {ports}}}\n")
}

/// A route with a request header, and a path in its second rule.
fn route(name: &str, word: &str, path: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: shop}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [{name}.example.com]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /cart}}}}]
    filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x-word, value: {word}}}]}}}}]
    backendRefs: [{{name: cart, port: 80}}]
  - matches: [{{path: {{type: RegularExpression, value: '{path}'}}}}]
    backendRefs: [{{name: cart, port: 80}}]
"
    )
}

/// A folder of manifests, without a store.
pub(super) struct CheckFolder(TempDir);

impl CheckFolder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> String {
        self.0.path().display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    pub(super) fn report(&self, flags: &str) -> Report {
        report(&args(&[&self.path()], flags)).unwrap()
    }
}

/// The flags of a command line.
fn args(paths: &[&str], flags: &str) -> CheckArgs {
    let words = ["holdfast", "check"].into_iter().chain(paths.iter().copied());
    match Cli::try_parse_from(words.chain(flags.split_whitespace())).unwrap().command {
        Command::Check(args) => args,
        other => panic!("{other:?}"),
    }
}

/// A data folder in which an Envoy has accepted `shop/cart` in generation 1, and manifests.
struct CheckScene {
    folder: TempDir,
}

impl CheckScene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.manifests()).unwrap();
        scene.write("base.yaml", GATEWAY);
        scene.write("service.yaml", &service("[{port: 80}]"));
        scene.write("cart.yaml", &route("cart", "one", "/a+"));
        scene.serve();
        scene
    }

    fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.manifests().join(name), text).unwrap();
    }

    /// Serves the current manifests to an Envoy that refuses a certain word, and stores the result.
    fn serve(&self) {
        let data = DataDir::open(&self.data()).unwrap();
        let roots = vec![Root { path: self.manifests() }];
        let mut manifests = Manifests::new(roots, Incarnations::open(data.path()).unwrap(), Readings::Repeated);
        let fallback = Fallback { isolate: true, use_last_valid: true, ..Fallback::default() };
        let mut engine = Engine::new(Settings { fallback, ..Settings::standalone() });
        let mut envoy = PlayedEnvoy::new("infra/public", "envoy").refusing("refused-word", "no such word");
        let (mut store, mut stored) = (self.store(), Batch::default());
        let (restored, _) = restore::restore(&store).unwrap();
        engine.handle(vec![Event::Restored(Box::new(restored))]);
        let mut events = vec![Event::Clock(1_795_168_800_000)];
        events.extend(manifests.read().events);
        events.push(Event::Connected(envoy.id.clone(), false));
        while !events.is_empty() {
            let mut answers = Vec::new();
            for action in engine.handle(std::mem::take(&mut events)) {
                match action {
                    Action::Publish { offers, .. } => answers.extend(envoy.answers(&offers)),
                    Action::Store(batch) => stored.append(batch),
                    Action::Withdraw { .. } | Action::Try(_) => {}
                }
            }
            stored.append(engine.take_records());
            events = answers;
        }
        manifests.save();
        store.commit(stored).unwrap();
    }

    fn store(&self) -> SledStore {
        let options = Options { identity: identity(), key: None };
        SledStore::open(&self.data().join(FOLDER), &options).unwrap().store
    }

    fn check(&self, flags: &str) -> Result<Report, Failure> {
        let (data, manifests) = (self.data(), self.manifests());
        let (data, manifests) = (data.to_str().unwrap(), manifests.to_str().unwrap());
        report(&args(&["--against", data, manifests], flags))
    }

    /// The report as text. Checks the number of findings, and that the text contains the expected strings.
    fn expect_report(&self, flags: &str, findings: usize, expected: &[&str]) -> String {
        let report = self.check(flags).unwrap();
        let text = text::format(&report);
        assert_eq!(report.findings.len(), findings, "{text}");
        expected.iter().for_each(|expected| assert!(text.contains(expected), "{expected}\n{text}"));
        text
    }
}

/// Every file below a folder, with its content.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { contents(&path) } else { vec![(path.clone(), fs::read(&path).unwrap())] })
        .collect();
    all.sort();
    all
}

#[test]
fn what_was_proven_good_is_nothing_to_object_to() {
    let scene = CheckScene::new();
    let text = scene.expect_report(
        GATES,
        0,
        &["Gateway infra/public, Envoy 1.40.0: ", " objects proven good, 0 contents refused"],
    );
    assert!(!text.contains("backfilled with") && !text.contains("has accepted this version"), "{text}");
    // A good edit is no finding either, but no Envoy has accepted it yet.
    scene.write("cart.yaml", &route("cart", "two", "/a+"));
    scene.expect_report(GATES, 0, &[&format!("{CART}: no Envoy has accepted this version")]);
}

#[test]
fn a_broken_edit_is_backfilled_and_nothing_in_the_folder_changes() {
    let scene = CheckScene::new();
    let before = contents(&scene.data());
    scene.write("cart.yaml", &route("cart", "two", "/a["));
    let text = scene.expect_report(
        GATES,
        1,
        &[
            &format!("{CART}: broken on Gateway infra/public"),
            &format!("{CART}: backfilled with generation 1 instead of 2, good since 2026-11-20T10:00:00Z\n"),
            "cart.yaml:11:48: error",
        ],
    );
    assert!(!text.contains("answers"), "the earlier version is served, not a replacement\n{text}");
    assert!(contents(&scene.data()) == before, "a check writes to the data folder");

    let report = serde_json::to_value(scene.check(GATES).unwrap()).unwrap();
    let fallback = report.pointer("/against/fallback").unwrap();
    assert_eq!(fallback.pointer("/status").unwrap(), "triggered");
    assert_eq!(fallback.pointer("/backfilledObjects/0/servedGeneration").unwrap(), 1);
    assert_eq!(report.pointer("/against/settings/fallbackConfiguration").unwrap(), true);
    assert_eq!(report.pointer("/replacements").unwrap(), &serde_json::json!([]));
}

#[test]
fn without_the_gate_nothing_is_backfilled() {
    let scene = CheckScene::new();
    scene.write("cart.yaml", &route("cart", "two", "/a["));
    let text = scene.expect_report("", 1, &["FallbackConfiguration is off", "rules[1] replaced, answers 404"]);
    assert!(!text.contains("backfilled with"), "{text}");
}

#[test]
fn what_an_envoy_refused_before_is_a_finding() {
    let scene = CheckScene::new();
    scene.write("cart.yaml", &route("cart", "refused-word", "/a+"));
    scene.serve();
    let refused = [
        &format!("{CART}: refused earlier by an Envoy on Gateway infra/public"),
        "backfilled with generation 1 instead of 2",
        "no such word",
        "cart.yaml:8:",
    ];
    scene.expect_report(GATES, 1, &refused);
    let sarif = sarif::format(&scene.check(GATES).unwrap()).to_string();
    assert!(sarif.contains("\"ruleId\":\"Refused\""), "{sarif}");
    // Other content is not refused.
    scene.write("cart.yaml", &route("cart", "three", "/a+"));
    scene.expect_report(GATES, 0, &[]);
}

#[test]
fn what_was_never_stored_is_replaced() {
    let scene = CheckScene::new();
    scene.write("new.yaml", &route("new", "one", "/b["));
    let text = scene.expect_report(GATES, 1, &["HTTPRoute:shop/new: rules[1] replaced, answers 404"]);
    assert!(!text.contains("HTTPRoute:shop/cart: broken"), "{text}");
}

#[test]
fn backfilled_dependants_are_reported_with_their_cause() {
    let scene = CheckScene::new();
    scene.write("service.yaml", &service("nonsense"));
    scene.write("cart.yaml", &route("cart", "two", "/a+"));
    let report = scene.check(GATES).unwrap();
    let text = text::format(&report);
    let expected = [
        "core/Service:shop/cart: backfilled with generation 1, good since",
        &format!("{CART}: backfilled with generation 1 instead of 2"),
        ", because of core/Service:shop/cart",
    ];
    expected.iter().for_each(|expected| assert!(text.contains(expected), "{expected}\n{text}"));
}

#[test]
fn a_deleted_object_is_not_backfilled() {
    let scene = CheckScene::new();
    fs::remove_file(scene.manifests().join("cart.yaml")).unwrap();
    let text = scene.expect_report(GATES, 0, &[&format!("{CART}: would be deleted")]);
    assert!(!text.contains("backfilled with"), "{text}");
}

#[test]
fn a_version_of_another_uid_is_no_stand_in() {
    let scene = CheckScene::new();
    let broken = route("cart", "two", "/a[").replace("namespace: shop}", "namespace: shop, uid: another}");
    scene.write("cart.yaml", &broken);
    let text = scene.expect_report(GATES, 1, &["rules[1] replaced, answers 404"]);
    assert!(!text.contains("backfilled with"), "{text}");
}

#[test]
fn a_store_in_use_is_read_all_the_same() {
    let scene = CheckScene::new();
    scene.write("cart.yaml", &route("cart", "two", "/a["));
    let _lock = DataDir::open(&scene.data()).unwrap();
    let _store = scene.store();
    scene.expect_report(GATES, 1, &["backfilled with generation 1"]);
}

#[test]
fn a_missing_or_unusable_store_is_reported() {
    let scene = CheckScene::new();
    let failure = || scene.check(GATES).map(|_| ()).unwrap_err();
    let usage = format!("{:?}", std::process::ExitCode::from(2));
    let db = scene.data().join(FOLDER).join("db");
    let mut bytes = fs::read(&db).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    fs::write(&db, bytes).unwrap();
    let before = contents(&scene.data());
    assert!(failure().to_string().contains("cannot be used"), "{}", failure());
    assert_eq!(format!("{:?}", failure().exit_code()), usage);
    assert!(contents(&scene.data()) == before, "nothing is set aside");

    fs::write(scene.data().join("incarnations.json"), "{").unwrap();
    assert!(failure().to_string().contains("incarnations.json"), "{}", failure());
    assert!(scene.data().join("incarnations.json").exists());
    fs::remove_dir_all(scene.data().join(FOLDER)).unwrap();
    assert!(failure().to_string().contains("--against: there is no store at"), "{}", failure());
    assert_eq!(format!("{:?}", failure().exit_code()), usage);
    assert!(!scene.data().join(FOLDER).exists(), "looking for a store makes none");
}

#[test]
fn a_store_that_lost_its_end_is_used_and_reported() {
    let scene = CheckScene::new();
    let earlier = contents(&scene.data().join(FOLDER));
    scene.write("cart.yaml", &route("cart", "two", "/a+"));
    scene.serve();
    scene.write("cart.yaml", &route("cart", "three", "/a["));
    scene.expect_report(GATES, 1, &["backfilled with generation 2 instead of 3"]);
    for (path, bytes) in earlier.iter().filter(|(path, _)| !path.ends_with("committed")) {
        fs::write(path, bytes).unwrap();
    }
    let lost = "was committed, but the newest readable generation is 1";
    scene.expect_report(GATES, 1, &[lost, "backfilled with generation 1 instead of 3"]);
}

#[test]
fn sealed_versions_are_known_with_their_key_only() {
    let scene = CheckScene::new();
    let key = [7; 32];
    let key_file = scene.folder.path().join("key");
    fs::write(&key_file, key).unwrap();
    let options = Options { identity: identity(), key: Some(holdfast_store::Key::new(key)) };
    let mut store = SledStore::open(&scene.data().join(FOLDER), &options).unwrap().store;
    let scope = holdfast_store::Scope { gateway: "infra/public".into(), build: "1.40.0".into() };
    let secret =
        testing::documents("{apiVersion: v1, kind: Secret, metadata: {name: tls}, data: {tls.key: aHVudGVyMg==}}");
    let Some(Event::Applied(secret, _)) = secret.into_iter().find_map(testing::event) else { panic!("no Secret") };
    let stored = holdfast_api::apis::document::stored(&secret, 1).unwrap();
    store.commit(Batch::default().with(holdfast_store::Change::Promote(scope, stored))).unwrap();
    drop(store);

    let sealed = "1 records are sealed and there is no --store-key-file";
    scene.expect_report(GATES, 0, &[sealed]);
    let with_key = format!("{GATES} --store-key-file {}", key_file.display());
    let text = scene.expect_report(&with_key, 0, &[]);
    let proven = |flags: &str| scene.check(flags).unwrap().against.unwrap().store.scopes[0].objects;
    assert_eq!(proven(&with_key), proven(GATES) + 1);
    assert!(!text.contains("sealed") && !text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
}

#[test]
fn a_store_of_another_installation_is_not_used() {
    let scene = CheckScene::new();
    fs::remove_dir_all(scene.data().join(FOLDER)).unwrap();
    let options = Options { identity: "somebody else".into(), key: None };
    let mut store = SledStore::open(&scene.data().join(FOLDER), &options).unwrap().store;
    let scope = holdfast_store::Scope { gateway: "infra/public".into(), build: "1.40.0".into() };
    let body = bytes::Bytes::from_static(b"body");
    let (type_url, name, origins) = ("type".into(), "name".into(), Vec::new());
    let resource = holdfast_store::StoredResource { type_url, name, version: [1; 16], sensitive: false, origins, body };
    let acknowledged = holdfast_store::Change::Acknowledge(scope, vec![resource]);
    store.commit(Batch::default().with(acknowledged)).unwrap();
    drop(store);
    let failure = scene.check(GATES).map(|_| ()).unwrap_err();
    assert!(failure.to_string().contains("another installation"), "{failure}");
}

#[test]
fn a_check_fails_from_a_severity() {
    let folder = CheckFolder::new();
    folder.write("a.yaml", GATEWAY);
    let fails = |flags: &str| folder.report(flags).fails(args(&["m"], flags).fail_on);
    assert!(!fails("") && !fails("--fail-on warning"));
    folder.write("b.yaml", &service("[]").repeat(2).replacen("\napiVersion", "\n---\napiVersion", 1));
    assert_eq!(folder.report("").findings.len(), 1, "{:?}", folder.report("").findings);
    assert!(fails("") && fails("--fail-on warning") && !fails("--fail-on error"));
    folder.write("c.yaml", "a: [");
    assert!(fails("") && fails("--fail-on error"));
}

#[test]
fn a_quiet_text_has_the_findings_alone() {
    let folder = CheckFolder::new();
    folder.write("a.yaml", GATEWAY);
    assert_eq!(text::format_findings(&folder.report("-q")), "");
    folder.write("c.yaml", "a: [");
    let report = folder.report("-q");
    let quiet = text::format_findings(&report);
    assert!(quiet.contains("c.yaml:1:4: error: ") && quiet.lines().count() == 1, "{quiet}");
    assert!(text::format(&report).contains(&quiet), "the lines are those of the whole text");
}

#[test]
fn an_object_of_a_kind_that_is_not_read_is_a_warning_with_what_to_use_instead() {
    let folder = CheckFolder::new();
    folder.write("a.yaml", GATEWAY);
    for (api, kind, instead) in [
        ("gateway.kgateway.dev/v1alpha1", "HTTPListenerPolicy", "; use a ListenerPolicy "),
        ("gateway.kgateway.dev/v1alpha1", "GatewayParameters", "; use a ConfigMap "),
        ("gateway.kgateway.dev/v1alpha1", "Waypoint", "no effect"),
        ("projectcontour.io/v1alpha1", "ContourConfiguration", "holdfast migrate contour"),
        ("projectcontour.io/v1alpha1", "ContourDeployment", "; use a ConfigMap "),
    ] {
        folder
            .write("b.yaml", &format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: old, namespace: infra}}\n"));
        let report = folder.report("");
        let text = text::format_findings(&report);
        let group = api.split('/').next().unwrap();
        let start =
            format!("b.yaml:2:1: warning: {group}/{kind}:infra/old: kind: Holdfast does not read the kind {kind}");
        assert!(text.contains(&start) && text.contains(instead) && text.lines().count() == 1, "{text}");
        assert!(report.fails(CheckSeverity::Warning) && !report.fails(CheckSeverity::Error), "{text}");
        assert!(report.foreign.is_empty(), "{:?}", report.foreign);
    }
    folder.write("b.yaml", "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: HTTPRoute\nmetadata: {name: old}\n");
    assert!(
        text::format(&folder.report("")).contains("error: apiVersion: Holdfast reads HTTPRoute of gateway.networking")
    );
    folder.write("b.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: old}\n");
    let report = folder.report("");
    assert!(report.findings.is_empty() && report.foreign.len() == 1, "{}", text::format(&report));
}
