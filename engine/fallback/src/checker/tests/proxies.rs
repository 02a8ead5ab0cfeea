//! Plans for HTTPProxies that were modified to be wrong, one property at a time.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::object::Object;
use holdfast_graph::{Node, ObjectKey, Step};
use holdfast_xds::ResourceType;
use serde_json::json;

use super::spoilt::{in_place, is_about, objected, sent};
use crate::checker::About;
use crate::testing::plans::Plans;

const CART: (&str, &str, &str) = ("HTTPProxy", "shop", "cart");
const ROOT: (&str, &str, &str) = ("HTTPProxy", "shop", "root");

fn key((_, namespace, name): (&str, &str, &str)) -> ObjectKey {
    ObjectKey::new(GROUP, "HTTPProxy", namespace, name)
}

fn good() -> Plans {
    Plans::of_proxies(&mut |_| 0)
}

/// A configuration with a broken route in the proxy, so that the last valid version of the proxy is served.
fn broken(which: (&str, &str, &str)) -> Plans {
    let mut plans = good();
    let last = plans.document(which.0, which.1, which.2).pointer("/spec/routes").unwrap().as_array().unwrap().len() - 1;
    plans.edit(which, &format!("/spec/routes/{last}/timeoutPolicy"), json!({"response": "soon"}));
    let planned = plans.planned();
    assert_eq!(plans.objections(&planned), []);
    assert!(planned.0.overlay.objects.contains_key(&key(which)), "{planned:?}");
    plans
}

/// Returns the last valid version, with the claims and attachments of the current or of the earlier version.
fn last_valid(plans: &Plans, which: (&str, &str, &str), claims_of_today: bool) -> Arc<Object> {
    let key = key(which);
    let last = plans.last_valid.of(&key, None).next().unwrap().object.clone();
    let today = plans.objects.get(&key).unwrap();
    let (Body::HttpProxy(then), Body::HttpProxy(now)) = (&last.body, &today.body) else { panic!("no proxies") };
    let body = match claims_of_today {
        true => HttpProxy { routes: then.routes.clone(), ..(**now).clone() },
        false => (**then).clone(),
    };
    Arc::new(Object { body: Body::HttpProxy(Arc::new(body)), ..(**today).clone() })
}

#[test]
fn a_deleted_child() {
    let mut plans = broken(CART);
    let last = last_valid(&plans, CART, true);
    plans.remove(&key(CART));
    plans.translate();
    let mut fallback = in_place(&plans, last);
    objected(&plans, &mut fallback, &key(CART), About::Existence);
    assert!(!sent(&mut plans, fallback, ResourceType::Route).contains("httpproxy/shop/cart/"));
}

#[test]
fn claims_of_then() {
    let rows = [
        (ROOT, "/spec/includes", json!([{"name": "cart", "conditions": [{"prefix": "/elsewhere"}]}])),
        (ROOT, "/spec/includes", json!([])),
        (ROOT, "/spec/virtualhost/fqdn", json!("new.example.com")),
        (ROOT, "/spec/virtualhost/tls", json!({"secretName": "infra/wildcard", "minimumProtocolVersion": "1.3"})),
        (ROOT, "/spec/virtualhost/ipAllowPolicy", json!([{"source": "Peer", "cidr": "10.0.0.0/8"}])),
        (CART, "/spec/includes", json!([{"name": "deep", "namespace": "stock"}])),
    ];
    for (which, path, value) in rows {
        let mut plans = broken(which);
        plans.edit(which, path, value.clone());
        let mut fallback = in_place(&plans, last_valid(&plans, which, false));
        objected(&plans, &mut fallback, &key(which), About::Version);
        assert!(!fallback.0.overlay.objects.contains_key(&key(which)), "{path} {value}");
    }
}

