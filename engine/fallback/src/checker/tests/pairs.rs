//! Random pairs of versions: planner and audit agree on each pair, and a version that both accept lacks no protection
//! of the desired version.

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use serde_json::{Map, Value, json};

use super::super::{listener_policies, traffic, upstream};
use crate::eligibility::protection::{Context, lost, trusts_earlier_lists};
use crate::scope::event::Event;

/// The number of pairs of each kind.
const PAIRS: u64 = 4000;

/// A field, as a JSON pointer below `spec`, with its possible values.
type Field = (&'static str, Vec<Value>);

fn traffic_fields() -> Vec<Field> {
    let edits = || {
        vec![
            json!({"request": {"set": [{"name": "X-User", "value": "checked"}]}}),
            json!({"request": {"remove": ["x-user"]}}),
            json!({"request": {"add": [{"name": "x-user", "value": "checked"}]}}),
            json!({"response": {"remove": ["x-user"]}}),
            json!({"response": {"set": [{"name": "x-user", "value": "checked"}]}, "request": {"remove": ["host"]}}),
        ]
    };
    let uses = || {
        vec![json!({"extensionRef": {"name": "one"}}), json!({"extensionRef": {"name": "two"}}), json!({"disable": {}})]
    };
    vec![
        ("headerModifiers", edits()),
        ("transformation", edits()),
        ("extAuth", uses()),
        ("extProc", uses()),
        ("jwtAuth", uses()),
        ("oauth2", uses()),
        (
            "rateLimit",
            vec![
                json!({}),
                json!({"local": {}}),
                json!({"local": {"tokenBucket": {"maxTokens": 1, "fillInterval": "1s"}}}),
                json!({"global": {}}),
            ],
        ),
        (
            "cors",
            vec![json!({"allowOrigins": ["*"]}), json!({"allowOrigins": ["https://a.test"]}), json!({"disable": {}})],
        ),
        ("csrf", vec![json!({"percentageEnabled": 100}), json!({})]),
        ("buffer", vec![json!({"maxRequestSize": 1}), json!({"maxRequestSize": 2}), json!({"disable": {}})]),
        ("acl", vec![json!({"defaultAction": "deny"}), json!({"defaultAction": "allow"})]),
        ("rbac", vec![json!({"policy": {"matchExpressions": ["true"]}}), json!({"policy": {}})]),
        ("basicAuth", vec![json!({"users": ["a:b"]}), json!({"disable": {}})]),
        ("apiKeyAuth", vec![json!({"disable": {}})]),
        ("autoHostRewrite", vec![json!(true), json!(false)]),
        ("timeouts", vec![json!({"request": "1s"})]),
        ("retry", vec![json!({"attempts": 1})]),
    ]
}

fn listener_fields() -> Vec<Field> {
    let http = |settings: Value| json!({"httpSettings": settings});
    let settings = || {
        vec![
            http(json!({"idleTimeout": "0s"})),
            http(json!({"idleTimeout": "1s", "maxHeadersCount": 1})),
            http(json!({"useRemoteAddress": true})),
            http(json!({"acceptHttp10": true})),
            http(json!({"preserveExternalRequestId": true})),
            http(json!({"http2ProtocolOptions": {"allowConnect": true}})),
            http(json!({"upgradeConfig": {"enabledUpgrades": ["websocket"]}})),
            http(json!({"serverName": "a"})),
            json!({"proxyProtocol": {}}),
            json!({"perConnectionBufferLimitBytes": 1}),
        ]
    };
    let clients = |mode: &str, name: &str| json!({"clientCertificateValidation": {"mode": mode, "caCertificateRefs": [{"kind": "Secret", "name": name}]}});
    let mut default = settings();
    default.extend([clients("Require", "one"), clients("Require", "two"), clients("Optional", "one")]);
    let at = |port: i64| move |listener: Value| json!([{"port": port, "listener": listener}]);
    let mut ports: Vec<Value> = settings().into_iter().map(at(80)).collect();
    ports.extend(settings().into_iter().map(at(81)));
    vec![("default", default), ("perPort", ports)]
}

fn config_fields() -> Vec<Field> {
    let suites = |suites: Value| json!({"parameters": {"cipherSuites": suites}});
    vec![
        (
            "tls",
            vec![
                json!({}),
                suites(json!(["ONE"])),
                suites(json!(["ONE", "TWO"])),
                json!({"parameters": {"minVersion": "1.3"}}),
                json!({"sni": "a.test", "wellKnownCACertificates": "System"}),
                json!({"insecureSkipVerify": true}),
                json!({"secretRef": {"name": "one"}}),
                json!({"allowRenegotiation": true}),
            ],
        ),
        ("circuitBreakers", vec![json!({"maxConnections": 1}), json!({})]),
        ("perConnectionBufferLimitBytes", vec![json!(1), json!(2)]),
        ("upstreamProxyProtocol", vec![json!({"version": "V1"}), json!({"version": "V2"})]),
        ("connectTimeout", vec![json!("1s"), json!("soon")]),
        ("loadBalancer", vec![json!({"random": {}})]),
    ]
}

fn backend_fields() -> Vec<Field> {
    let lambda = |url: Value| json!({"lambda": {"functionName": "f", "endpointURL": url}});
    vec![
        (
            "aws",
            vec![lambda(json!("http://a.test")), lambda(Value::Null), json!({"auth": {"type": "Secret"}}), json!({})],
        ),
        ("static", vec![json!({"hosts": [{"host": "a.test", "port": 80}]}), json!({"hosts": []})]),
        ("dynamicForwardProxy", vec![json!({}), json!({"enableTls": true}), json!({"enableTls": false})]),
    ]
}

fn extension_fields() -> Vec<Field> {
    let grpc = |name: &str| json!({"backendRef": {"name": name, "port": 80}});
    let provider = |more: Value| {
        let mut provider = json!({"grpcService": grpc("one")});
        provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provider
    };
    let providers = || {
        vec![
            json!({"grpcService": grpc("one")}),
            json!({"grpcService": grpc("two")}),
            provider(json!({"failOpen": true})),
            provider(json!({"statPrefix": "a"})),
        ]
    };
    let mut auth = providers();
    auth.extend([
        provider(json!({"headersToForward": ["a"]})),
        provider(json!({"statusOnError": 7})),
        json!({"httpService": {"backendRef": {"name": "one", "port": 80}, "pathPrefix": "/a"}}),
    ]);
    let mut limits: Vec<Value> = providers().into_iter().take(3).collect();
    limits.push(provider(json!({"domain": "a"})));
    vec![
        ("extAuth", auth),
        ("extProc", providers()),
        ("rateLimit", limits),
        ("jwt", vec![json!({"providers": [{"name": "a"}]}), json!({"validationMode": "AllowMissing"})]),
        ("oauth2", vec![json!({"redirectURI": "a"}), json!({})]),
    ]
}

fn response_fields() -> Vec<Field> {
    vec![("status", vec![json!(200), json!(403), json!(503), json!(99_999)]), ("body", vec![json!("a")])]
}

fn authority_fields() -> Vec<Field> {
    let named = |authority: &str, hostname: &str| json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": authority}], "hostname": hostname});
    let mut names = named("one", "a.test");
    names["subjectAltNames"] = json!([{"type": "Hostname", "hostname": "b.test"}]);
    let system = json!({"wellKnownCACertificates": "System", "hostname": "a.test"});
    let validations = vec![named("one", "a.test"), named("two", "a.test"), named("one", "b.test"), names, system];
    vec![("validation", validations), ("options", vec![json!({"a.test/one": "x"}), json!({"a.test/one": "y"})])]
}

/// Returns an object with some of the fields.
fn object(kind: &str, fields: &[Field], choose: &mut impl FnMut(usize) -> usize) -> Object {
    let mut spec = Map::new();
    for (name, values) in fields {
        // Few fields at a time: most of the pairs differ in one or two.
        if choose(fields.len().max(4)) == 0 {
            spec.insert((*name).to_owned(), values[choose(values.len())].clone());
        }
    }
    let mut group = "gateway.kgateway.dev/v1alpha1";
    match kind {
        "DirectResponse" => {
            spec.entry("status").or_insert(json!(404));
        }
        "BackendTLSPolicy" => {
            group = "gateway.networking.k8s.io/v1";
            spec.insert("targetRefs".to_owned(), json!([{"group": "", "kind": "Service", "name": "s"}]));
            spec.entry("validation").or_insert(fields[0].1[0].clone());
        }
        _ => {}
    }
    let annotations = if choose(4) == 0 { json!({"holdfast.dev/fallback": "last-valid"}) } else { json!({}) };
    let document = json!({
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "o", "namespace": "n", "annotations": annotations},
        "spec": spec,
    });
    match crate::testing::event(document.clone()) {
        Some(Event::Applied(object, _)) => *object,
        _ => panic!("{document} does not decode"),
    }
}

