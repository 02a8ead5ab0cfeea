//! Comparison of earlier versions with desired ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use holdfast_api::apis::kgateway::listener_policy::ListenerPolicy;
use holdfast_api::apis::kgateway::traffic_policy::TrafficPolicy;
use serde_json::{Value, json};

use super::*;

fn traffic_policy(spec: &Value) -> TrafficPolicy {
    Policy { spec: Some(serde_json::from_value(spec.clone()).unwrap()), ..Policy::default() }
}

fn listener_policy(spec: &Value) -> ListenerPolicy {
    Policy { spec: Some(serde_json::from_value(spec.clone()).unwrap()), ..Policy::default() }
}

fn traffic(now: &TrafficPolicy, then: &TrafficPolicy, trusted: bool) -> bool {
    policy(now, then, trusted).is_none()
}

fn listener(now: &ListenerPolicy, then: &ListenerPolicy, trusted: bool) -> bool {
    listener_at_every_port(now, then, trusted).is_none()
}

#[test]
fn traffic_policies_that_protect_as_much() {
    let acl = |cidr: &str| json!({"defaultAction": "deny", "rules": [{"cidrs": [cidr], "action": "allow"}]});
    let auth = json!({"extensionRef": {"name": "auth"}});
    let remove = |name: &str| json!({"request": {"remove": [name]}});
    let set = |name: &str| json!({"request": {"set": [{"name": name, "value": "checked"}]}});
    let add = |name: &str| json!({"request": {"add": [{"name": name, "value": "checked"}]}});
    let rows = [
        (json!({"timeouts": {"request": "x"}}), json!({"timeouts": {"request": "1s"}}), true),
        (json!({"acl": acl("10.0.0.0/8")}), json!({"acl": acl("10.0.0.0/8"), "retry": {"attempts": 1}}), true),
        (json!({"acl": acl("10.0.0.0/8")}), json!({"acl": acl("0.0.0.0/0")}), false),
        (json!({"acl": acl("10.0.0.0/8")}), json!({}), false),
        (json!({}), json!({"acl": acl("10.0.0.0/8")}), false),
        (json!({"extAuth": auth}), json!({"extAuth": {"extensionRef": {"name": "other"}}}), false),
        (json!({"extAuth": auth}), json!({}), false),
        (json!({"extAuth": auth}), json!({"extAuth": {"disable": {}}}), false),
        (json!({}), json!({"extAuth": {"disable": {}}}), false),
        (json!({}), json!({"extAuth": auth}), true),
        (json!({"rateLimit": {"local": {"tokenBucket": {"maxTokens": 1, "fillInterval": "1s"}}}}), json!({}), false),
        (json!({"cors": {"allowOrigins": ["https://a.test"]}}), json!({"cors": {"allowOrigins": ["*"]}}), false),
        (json!({"headerModifiers": set("X-User")}), json!({"headerModifiers": set("x-user")}), true),
        (json!({"headerModifiers": set("x-user")}), json!({"headerModifiers": remove("x-user")}), true),
        (json!({"headerModifiers": remove("x-user")}), json!({"headerModifiers": set("x-user")}), true),
        (json!({"headerModifiers": set("x-user")}), json!({"transformation": set("x-user")}), true),
        (json!({"headerModifiers": set("x-user")}), json!({}), false),
        (json!({"transformation": set("x-user")}), json!({}), false),
        (json!({"headerModifiers": add("x-user")}), json!({}), true),
        (json!({"headerModifiers": set("x-user")}), json!({"headerModifiers": add("x-user")}), false),
        (json!({"headerModifiers": {"response": {"set": [{"name": "x", "value": "y"}]}}}), json!({}), true),
        (json!({"autoHostRewrite": true}), json!({}), false),
        (json!({"autoHostRewrite": true}), json!({"headerModifiers": set("Host")}), true),
        (json!({"headerModifiers": remove("X-User")}), json!({"headerModifiers": remove("x-user")}), true),
        (json!({"headerModifiers": remove("x-user")}), json!({"headerModifiers": remove("x-other")}), false),
    ];
    for (now, then, kept) in rows {
        assert_eq!(traffic(&traffic_policy(&now), &traffic_policy(&then), false), kept, "{now} after {then}");
    }
    // The owner trusts earlier access lists, and nothing else.
    let trusted = |now: &Value, then: &Value| traffic(&traffic_policy(now), &traffic_policy(then), true);
    assert!(trusted(&json!({"acl": acl("10.0.0.0/8")}), &json!({"acl": acl("0.0.0.0/0")})));
    assert!(!trusted(&json!({"acl": acl("10.0.0.0/8")}), &json!({})));
    assert!(!trusted(&json!({"extAuth": auth}), &json!({})));
    let unread = Policy { unread: vec![Default::default()], ..traffic_policy(&json!({})) };
    assert!(!traffic(&unread, &traffic_policy(&json!({})), false));
    assert!(traffic(&unread, &traffic_policy(&json!({})), true));
}

