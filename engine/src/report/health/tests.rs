//! Tests of health after events, for each combination of feature gates: the report is compared with the configuration
//! of simulated Envoys.

use envoy_types::pb::envoy::config::route::v3::route::Action as Answer;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use holdfast_api::settings::Fallback;
use prost::Message;

use super::*;
use crate::engine::Event;
use crate::health::inputs::SourceState;
use crate::health::{HealthVerdict, Severity};
use crate::report::survey::tests::{BASE, Scene, envoys, exact, filtered, last_valid, route};

/// Inputs of health that are read, and the Envoys of the scene.
fn outside() -> Outside {
    let input = SourceState { name: "manifests".into(), read: true, ..SourceState::default() };
    Outside { input, connected: [("infra/public".into(), 2)].into(), ..Outside::default() }
}

fn health(scene: &Scene) -> Health {
    scene.engine.health(outside())
}

/// Returns the findings by severity: the reasons and the effects on clients.
fn findings(scene: &Scene) -> Vec<(Severity, String, Vec<Gets>)> {
    let health = health(scene);
    let of = |severity| {
        health.of(severity).iter().map(move |finding| {
            let gets = finding.served.iter().map(|served| served.gets.clone()).collect();
            (severity, finding.reason.clone(), gets)
        })
    };
    Severity::ALL.into_iter().flat_map(of).collect()
}

/// Returns the answer of Envoys for a path of the scene: the status of a direct response, or 200 if the route forwards.
fn answer(scene: &Scene, path: &str) -> Option<u32> {
    let snapshot = scene.engine.fleet("infra/public")?;
    let resource = snapshot.of(ResourceType::Route).values().next()?;
    let table = RouteConfiguration::decode(resource.body.clone()).ok()?;
    let mut routes = table.virtual_hosts.into_iter().flat_map(|host| host.routes);
    let is_meant = |route: &Route| format!("{:?}", route.r#match).contains(path);
    let route = routes.find(is_meant)?;
    Some(match route.action? {
        Answer::DirectResponse(response) => response.status,
        _ => 200,
    })
}

mod below;
mod causes;
mod reached;

const GATES: [(bool, bool); 3] = [(false, false), (true, false), (true, true)];

fn gates((isolate, use_last_valid): (bool, bool)) -> Fallback {
    Fallback { isolate, use_last_valid, ..Fallback::default() }
}

#[test]
fn nothing_is_reported_while_everything_is_current() {
    for combination in GATES {
        let scene = Scene::new(gates(combination), envoys());
        assert_eq!((health(&scene).verdict, findings(&scene)), (HealthVerdict::Healthy, vec![]), "{combination:?}");
    }
}

#[test]
fn what_translation_finds_is_an_outage_where_clients_get_an_error_and_else_is_degraded() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&route(5, "{type: RegularExpression, value: '/fine['}"));
        let findings = findings(&scene);
        assert_eq!(findings.len(), 1, "{combination:?}: {findings:?}");
        let (severity, _, gets) = &findings[0];
        match answer(&scene, "/fine") {
            Some(200) => assert_eq!(*severity, Severity::Degraded, "{combination:?}: {findings:?}"),
            Some(status) => {
                assert_eq!(*severity, Severity::Outage, "{combination:?}: {findings:?}");
                let status = u16::try_from(status).unwrap();
                assert_eq!(*gets, [Gets::Status { status }], "{combination:?}");
            }
            None => panic!("{combination:?}: there is no such route"),
        }
    }
}

#[test]
fn refusals_are_reported_with_envoys_message_under_each_gate() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&route(5, &filtered("/refused")));
        let health = health(&scene);
        assert_ne!(health.verdict, HealthVerdict::Healthy, "{combination:?}");
        let all = Severity::ALL.into_iter().flat_map(|severity| health.of(severity));
        let messages: Vec<&str> = all.map(|finding| &*finding.message).collect();
        assert!(messages.iter().any(|message| message.contains("missing ]: [")), "{combination:?}: {messages:?}");
        let is_outage = health.outages.iter().flat_map(|finding| &finding.served).next().is_some();
        assert_eq!(is_outage, answer(&scene, "/b") != Some(200) && answer(&scene, "/fine") != Some(200), "{health:?}");
    }
}