/// Returns the objection of the audit to an earlier version.
fn audited(now: &Object, then: &Body) -> Option<String> {
    let trusted = trusts_earlier_lists(now);
    match (&now.body, then) {
        (Body::TrafficPolicy(now), Body::TrafficPolicy(then)) => {
            traffic::weaker(now.spec.as_ref()?, then.spec.as_ref()?, trusted)
        }
        (Body::ListenerPolicy(now), Body::ListenerPolicy(then)) => listener_policies::weaker(now, then, trusted),
        (now, then) => upstream::weaker(now, then, trusted),
    }
}

#[test]
fn planner_and_audit_agree_on_every_pair_of_versions() {
    let kinds = [
        ("TrafficPolicy", traffic_fields()),
        ("ListenerPolicy", listener_fields()),
        ("BackendConfigPolicy", config_fields()),
        ("Backend", backend_fields()),
        ("GatewayExtension", extension_fields()),
        ("DirectResponse", response_fields()),
        ("BackendTLSPolicy", authority_fields()),
    ];
    for (kind, fields) in kinds {
        let (mut accepted, mut refused) = (0, 0);
        for seed in 1..=PAIRS {
            let mut choose = super::planner::choices(seed);
            let (now, then) = (object(kind, &fields, &mut choose), object(kind, &fields, &mut choose));
            let planned = lost(&now, &then.body, &Context::default());
            let audited = audited(&now, &then.body);
            assert_eq!(
                planned.is_none(),
                audited.is_none(),
                "{kind}, seed {seed}: the planner says {planned:?}, the audit {audited:?}\nnow {:?}\nthen {:?}",
                now.body,
                then.body
            );
            if planned.is_none() {
                accepted += 1;
                // A version that protects as much lacks nothing that protects.
                let again = lost(&now, &now.body, &Context::default());
                assert_eq!(again, None, "{kind}, seed {seed}: an object protects as much as itself");
            } else {
                refused += 1;
            }
        }
        assert!(accepted > 50 && refused > 50, "{kind}: {accepted} accepted, {refused} refused");
    }
}