#[test]
fn listener_policies_that_protect_as_much() {
    let http = |settings: Value| json!({"default": {"httpSettings": settings}});
    let clients = |mode: &str, name: &str| json!({"default": {"clientCertificateValidation": {"mode": mode, "caCertificateRefs": [{"kind": "Secret", "name": name}]}}});
    let port = |settings: Value| json!({"perPort": [{"port": 80, "listener": {"httpSettings": settings}}]});
    let trusts = json!({"useRemoteAddress": true, "xffNumTrustedHops": 1});
    let rows = [
        (http(json!({"serverName": "now"})), http(json!({"serverName": "then"})), true),
        (http(json!({"idleTimeout": "soon1"})), http(json!({"idleTimeout": "1s"})), true),
        (http(json!({"idleTimeout": "1s"})), http(json!({"idleTimeout": "0s"})), false),
        (http(json!({"idleTimeout": "1s"})), json!({}), false),
        (json!({}), http(json!({"idleTimeout": "1s"})), true),
        (http(json!({"maxHeadersCount": 1})), http(json!({"maxHeadersCount": 9})), true),
        (http(json!({"maxHeadersCount": 1})), json!({}), false),
        (http(trusts.clone()), http(trusts.clone()), true),
        (http(trusts.clone()), json!({}), false),
        (json!({}), http(trusts.clone()), false),
        (http(trusts.clone()), port(trusts.clone()), false),
        (json!({}), port(trusts.clone()), false),
        (port(trusts.clone()), port(trusts.clone()), true),
        (json!({"default": {"proxyProtocol": {}}}), json!({}), false),
        (json!({}), json!({"default": {"proxyProtocol": {}}}), false),
        (
            http(json!({"earlyRequestHeaderModifier": {"remove": ["x-user"]}})),
            http(json!({"earlyRequestHeaderModifier": {"remove": ["x-other"]}})),
            false,
        ),
        (http(json!({})), http(json!({"upgradeConfig": {"enabledUpgrades": ["CONNECT"]}})), false),
        (http(json!({"upgradeConfig": {"enabledUpgrades": ["CONNECT"]}})), http(json!({})), true),
        (http(json!({})), http(json!({"acceptHttp10": true})), false),
        (clients("Require", "a"), clients("Require", "a"), true),
        (clients("Require", "a"), clients("Require", "b"), false),
        (clients("Require", "a"), json!({}), false),
        (json!({}), clients("Require", "a"), false),
    ];
    for (now, then, kept) in rows {
        assert_eq!(listener(&listener_policy(&now), &listener_policy(&then), false), kept, "{now} after {then}");
    }
    // The owner trusts earlier certificate authorities, and nothing else.
    let trusted = |now: &Value, then: &Value| listener(&listener_policy(now), &listener_policy(then), true);
    assert!(trusted(&clients("Require", "a"), &clients("Require", "b")));
    assert!(!trusted(&clients("Require", "a"), &clients("Optional", "b")));
    assert!(!trusted(&clients("Require", "a"), &json!({})));
    assert!(!trusted(&http(trusts), &json!({})));
    let unread = ListenerPolicy { unread: vec![Default::default()], ..listener_policy(&json!({})) };
    assert!(!listener(&unread, &listener_policy(&json!({})), false));
    assert!(listener(&unread, &listener_policy(&json!({})), true));
}

fn body(kind: &str, spec: &Value) -> Body {
    let group = if kind == "HTTPRoute" { "gateway.networking.k8s.io/v1" } else { "gateway.kgateway.dev/v1alpha1" };
    let document =
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": "o", "namespace": "n"}, "spec": spec});
    let Some(crate::scope::event::Event::Applied(object, _)) = crate::testing::event(document) else {
        panic!("{kind} {spec}")
    };
    object.body
}