#[test]
fn an_unacknowledged_version() {
    let plans = broken(CART);
    let mut unproven = (*last_valid(&plans, CART, true)).clone();
    let Body::HttpProxy(proxy) = &mut unproven.body else { panic!("no proxy") };
    Arc::make_mut(proxy).routes.reverse();
    let mut fallback = in_place(&plans, Arc::new(unproven));
    objected(&plans, &mut fallback, &key(CART), About::Version);
    let closed = fallback.0.overlay.closed.get(&key(CART)).unwrap();
    assert_eq!(closed.keys().map(|unit| &**unit).collect::<Vec<_>>(), ["routes[0]", "routes[1]", "routes[2]"]);
}

#[test]
fn a_guard_that_is_newer() {
    let rows = [
        ("ipAllowPolicy", json!([{"source": "Peer", "cidr": "10.0.0.0/8"}])),
        ("ipDenyPolicy", json!([{"source": "Remote", "cidr": "10.0.0.0/8"}])),
        ("ipAllowPolicy", json!([{"source": "Remote", "cidr": "ten"}])),
        ("rateLimitPolicy", json!({"local": {"requests": 1, "unit": "second"}})),
        ("rateLimitPolicy", json!({"global": {"descriptors": []}})),
        ("jwtVerificationPolicy", json!({"require": "one"})),
        ("authPolicy", json!({"context": {"team": "shop"}})),
        ("requestHeadersPolicy", json!({"remove": ["x-other"]})),
        ("responseHeadersPolicy", json!({"remove": ["x-other"]})),
        // The route is read in part: its requirement is not known.
        ("ipAllowPolicy", json!("ten")),
    ];
    for (name, guard) in rows {
        let mut plans = broken(CART);
        plans.edit(CART, &format!("/spec/routes/0/{name}"), guard.clone());
        let planned = plans.planned();
        assert!(!planned.0.overlay.objects.contains_key(&key(CART)), "the planner lets {name} {guard} be lost");
        let mut fallback = in_place(&plans, last_valid(&plans, CART, true));
        objected(&plans, &mut fallback, &key(CART), About::Security);
        // Only that route: the version is still served for the others.
        assert!(fallback.0.overlay.objects.contains_key(&key(CART)), "{name} {guard}");
        let closed = fallback.0.overlay.closed.get(&key(CART)).unwrap();
        assert_eq!(closed.keys().map(|unit| &**unit).collect::<Vec<_>>(), ["routes[0]"], "{name} {guard}");
        assert_eq!(fallback.0.plan.step(&Node::section(key(CART), "routes[0]")), Step::Replaced);
    }
}

#[test]
fn a_guarded_route_that_then_was_not_there() {
    let mut plans = broken(CART);
    let mut routes = plans.document(CART.0, CART.1, CART.2).pointer("/spec/routes").unwrap().clone();
    routes.as_array_mut().unwrap().push(json!({
        "conditions": [{"prefix": "/new"}],
        "ipAllowPolicy": [{"source": "Peer", "cidr": "10.0.0.0/8"}],
        "services": [{"name": "cart", "port": 80}],
    }));
    plans.edit(CART, "/spec/routes", routes);
    let mut fallback = in_place(&plans, last_valid(&plans, CART, true));
    objected(&plans, &mut fallback, &key(CART), About::Security);
}

#[test]
fn a_guarded_route_that_is_left_to_another_proxy() {
    let mut plans = good();
    // Initially there is no route for all paths below the prefix. Later there is a guarded one, and one that is broken.
    plans.edit(
        CART,
        "/spec/routes",
        json!([{"conditions": [{"prefix": "/a"}], "services": [{"name": "cart", "port": 80}]}]),
    );
    plans.promote();
    let guard = json!([{"source": "Peer", "cidr": "10.0.0.0/8"}]);
    let services = json!([{"name": "cart", "port": 80}]);
    plans.edit(
        CART,
        "/spec/routes",
        json!([
            {"conditions": [{"prefix": "/a"}], "timeoutPolicy": {"response": "soon"}, "services": services},
            {"conditions": [{"prefix": "/admin"}], "ipAllowPolicy": guard, "services": services},
        ]),
    );
    let mut fallback = in_place(&plans, last_valid(&plans, CART, true));
    objected(&plans, &mut fallback, &key(CART), About::Security);
    // The root's own route for all other paths is not at fault.
    assert!(!fallback.0.overlay.closed.contains_key(&key(ROOT)), "{fallback:?}");
    assert!(!plans.planned().0.overlay.objects.contains_key(&key(CART)));
}

