//! HTTP pages of a running main loop without Envoys: the tests send objects and request pages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Engine, Event};
use holdfast_store::MemoryStore;
use holdfast_xds::{Answer, Fleets, Notice, Outcome, ResourceType};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

use super::log_level::PeerAddress;
use super::metrics::Metrics;
use super::{State, debug_pages, metrics_pages};
use crate::log::RuntimeLogLevel;
use crate::manifests::{Incarnations, ManifestReading, Manifests, Readings, Root};
use crate::serve::core::{Core, CoreHandle, CoreInputs};
use crate::serve::health::Readiness;
use crate::serve::outputs::Outputs;
use crate::store::persist::Persist;

const MANIFESTS: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: c}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra}
spec:
  gatewayClassName: c
  listeners: [{name: http, port: 18080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: lost, namespace: shop}
spec:
  parentRefs: [{name: web, namespace: infra}]
  rules: [{backendRefs: [{name: nowhere, port: 80}]}]
";

/// A main loop, with the channels to it.
struct Loop {
    state: State,
    readings: mpsc::Sender<ManifestReading>,
    notices: mpsc::Sender<Notice>,
    end: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Loop {
    fn start() -> Self {
        Self::with(mpsc::channel(1).1, None)
    }

    /// A loop with events of the ports of the host, and with a store.
    fn with(ports: mpsc::Receiver<Vec<Event>>, store: Option<Arc<Persist>>) -> Self {
        let (handle, questions) = CoreHandle::new();
        let (metrics, health, fleets) =
            (Arc::new(Metrics::new().unwrap()), Arc::new(Readiness::default()), Fleets::new());
        Readiness::pass(&health.xds);
        let state = State {
            handle,
            metrics: metrics.clone(),
            health: health.clone(),
            fleets: fleets.clone(),
            envoys: None,
            store: store.clone(),
            comparison: Arc::default(),
            log_level: RuntimeLogLevel::without_log(),
        };
        let (readings, readings_out) = mpsc::channel(4);
        let (notices, notices_out) = mpsc::channel(4);
        let (end, ending) = watch::channel(false);
        let core = Core::new(Engine::new(Settings::standalone()), Outputs::new(fleets, None, store), metrics, health);
        let ((_, tried), (_, probe)) = (mpsc::channel(1), watch::channel(None));
        let (provisioned, replicas) = (mpsc::channel(1).1, mpsc::channel(1).1);
        let inputs = CoreInputs {
            readings: readings_out,
            notices: notices_out,
            tried,
            probe,
            provisioned,
            ports,
            replicas,
            questions,
            ending,
        };
        Self { state, readings, notices, end, task: core.start(inputs).unwrap() }
    }

    async fn debug(&self, path: &str) -> (u16, String) {
        fetch(debug_pages(self.state.clone()), path, "localhost").await
    }

    async fn metrics(&self, path: &str) -> (u16, String) {
        fetch(metrics_pages(self.state.clone()), path, "example.com").await
    }

    async fn json(&self, path: &str) -> Value {
        let (status, text) = self.debug(path).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Requests a page until it contains the given words.
    async fn comes_to_show(&self, path: &str, words: &str) -> String {
        for _ in 0..6000 {
            let (_, text) = self.metrics(path).await;
            if text.contains(words) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} never says {words}: {:?}", self.metrics(path).await);
    }
}

async fn fetch(pages: axum::Router, path: &str, host: &str) -> (u16, String) {
    let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
    let answer = pages.oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_gateways_hosts_and_objects() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    let it = Loop::start();
    assert_eq!(it.debug("/object/HTTPRoute/shop/lost").await.0, 503);
    it.readings.send(read(folder.path())).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok").await;
    let has = async |path: &str, status: u16, words: &[&str]| {
        let (got, text) = it.debug(path).await;
        let page = format!("{path}: {text}");
        assert_eq!(got, status, "{page}");
        words.iter().for_each(|words| assert!(text.contains(words), "{words} is not in {page}"));
    };
    has("/", 200, &["NOT everything is served as desired", "infra/web", "any other host", "Service shop/nowhere"])
        .await;
    has("/?q=nowhere&namespace=shop&state=error", 200, &["of namespace shop", "Service shop/nowhere"]).await;
    has("/?q=elsewhere", 200, &["No host with this filter.", "Nothing with this filter."]).await;
    has("/?x=1", 400, &["unknown parameter x"]).await;
    has("/object/httproute/shop/lost", 200, &["<h1>HTTPRoute shop/lost</h1>", "Text for the owner", "answers 500"])
        .await;
    has("/object/HTTPRoute/shop/unknown", 404, &["Holdfast has read no object HTTPRoute/shop/unknown"]).await;
    has("/object/HTPRoute/shop/lost", 404, &["did you mean HTTPRoute?"]).await;
    has("/explain", 200, &["No request is sent."]).await;
    has("/explain?url=http://a:18080/x", 200, &["not served as desired", "HTTPRoute shop/lost rules[0]: yes"]).await;
    has("/explain?url=nothing", 400, &["verdict error"]).await;
    assert_eq!(fetch(debug_pages(it.state.clone()), "/", "shop.example.com").await.0, 421);
}

fn manifests(folder: &Path) -> Manifests {
    Manifests::new(vec![Root { path: folder.into() }], Incarnations::in_memory(), Readings::Repeated)
}

fn read(folder: &Path) -> ManifestReading {
    manifests(folder).read()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_served_configuration_and_faults() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    let mut it = Loop::start();
    assert_eq!(it.metrics("/healthz").await, (200, "ok\n".into()));
    let (status, text) = it.metrics("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-]objects") && text.contains("[+]xds"), "{text}");

    let page = "/debug/explain?url=http://shop.example.com:18080/&header=x-a:%201";
    let (status, text) = it.debug(page).await;
    assert_eq!((status, &*text), (503, "the objects have not been translated yet\n"));

    it.readings.send(read(folder.path())).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok\n").await;
    assert_eq!(it.metrics("/readyz").await, (200, "ready\n".into()));
    it.comes_to_show("/metrics", "\nholdfast_main_loop_age_seconds 0\n").await;

    let explained = it.json(page).await;
    assert_eq!(
        (&explained["report"]["gateway"], &explained["report"]["outcome"]),
        (&json!("infra/web"), &json!("notServed"))
    );
    assert!(explained["text"].as_str().unwrap().contains("HTTPRoute shop/lost rules[0]"), "{explained}");
    assert_eq!(it.debug("/debug/explain?url=http://a/&header=x").await.0, 400);

    let config = it.json("/debug/config/successful").await;
    let resources = config.pointer("/gateways/0/resources").and_then(Value::as_array).unwrap();
    let types: Vec<&str> = resources.iter().filter_map(|resource| resource["type"].as_str()).collect();
    assert_eq!(types, ["LDS", "RDS"]);
    assert!(resources.iter().all(|resource| !resource["origins"].as_array().unwrap().is_empty()));
    let routes = it.json("/debug/config/successful?gateway=infra/web&type=rds").await;
    assert_eq!(routes.pointer("/gateways/0/resources/0"), resources.get(1));
    let objects = config["objects"].as_array().unwrap();
    assert!(objects.iter().all(|object| object["file"].as_str().unwrap().ends_with("all.yaml")), "{objects:?}");

    let faults = it.json("/debug/faults").await;
    assert_eq!(faults.pointer("/faults/0/fault/reason").unwrap(), "BackendNotFound");
    assert_eq!(faults.pointer("/faults/0/line").unwrap(), 14);
    assert_eq!(faults.pointer("/replacements/0/response").unwrap(), 500);
    let statuses = it.json("/debug/statuses").await.to_string();
    assert!(statuses.contains("ResolvedRefs"), "{statuses}");
    assert!(it.json("/debug/graph").await.to_string().contains("Service:shop/nowhere"));
    assert!(it.debug("/debug/graph?format=dot").await.1.starts_with("digraph"));
    assert_eq!(it.debug("/debug/graph?format=png").await.0, 400);
    assert_eq!(it.json("/debug/envoys").await, json!({ "connected": [], "lost": [], "managed": [] }));
    assert_eq!(it.debug("/nowhere").await.0, 404);

    it.end.send(true).unwrap();
    (&mut it.task).await.unwrap();
    assert_eq!(it.debug("/debug/faults").await.0, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_store_shows_whether_all_is_on_the_disk() {
    let (permit, permits) = std::sync::mpsc::channel();
    let write = move |_| permits.recv().unwrap_or_default();
    let it = Loop::with(mpsc::channel(1).1, Some(Arc::new(Persist::start(MemoryStore::default(), write).unwrap())));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(folder.path().join("broken.yaml"), BROKEN).unwrap();
    let mut manifests = manifests(folder.path());
    it.readings.send(manifests.read()).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok\n").await;
    assert_eq!(it.json("/debug/store").await["upToDate"], true);

    // The store forgets a deleted object, as soon as its write ends.
    std::fs::remove_file(folder.path().join("broken.yaml")).unwrap();
    it.readings.send(manifests.read()).await.unwrap();
    let comes_to_be = async |wanted: bool| {
        for _ in 0..1000 {
            if it.json("/debug/store").await["upToDate"] == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("upToDate is not {wanted}: {}", it.json("/debug/store").await);
    };
    comes_to_be(false).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(it.json("/debug/store").await["upToDate"], false, "it is being written");
    permit.send(()).unwrap();
    comes_to_be(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_has_the_health_of_this_moment_and_answers_while_the_loop_is_busy() {
    let it = Loop::start();
    assert!(!it.metrics("/readyz?verbose").await.1.contains("[i]"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    it.readings.send(read(folder.path())).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok\n").await;
    let sentence = it.state.handle.query(|core| core.health().summary().sentence()).await.unwrap();
    // The last reported health may be old; the sentence must describe the current health.
    it.state.health.note(holdfast_engine::health::Health::default());
    it.comes_to_show("/readyz?verbose", &format!("[i]{sentence}\n")).await;

    let (busy, over) = std::sync::mpsc::channel::<()>();
    let handle = it.state.handle.clone();
    let question = tokio::spawn(async move { handle.query(move |_| over.recv().is_err()).await });
    it.comes_to_show("/readyz?verbose", "[i]Last report (no current answer in time): ").await;
    drop(busy);
    assert_eq!(question.await.unwrap(), Some(true));
    it.comes_to_show("/readyz?verbose", &format!("[i]{sentence}\n")).await;
}

/// A route with one rule that cannot be served.
const BROKEN: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{name: web, namespace: infra}]
  rules:
  - matches: [{path: {type: RegularExpression, value: '/a['}}]
  - matches: [{path: {value: /b}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_broken_refused_and_planned_objects() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), format!("{MANIFESTS}---{BROKEN}")).unwrap();
    let it = Loop::start();
    it.readings.send(read(folder.path())).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok\n").await;

    let report = it.json("/debug/config/fallback").await;
    assert_eq!(report["status"], "triggered");
    assert_eq!(report.pointer("/brokenObjects/0/name").unwrap(), "cart");
    assert_eq!(report.pointer("/replacedObjects/0/section").unwrap(), "rules[0]");
    assert_eq!((&report["backfilledObjects"], &report["excludedObjects"]), (&json!([]), &json!([])));
    assert_eq!(report.pointer("/gateways/0/name").unwrap(), "infra/web");
    let graph = it.json("/debug/graph").await;
    assert_eq!(graph["broken"], json!(["gateway.networking.k8s.io/HTTPRoute:shop/cart"]));
    let dot = it.debug("/debug/graph?format=dot").await.1;
    assert!(dot.contains(r#""gateway.networking.k8s.io/HTTPRoute:shop/cart" [style=filled, fillcolor=red"#), "{dot}");
    let plan = it.json("/debug/plan").await;
    assert_eq!(plan.pointer("/lines/0/decisions/0/step").unwrap(), "replaced");
    assert_eq!(it.json("/debug/config/failed").await, json!({"failed": []}));
    let store = it.json("/debug/store").await;
    assert_eq!((&store["stored"], store.pointer("/scopes/0/gateway").unwrap()), (&json!(false), &json!("infra/web")));

    let config = it.json("/debug/config/successful?type=rds").await;
    let resource = config.pointer("/gateways/0/resources/0").unwrap().clone();
    let version = it.state.handle.query(|core| {
        let offered = core.engine.fleet("infra/web").unwrap();
        offered.of(ResourceType::Route).values().next().unwrap().version
    });
    let answer = Answer {
        fleet: "infra/web".into(),
        node: "one".into(),
        build: "1.40.0".into(),
        kind: ResourceType::Route,
        outcome: Outcome::Refused { message: "no such thing".into() },
        resources: vec![(resource["name"].as_str().unwrap().into(), Some(version.await.unwrap()))],
    };
    it.notices.send(Notice::Answered(answer)).await.unwrap();
    it.comes_to_show("/metrics", r#"holdfast_nacks_total{gateway="infra/web",type="RDS"} 1"#).await;
    let failed = it.json("/debug/config/failed").await;
    assert_eq!(failed.pointer("/failed/0/refusal/message").unwrap(), "no such thing");
    assert!(failed.pointer("/failed/0/config/virtualHosts").is_some(), "{failed}");
    let errors = it.json("/debug/config/raw-error").await.to_string();
    assert!(errors.contains("no such thing"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_translations_answers_and_replacements() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    let it = Loop::start();
    it.readings.send(read(folder.path())).await.unwrap();
    let replaced = r#"holdfast_route_replacements{cause="referential",gateway="infra/web",scope="rule"} 1"#;
    let page = it.comes_to_show("/metrics", replaced).await;
    assert!(page.contains("holdfast_translation_total{success=\"true\"} 1"), "{page}");
    assert!(page.contains("holdfast_translation_broken_objects 1"), "{page}");

    let config = it.json("/debug/config/successful?type=rds").await;
    let name = config.pointer("/gateways/0/resources/0/name").and_then(Value::as_str).unwrap().to_owned();
    let answer = |outcome| Answer {
        fleet: "infra/web".into(),
        node: "one".into(),
        build: "1.40.0".into(),
        kind: ResourceType::Route,
        outcome,
        resources: vec![(name.as_str().into(), None)],
    };
    it.notices.send(Notice::Answered(answer(Outcome::Acknowledged))).await.unwrap();
    it.notices.send(Notice::Answered(answer(Outcome::Refused { message: "no".into() }))).await.unwrap();
    // A page may be read between the updates of two counters for one answer.
    for line in [
        r#"holdfast_nacks_total{gateway="infra/web",type="RDS"} 1"#,
        r#"holdfast_configuration_push_total{success="true"} 1"#,
        r#"holdfast_configuration_push_total{success="false"} 1"#,
    ] {
        it.comes_to_show("/metrics", line).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnostics_answer_to_no_other_name() {
    let it = Loop::start();
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:10256", 200),
        ("[::1]:10256", 200),
        ("LOCALHOST:80", 200),
        ("rebound.example.com", 421),
        ("rebound.example.com:10256", 421),
        ("127.0.0.1.example.com", 421),
    ] {
        assert_eq!(fetch(debug_pages(it.state.clone()), "/debug/faults", host).await.0, status, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_does_not_wait_for_ports_of_the_host_that_change_all_the_time() {
    const CHANGES: u16 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    let (ports, ports_out) = mpsc::channel(CHANGES.into());
    for number in 0..CHANGES {
        let process = (([127, 0, 0, 1], 18080).into(), number.to_string().into());
        ports.try_send(vec![Event::PortsTaken([process].into())]).unwrap();
    }
    let it = Loop::with(ports_out, None);
    it.readings.send(read(folder.path())).await.unwrap();
    it.comes_to_show("/readyz?verbose", "[+]translation ok\n").await;
    assert!(ports.capacity() < ports.max_capacity(), "all changes of ports were processed before");
}

/// The level of the log is changed only by a client of the same host.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_is_changed_from_this_host_only() {
    let it = Loop::start();
    let send = async |method: &str, query: &str, peer: Option<&str>| {
        let pages = debug_pages(it.state.clone());
        let request = Request::builder().method(method).uri(format!("/debug/log-level{query}"));
        let mut request = request.header("host", "localhost").body(Body::empty()).unwrap();
        if let Some(peer) = peer {
            request.extensions_mut().insert(PeerAddress(peer.parse().unwrap()));
        }
        let response = pages.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let debug = "?level=debug&seconds=600";
    for method in ["PUT", "DELETE"] {
        for peer in [None, Some("10.0.0.1"), Some("::ffff:10.0.0.1"), Some("fd00::1")] {
            assert_eq!(send(method, debug, peer).await.0, 403, "{method} {peer:?}");
        }
    }
    assert_eq!(send("POST", debug, Some("127.0.0.1")).await.0, 405);
    for (query, why) in [
        ("?level=debug", "seconds is missing"),
        ("?seconds=1", "level is missing"),
        ("?level=debug&seconds=0", "seconds: from 1 to 86400"),
        ("?level=debug&seconds=86401", "seconds: from 1 to 86400"),
        ("?level=loud&seconds=1", "level: expected one of off"),
        ("?level=debug&seconds=1&for=2", "unknown parameter for"),
        (&format!("?level={}=info&seconds=1", "a".repeat(2000)), "level: at most 1024 bytes"),
    ] {
        let (status, text) = send("PUT", query, Some("::1")).await;
        assert!(status == 400 && text.contains(why), "{query}: {status} {text}");
    }
    for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let (status, text) = send("PUT", debug, Some(peer)).await;
        assert!(status == 200 && text.contains(r#""level":"debug""#), "{peer}: {status} {text}");
        let (status, text) = send("DELETE", "", Some(peer)).await;
        assert_eq!((status, &*text), (200, r#"{"level":"info","startedWith":"info"}"#));
    }
    it.end.send_replace(true);
}