fn is_kept(kind: &str, now: &Value, then: &Value) -> bool {
    let Some(crate::scope::event::Event::Applied(desired, _)) = crate::testing::event(json!({
        "apiVersion": if kind == "HTTPRoute" { "gateway.networking.k8s.io/v1" } else { "gateway.kgateway.dev/v1alpha1" },
        "kind": kind, "metadata": {"name": "o", "namespace": "n"}, "spec": now,
    })) else {
        panic!("{kind} {now}")
    };
    lost(&desired, &body(kind, then), &Context::default()).is_none()
}

#[test]
fn rules_of_routes_that_protect_as_much() {
    let rule = |filters: Value| json!({"rules": [{"filters": filters, "backendRefs": [{"name": "a", "port": 80}]}]});
    let request = |edit: Value| json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": edit}]);
    let set = request(json!({"set": [{"name": "x-user", "value": "checked"}]}));
    let remove = request(json!({"remove": ["X-User"]}));
    let cors = |origin: &str| json!([{"type": "CORS", "cors": {"allowOrigins": [origin]}}]);
    let host = json!([{"type": "URLRewrite", "urlRewrite": {"hostname": "a.test"}}]);
    let named = |name: &str| {
        let reference = json!({"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "name": name});
        json!([{"type": "ExtensionRef", "extensionRef": reference}])
    };
    let auth = |protocol: &str, server: &str| {
        let options = if protocol == "GRPC" { "grpc" } else { "http" };
        let auth = json!({"protocol": protocol, "backendRef": {"name": server, "port": 80}, options: {}});
        json!([{"type": "ExternalAuth", "externalAuth": auth}])
    };
    let at_backend =
        |filters: Value| json!({"rules": [{"backendRefs": [{"name": "a", "port": 80, "filters": filters}]}]});
    let rows = [
        (rule(auth("GRPC", "one")), rule(auth("GRPC", "one")), true),
        (rule(auth("GRPC", "one")), rule(auth("GRPC", "two")), false),
        (rule(auth("GRPC", "one")), rule(auth("HTTP", "one")), false),
        (rule(auth("GRPC", "one")), rule(json!([])), false),
        (rule(json!([])), rule(auth("GRPC", "one")), true),
        (rule(json!([{"type": "ExternalAuth"}])), rule(json!([])), false),
        (rule(json!([{"type": "CORS", "externalAuth": {}}])), rule(json!([])), false),
        (rule(json!([{"type": "ExternalAuth", "externalAuth": 1}])), rule(json!([])), false),
        (json!({"rules": [{"matches": 1, "filters": auth("GRPC", "one")}]}), rule(json!([])), false),
        (at_backend(auth("GRPC", "one")), rule(json!([])), false),
        (rule(set.clone()), rule(json!([])), false),
        (rule(set.clone()), rule(set.clone()), true),
        (rule(set.clone()), rule(remove.clone()), true),
        (rule(remove.clone()), rule(set.clone()), true),
        (rule(request(json!({"add": [{"name": "x-user", "value": "a"}]}))), rule(json!([])), true),
        // Envoy accepts no header with such a name.
        (rule(request(json!({"set": [{"name": "x y", "value": "a"}]}))), rule(json!([])), true),
        (rule(request(json!({"remove": [":path"]}))), rule(json!([])), true),
        (rule(cors("https://a.test")), rule(cors("https://a.test")), true),
        (rule(cors("https://a.test")), rule(cors("*")), false),
        (rule(host.clone()), rule(json!([])), false),
        (rule(host.clone()), rule(host), true),
        (rule(named("guard")), rule(named("guard")), true),
        (rule(named("guard")), rule(named("other")), false),
        // A rule that does not decode requires what can still be read of it.
        (json!({"rules": [{"matches": 1, "filters": set}]}), rule(json!([])), false),
        (json!({"rules": [{"matches": 1, "filters": 1}]}), rule(json!([])), false),
        (json!({"rules": [{"matches": 1}]}), rule(json!([])), true),
    ];
    for (now, then, kept) in rows {
        assert_eq!(is_kept("HTTPRoute", &now, &then), kept, "{now} after {then}");
    }
}

#[test]
fn filters_of_backends_that_protect_as_much() {
    let backends = |all: &[(&str, Value)]| {
        let one = |(name, filters): &(&str, Value)| json!({"name": name, "port": 80, "filters": filters});
        json!({"rules": [{"backendRefs": all.iter().map(one).collect::<Vec<_>>()}]})
    };
    let none = || json!([]);
    let auth = || {
        let auth = json!({"protocol": "GRPC", "backendRef": {"name": "auth", "port": 80}, "grpc": {}});
        json!([{"type": "ExternalAuth", "externalAuth": auth}])
    };
    let https = || json!([{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]);
    let cors = |origin: &str| json!([{"type": "CORS", "cors": {"allowOrigins": [origin]}}]);
    let host = || json!([{"type": "URLRewrite", "urlRewrite": {"hostname": "a.test"}}]);
    let mirror = json!([{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "c", "port": 80}}}]);
    let named = json!({"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "name": "guard"});
    let named = || json!([{"type": "ExtensionRef", "extensionRef": named}]);
    let mut rows = vec![
        (backends(&[("a", host()), ("b", host())]), backends(&[("a", host()), ("b", none())]), false),
        (backends(&[("a", host()), ("b", none())]), backends(&[("a", none()), ("b", none())]), true),
        (backends(&[("a", mirror)]), backends(&[("a", none())]), true),
        (backends(&[("a", cors("https://a.test"))]), backends(&[("a", cors("*"))]), false),
    ];
    // A filter that can allow more than that of the rule must not come back.
    let filters = [(auth(), true), (https(), true), (cors("https://a.test"), false), (named(), false)];
    for (filter, may_return) in filters {
        let filtered = |first: bool, second: bool| {
            let of = |is_set: bool| if is_set { filter.clone() } else { none() };
            backends(&[("a", of(first)), ("b", of(second))])
        };
        rows.push((filtered(true, false), filtered(true, false), true));
        rows.push((filtered(false, false), filtered(true, false), may_return));
        rows.push((filtered(true, false), filtered(false, false), false));
        // The filter is there, and protects the share of another backend.
        rows.push((filtered(true, false), filtered(false, true), false));
        rows.push((backends(&[("a", filter.clone())]), filtered(true, false), false));
    }
    for (now, then, kept) in rows {
        assert_eq!(is_kept("HTTPRoute", &now, &then), kept, "{now} after {then}");
    }
}

#[test]
fn policies_of_backends_that_protect_as_much() {
    let tls = |tls: Value| json!({"targetRefs": [{"group": "", "kind": "Service", "name": "a"}], "tls": tls});
    let suites = |suites: Value| tls(json!({"sni": "a.test", "parameters": {"cipherSuites": suites}}));
    let rows = [
        (suites(json!(["GOOD", "BAD"])), suites(json!(["GOOD"])), true),
        (suites(json!(["BAD"])), tls(json!({"sni": "a.test"})), true),
        (suites(json!(["BAD"])), suites(json!(["GOOD"])), false),
        (tls(json!({"sni": "a.test"})), json!({}), false),
        (tls(json!({"sni": "a.test"})), tls(json!({"sni": "b.test"})), false),
        (tls(json!({})), tls(json!({"insecureSkipVerify": true})), false),
        (tls(json!({"secretRef": {"name": "one"}})), tls(json!({"secretRef": {"name": "two"}})), false),
        (json!({"connectTimeout": "soon"}), json!({"connectTimeout": "1s"}), true),
    ];
    for (now, then, kept) in rows {
        assert_eq!(is_kept("BackendConfigPolicy", &now, &then), kept, "{now} after {then}");
    }
}

#[test]
fn extensions_that_protect_as_much() {
    let auth = |more: Value| {
        let mut provider = json!({"grpcService": {"backendRef": {"name": "auth", "port": 80}}});
        let (Value::Object(fields), Value::Object(more)) = (&mut provider, more) else { panic!("no objects") };
        fields.extend(more);
        json!({"extAuth": provider})
    };
    let rows = [
        (auth(json!({"statusOnError": 7})), auth(json!({})), true),
        (auth(json!({"statusOnError": 7})), auth(json!({"failOpen": true})), false),
        (auth(json!({})), auth(json!({"headersToForward": ["x-token"]})), false),
        (auth(json!({"grpcService": {"backendRef": {"name": "strict", "port": 80}}})), auth(json!({})), false),
    ];
    for (now, then, kept) in rows {
        assert_eq!(is_kept("GatewayExtension", &now, &then), kept, "{now} after {then}");
    }
}