#[test]
fn during_a_hold_a_404_is_reported_only_if_it_is_served() {
    let mut scene = Scene::new(Fallback::default(), envoys());
    scene.apply(&route(5, &exact("/refused")));
    scene.apply(&route(6, "{type: RegularExpression, value: '/refused['}"));
    let health = health(&scene);
    let claimed: Vec<u16> = health
        .outages
        .iter()
        .flat_map(|finding| &finding.served)
        .filter_map(|served| match served.gets {
            Gets::Status { status } => Some(status),
            _ => None,
        })
        .collect();
    let gets_404 = [answer(&scene, "/refused"), answer(&scene, "/fine")].contains(&Some(404));
    assert_eq!(claimed.contains(&404), gets_404, "{health:?}");
}

#[test]
fn a_missing_service_is_an_outage_under_each_gate_with_hosts_and_paths() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.delete(ObjectKey::new("", "Service", "shop", "cart"));
        let findings = findings(&scene);
        let both = Gets::Status { status: 500 };
        assert_eq!(
            findings,
            [(Severity::Outage, "BackendNotFound".to_owned(), vec![both.clone(), both])],
            "{combination:?}"
        );
        let served = &health(&scene).outages[0].served[0];
        assert_eq!(served.hosts.iter().map(|host| &**host).collect::<Vec<_>>(), ["*"]);
        assert_eq!(served.paths.iter().map(|path| &**path).collect::<Vec<_>>(), ["/cart/*"]);
        assert_eq!(answer(&scene, "/cart"), Some(500));
    }
}

#[test]
fn the_gate_for_missing_backends_is_named_where_a_last_valid_version_exists() {
    for (use_last_valid, wanted) in [(true, true), (false, false)] {
        let mut scene = Scene::new(gates((true, use_last_valid)), envoys());
        scene.apply(&route(5, &exact("/fine")).replace("name: cart, port", "name: gone, port"));
        let health = health(&scene);
        let why = health.outages[0].objects[0].not_backfilled.as_deref().unwrap_or_default();
        let is_named = why.contains("generation 4") && why.contains("BackfillUnresolvedReferences");
        assert_eq!(is_named, wanted, "{why:?}");
    }
}

#[test]
fn a_listener_that_is_closed_and_a_class_that_is_missing_are_outages() {
    let mut scene = Scene::new(last_valid(), envoys());
    let secure = "- {name: tls, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: none}]}}\n  - {name: http,";
    scene.apply(&BASE.replace("- {name: http,", secure));
    let health = health(&scene);
    let refused = health.outages.iter().flat_map(|finding| &finding.served).any(|served| served.gets == Gets::Refused);
    assert!(refused, "{health:?}");
    scene.apply(&BASE.replace("gatewayClassName: holdfast", "gatewayClassName: holdfsat"));
    let reasons: Vec<String> = findings(&scene).into_iter().map(|(_, reason, _)| reason).collect();
    assert!(reasons.contains(&"ClassNotFound".to_owned()), "{reasons:?}");
}

#[test]
fn an_httpproxy_that_no_root_includes_is_a_warning() {
    let orphan = "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {namespace: shop, name: orphan, uid: o, \
                  generation: 1}, spec: {routes: [{services: [{name: cart, port: 80}]}]}}";
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(orphan);
        assert_eq!(findings(&scene), [(Severity::Warning, "Orphaned".to_owned(), vec![])], "{combination:?}");
        assert_eq!(health(&scene).verdict, HealthVerdict::Degraded);
    }
}