#[test]
fn a_route_that_was_open_once() {
    let mut plans = broken(ROOT);
    plans.edit(ROOT, "/spec/routes/1/permitInsecure", json!(false));
    plans.edit(ROOT, "/spec/routes/0/timeoutPolicy", json!({"response": "soon"}));
    assert!(!plans.planned().0.overlay.objects.contains_key(&key(ROOT)));
    let mut fallback = in_place(&plans, last_valid(&plans, ROOT, true));
    objected(&plans, &mut fallback, &key(ROOT), About::Security);
}

#[test]
fn a_certificate_that_is_not_delegated_today() {
    let mut plans = good();
    let secret = ObjectKey::new("", "Secret", "infra", "wildcard");
    let last = plans.objects.get(&secret).unwrap().clone();
    plans.edit(("Secret", "infra", "wildcard"), "/stringData/tls.crt", json!("broken"));
    let today = plans.objects.get(&secret).unwrap().clone();
    let stand_in = Arc::new(Object { body: last.body.clone(), ..(*today).clone() });
    assert_eq!(plans.planned().0.overlay.objects.get(&secret), Some(&stand_in));
    assert_eq!(plans.objections(&in_place(&plans, stand_in.clone())), []);
    // As if translation had missed the revocation.
    let yesterday = plans.translator.try_gateway(&plans.gateway, &in_place(&plans, stand_in).0.overlay, &plans.objects);
    plans.edit(("TLSCertificateDelegation", "infra", "certificates"), "/spec/delegations", json!([]));
    let desired = plans.translator.gateway(&plans.gateway).unwrap().clone();
    let world = plans.world();
    let overlay = holdfast_translate::overlay::Overlay::default();
    let today = crate::checker::today::Today::new(&world);
    let found = crate::checker::listeners::check(&desired, &yesterday.unwrap(), &overlay, &world, &today);
    assert!(is_about(&found, &plans.gateway, About::Listener), "{found:?}");
    let messages: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        messages.iter().any(|message| message.contains("no TLSCertificateDelegation of today allows")),
        "{messages:?}"
    );
}

#[test]
fn a_version_of_a_delegation() {
    let mut plans = good();
    let delegation = ObjectKey::new(GROUP, "TLSCertificateDelegation", "infra", "certificates");
    let last = plans.objects.get(&delegation).unwrap().clone();
    plans.edit(("TLSCertificateDelegation", "infra", "certificates"), "/spec/delegations", json!([]));
    let mut fallback = in_place(&plans, last);
    objected(&plans, &mut fallback, &delegation, About::Version);
    assert!(fallback.0.overlay.is_empty());
}

#[test]
fn proxies_of_yesterday() {
    // The earlier translation against the current objects.
    let rows = [
        (ROOT, "/spec/includes", json!([]), Some(About::Reach)),
        (ROOT, "/spec/includes/0/conditions", json!([{"prefix": "/elsewhere"}]), Some(About::Reach)),
        (ROOT, "/spec/virtualhost/fqdn", json!("new.example.com"), Some(About::Reach)),
        (ROOT, "/spec/virtualhost/fqdn", json!("other.example.com"), Some(About::Reach)),
        (("Service", "shop", "cart"), "/spec/ports", json!([{"port": 8080}]), Some(About::Backend)),
        (ROOT, "/metadata/annotations", json!({"note": "nothing changed"}), None),
    ];
    for (which, path, value, expected) in rows {
        let mut plans = good();
        let yesterday = plans.translator.root(&key(ROOT)).unwrap().clone();
        plans.edit(which, path, value.clone());
        let world = plans.world();
        let today = crate::checker::today::Today::new(&world);
        let overlay = holdfast_translate::overlay::Overlay::default();
        let found = crate::checker::proxies::compare(&key(ROOT), &yesterday, &overlay, &world, &today);
        let about = found.iter().map(|objection| objection.about).next();
        assert_eq!(about, expected, "{path} {value}: {found:?}");
    }
}
