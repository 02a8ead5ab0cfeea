//! Comparison of versions of an HTTPProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use serde_json::{Value, json};

use super::lost;
use crate::scope::event::Event;

fn proxy(routes: &Value) -> Arc<HttpProxy> {
    let document = json!({
        "apiVersion": "projectcontour.io/v1",
        "kind": "HTTPProxy",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"routes": routes},
    });
    let Some(Event::Applied(object, _)) = crate::testing::event(document) else { panic!("{routes} is no proxy") };
    let Body::HttpProxy(proxy) = object.body else { panic!("{routes} is no proxy") };
    proxy
}

fn is_kept(desired: &HttpProxy, last: &HttpProxy, host_is_filtered: bool) -> bool {
    lost(desired, last, host_is_filtered).is_none()
}

fn kept(desired: &HttpProxy, last: &HttpProxy) -> bool {
    is_kept(desired, last, false)
}

fn route(path: &str, more: Value) -> Value {
    let kind = if path.contains(['[', '*']) { "regex" } else { "prefix" };
    let mut route = json!({"conditions": [{kind: path}], "services": [{"name": "a", "port": 80}]});
    let (Value::Object(fields), Value::Object(more)) = (&mut route, more) else { panic!("no objects") };
    fields.extend(more);
    route
}

fn plain(path: &str) -> Value {
    route(path, json!({}))
}

fn guards() -> Vec<Value> {
    vec![
        json!({"ipAllowPolicy": [{"source": "Peer", "cidr": "10.0.0.0/8"}]}),
        json!({"ipDenyPolicy": [{"source": "Remote", "cidr": "10.0.0.0/8"}]}),
        json!({"rateLimitPolicy": {"local": {"requests": 1, "unit": "second"}}}),
        json!({"rateLimitPolicy": {"global": {"descriptors": []}}}),
        json!({"jwtVerificationPolicy": {"require": "one"}}),
        json!({"authPolicy": {"context": {"team": "shop"}}}),
        json!({"requestHeadersPolicy": {"remove": ["X-User"]}}),
        json!({"responseHeadersPolicy": {"remove": ["x-debug"]}}),
        json!({"cookieRewritePolicies": [{"name": "session", "secure": true}]}),
        json!({"services": [{"name": "a", "port": 80, "protocol": "tls", "validation": {"caSecret": "ca", "subjectName": "a"}}]}),
        json!({"services": [{"name": "a", "port": 80, "protocol": "tls"}]}),
    ]
}

#[test]
fn a_guard_that_is_newer() {
    for guard in guards() {
        let (with, without) = (json!([route("/a", guard.clone())]), json!([plain("/a")]));
        assert!(!kept(&proxy(&with), &proxy(&without)), "{guard} is lost");
        assert!(kept(&proxy(&with), &proxy(&with)), "{guard} is the same");
        let moved = json!([plain("/b"), route("/a", guard.clone())]);
        assert!(kept(&proxy(&moved), &proxy(&with)), "{guard} stands elsewhere now");
    }
}

#[test]
fn a_host_that_is_copied_from_a_header_is_the_choice_of_the_client() {
    let with = |value: &str| {
        proxy(&json!([route("/a", json!({"requestHeadersPolicy": {"set": [{"name": "Host", "value": value}]}}))]))
    };
    let (literal, copied, none) = (with("a.internal"), with("%REQ(x-host)%"), proxy(&json!([plain("/a")])));
    assert!(!kept(&literal, &copied));
    assert!(!kept(&literal, &none));
    assert!(kept(&literal, &literal) && kept(&copied, &literal) && kept(&copied, &none));
}

#[test]
fn what_a_route_of_then_would_open() {
    let opens = [
        json!({"permitInsecure": true}),
        json!({"jwtVerificationPolicy": {"disabled": true}}),
        json!({"authPolicy": {"disabled": true}}),
        json!({"rateLimitPolicy": {"global": {"disabled": true}}}),
        json!({"ipAllowPolicy": [{"source": "Peer", "cidr": "0.0.0.0/0"}]}),
    ];
    for open in opens {
        let (then, now) = (json!([route("/a", open.clone())]), json!([plain("/a")]));
        let host_is_filtered = true;
        assert!(!is_kept(&proxy(&now), &proxy(&then), host_is_filtered), "{open} comes back");
        let elsewhere = json!([plain("/")]);
        assert!(
            !is_kept(&proxy(&elsewhere), &proxy(&then), host_is_filtered),
            "{open} comes back at a place that / has now"
        );
    }
}

#[test]
fn earlier_routes_that_would_receive_requests_of_guarded_routes() {
    let guard = || json!({"ipAllowPolicy": [{"source": "Peer", "cidr": "10.0.0.0/8"}]});
    let rows = [
        // A new guarded route: the broader earlier route would receive its requests.
        (json!([plain("/"), route("/admin", guard())]), json!([plain("/")]), false),
        (json!([plain("/x"), route("/admin", guard())]), json!([plain("/x")]), false),
        // A route that was removed below a guarded one.
        (json!([route("/admin", guard())]), json!([route("/admin", guard()), plain("/admin/x")]), false),
        (json!([route("/admin", guard())]), json!([route("/admin", guard()), plain("/other")]), true),
        // Both have routes of their own.
        (
            json!([plain("/"), route("/admin", guard()), plain("/b")]),
            json!([plain("/"), route("/admin", guard())]),
            true,
        ),
        // A guarded route with unusable conditions corresponds to the earlier route at its index.
        (json!([plain("/"), route("/admin/[", guard())]), json!([plain("/"), route("/admin/.*", guard())]), true),
        (json!([plain("/"), route("/admin/[", guard())]), json!([plain("/"), plain("/admin/.*")]), false),
        // The requirements of a route that cannot be read are unknown if a guard cannot be read, and known otherwise.
        (
            json!([plain("/"), {"conditions": [{"prefix": "/a"}], "ipAllowPolicy": 5, "services": []}]),
            json!([plain("/"), plain("/a")]),
            false,
        ),
        (
            json!([plain("/"), {"conditions": [{"prefix": "/a"}], "timeoutPolicy": 5, "services": []}]),
            json!([plain("/"), plain("/a")]),
            true,
        ),
        (
            json!([plain("/"), {"conditions": [{"prefix": "/a"}], "timeoutPolicy": 5, "permitInsecure": true}]),
            json!([plain("/"), route("/a", json!({"permitInsecure": true}))]),
            true,
        ),
        // Nothing of the list can be read.
        (json!("none"), json!([plain("/a")]), false),
    ];
    for (now, then, expected) in rows {
        assert_eq!(kept(&proxy(&now), &proxy(&then)), expected, "now {now}, then {then}");
    }
}

#[test]
fn what_protects_less_may_go() {
    for guard in guards().into_iter().skip(6) {
        let (with, without) = (json!([route("/a", guard.clone())]), json!([plain("/a")]));
        assert!(kept(&proxy(&without), &proxy(&with)), "{guard} comes back");
    }
}