#[test]
fn a_fault_that_returns_is_dated_when_it_returns() {
    let service = "{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: cart, uid: s, generation: 1}, spec: \
                   {ports: [{port: 80}]}}";
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        let mut ledger = holdfast_api::ledger::Ledger::default();
        let start = scene.engine.now();
        let mut look = |scene: &mut Scene, at: i64, is_there: bool| {
            scene.engine.handle(vec![Event::Clock(u64::try_from(at).unwrap() * 1000)]);
            match is_there {
                true => scene.apply(service),
                false => scene.delete(ObjectKey::new("", "Service", "shop", "cart")),
            }
            let facts = scene.engine.facts(&scene.engine.reports(), outside());
            ledger.observe(crate::health::judge::present(&facts), Moment(at));
            scene.engine.date(Arc::new(ledger.clone()));
            let outside = Outside { ledger: Arc::new(ledger.clone()), ..outside() };
            scene.engine.health(outside).outages.first().and_then(|finding| finding.since)
        };
        assert_eq!(look(&mut scene, start + 10, false), Some(Moment(start + 10)), "{combination:?}");
        assert_eq!(look(&mut scene, start + 20, false), Some(Moment(start + 10)), "{combination:?}");
        assert_eq!(look(&mut scene, start + 30, true), None, "{combination:?}");
        assert_eq!(look(&mut scene, start + 46, false), Some(Moment(start + 46)), "{combination:?}");
        let report = scene.engine.fallback();
        assert!(report.broken_objects.iter().all(|broken| broken.since == Moment(start + 46)), "{report:?}");
    }
}

#[test]
fn dates_come_from_the_ledger_also_for_what_is_found_again() {
    let broken = route(5, "{type: RegularExpression, value: '/a['}");
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(&broken);
    let facts = scene.engine.facts(&scene.engine.reports(), outside());
    let since = facts.found[0].since.unwrap();
    let mut ledger = holdfast_api::ledger::Ledger::default();
    ledger.observe(crate::health::judge::present(&facts), since);
    // A process that starts an hour later finds the same problem.
    let mut engine = Engine::new(scene.engine.settings().clone());
    engine.date(Arc::new(ledger));
    let later = u64::try_from(since.0 + 3600).unwrap() * 1000;
    engine.handle(vec![Event::Clock(later)]);
    engine.handle(crate::testing::events(&format!("{BASE}---\n{broken}")));
    assert_eq!(engine.fallback().broken_objects[0].since, since);
    assert_eq!(engine.health(outside()).outages[0].since, Some(since));
}

/// Secrets with certificates; `infra/shop` and `infra/other` differ.
const CERTIFICATES: &str = include_str!("../../../../tests/golden/include/certificates.yaml");

/// Returns a Secret with the key of another Secret.
fn foreign_key(name: &str) -> String {
    let secrets = crate::testing::documents(CERTIFICATES);
    let of = |name: &str| {
        let is_meant = |secret: &&serde_json::Value| secret["metadata"]["name"] == name;
        secrets.iter().find(is_meant).unwrap().clone()
    };
    let mut secret = of(name);
    secret["stringData"]["tls.key"] = of("wild")["stringData"]["tls.key"].clone();
    secret["metadata"]["generation"] = 2.into();
    secret.to_string()
}

/// A TLS listener of a Gateway, a listener of a ListenerSet and a host of HTTPProxies, with the same certificate; the
/// first has a second certificate.
fn secured(gates: Fallback) -> Scene {
    let mut scene = Scene::new(gates, envoys());
    scene.apply(CERTIFICATES);
    let listener = |name: &str, more: &str| {
        format!(
            "{{name: {name}, port: 9443, protocol: HTTPS, hostname: {name}.test, \
             tls: {{certificateRefs: [{{name: shop}}{more}]}}, allowedRoutes: {{namespaces: {{from: All}}}}}}"
        )
    };
    let own = format!("- {}\n  - {{name: http,", listener("own", ", {name: other}"));
    let sets = "gatewayClassName: holdfast\n  allowedListeners: {namespaces: {from: All}}";
    // HTTPProxies use 8080 and 8443.
    let base = BASE.replace("port: 8080", "port: 9080").replace("gatewayClassName: holdfast", sets);
    scene.apply(&base.replace("- {name: http,", &own));
    scene.apply(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: more, namespace: infra}}\n\
         spec: {{parentRef: {{name: public}}, listeners: [{}]}}",
        listener("more", "")
    ));
    scene.apply(
        "apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: infra}\nspec: {ports: [{port: 80}]}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {name: cart-1, namespace: infra, labels: {kubernetes.io/service-name: cart}}\n\
         addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: ['10.0.0.2']}]\n---\n\
         apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: root, namespace: infra, generation: 1}\n\
         spec: {virtualhost: {fqdn: root.test, tls: {secretName: shop}}, \
         routes: [{services: [{name: cart, port: 80}]}]}",
    );
    scene.connect(crate::testing::played::PlayedEnvoy::new("holdfast/httpproxy", "three"));
    scene
}

/// Returns the parts of objects with an effect on clients, and the effect.
fn served(findings: &[crate::health::HealthFinding]) -> BTreeSet<(String, Gets)> {
    let served = findings.iter().flat_map(|finding| &finding.served);
    served
        .map(|served| {
            let gets = match served.gets.clone() {
                Gets::LastValidOf { of, generation, expires, .. } => {
                    assert!(expires.is_some(), "the certificate has an expiry");
                    Gets::LastValidOf { of, generation, since: Moment(0), expires: None }
                }
                Gets::LastValid { generation, .. } => {
                    Gets::LastValid { generation, since: Moment(0), except: BTreeSet::new() }
                }
                gets => gets,
            };
            (format!("{} {}", served.object.kind, served.section), gets)
        })
        .collect()
}

#[test]
fn what_is_served_with_the_last_valid_version_of_its_certificate_is_no_outage() {
    for combination in GATES {
        let mut scene = secured(gates(combination));
        assert_eq!(findings(&scene), vec![], "{combination:?}");
        scene.apply(&foreign_key("shop"));
        let health = health(&scene);
        let secret = health.degraded.iter().chain(&health.outages).flat_map(|finding| &finding.objects);
        let secret = secret.map(|subject| &subject.object).find(|object| &*object.kind == "Secret").cloned();
        let parts = ["Gateway listeners[0]", "ListenerSet listeners[0]", "HTTPProxy virtualhost"];
        if combination == (true, true) {
            assert_eq!(health.outages, [], "{combination:?}");
            let gets = Gets::LastValidOf { of: secret.unwrap(), generation: 0, since: Moment(0), expires: None };
            let mut expected: BTreeSet<_> = parts.into_iter().map(|part| (part.to_owned(), gets.clone())).collect();
            expected.insert((
                "Secret ".to_owned(),
                Gets::LastValid { generation: 0, since: Moment(0), except: BTreeSet::new() },
            ));
            assert_eq!(served(&health.degraded), expected);
        } else {
            // The first listener has a second certificate and is served with it.
            let outages = served(&health.outages);
            for part in &parts[1..] {
                assert!(outages.contains(&((*part).to_owned(), Gets::Refused)), "{combination:?}: {outages:?}");
            }
        }
        // One of several certificates is broken.
        let mut scene = secured(gates(combination));
        scene.apply(&foreign_key("other"));
        let outages = self::health(&scene).outages.len();
        assert_eq!(outages == 0, combination == (true, true), "{:?}", findings(&scene));
    }
}

#[test]
fn a_service_without_endpoints_is_an_outage_for_its_share_of_the_requests() {
    let bare = "apiVersion: v1\nkind: Service\nmetadata: {name: bare, namespace: shop}\nspec: {ports: [{port: 80}]}";
    let to = |backends: &str| {
        format!(
            "{bare}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: more, namespace: shop}}\n\
             spec: {{parentRefs: [{{name: public, namespace: infra}}], \
             rules: [{{matches: [{{path: {{value: /more}}}}], backendRefs: [{backends}]}}]}}"
        )
    };
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&to("{name: bare, port: 80}"));
        let outage = |gets| [(Severity::Outage, "NoEndpoints".to_owned(), vec![gets])];
        assert_eq!(findings(&scene), outage(Gets::Status { status: 503 }), "{combination:?}");
        scene.apply(&to("{name: bare, port: 80}, {name: cart, port: 80}"));
        assert_eq!(findings(&scene), outage(Gets::Share { status: 503 }), "{combination:?}");
        scene.apply(&to("{name: bare, port: 80, weight: 0}, {name: cart, port: 80}"));
        assert_eq!(findings(&scene), [], "{combination:?}");
        assert_eq!(scene.engine.fallback().status, holdfast_fallback::view::Status::NotTriggered);
    }
}

#[test]
fn namespaces_with_objects_are_known_with_the_gateways_of_their_routes() {
    let scene = Scene::new(last_valid(), envoys());
    let namespaces = health(&scene).namespaces;
    let names: Vec<_> = namespaces.iter().map(|(name, at)| (&**name, at.len())).collect();
    assert_eq!(names, [("infra", 0), ("shop", 1)]);
}
