//! Plans that were modified to be wrong, one property at a time, as a defect in the planner would leave them: the audit
//! objects to each and closes it.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::{Node, ObjectKey, Step};
use holdfast_translate::fleet::FleetId;
use holdfast_xds::ResourceType;
use serde_json::json;

use super::{CART, broken, cart, good, secret};
use crate::checker::{About, Objection};
use crate::testing::plans::{Fallback, Plans};

/// Returns the last valid version of the route, with the current name, labels and claims.
pub(super) fn last_valid(plans: &Plans) -> Arc<Object> {
    let last = plans.last_valid.of(&cart(), None).next().unwrap().object.clone();
    let (Body::HttpRoute(then), today) = (&last.body, plans.objects.get(&cart()).unwrap()) else { panic!("no route") };
    let Body::HttpRoute(now) = &today.body else { panic!("no route") };
    let mut route = (**now).clone();
    route.rules = then.rules.clone();
    Arc::new(Object { body: Body::HttpRoute(Arc::new(route)), ..(**today).clone() })
}

pub(super) fn in_place(plans: &Plans, object: Arc<Object>) -> Fallback {
    let mut fallback = plans.planned();
    fallback.0.overlay.closed.remove(&object.key);
    fallback.0.overlay.objects.insert(object.key.clone(), object);
    fallback
}

pub(super) fn is_about(found: &[Objection], key: &ObjectKey, about: About) -> bool {
    found.iter().any(|objection| objection.node.key == *key && objection.about == about)
}

/// Asserts that there is an objection, that it is recorded, and that nothing wrong is left.
pub(super) fn objected(plans: &Plans, fallback: &mut Fallback, key: &ObjectKey, about: About) {
    let found = plans.objections(fallback);
    assert!(is_about(&found, key, about), "{found:?}");
    plans.enforce(fallback);
    assert!(is_about(&fallback.0.objections, key, about), "{:?}", fallback.0.objections);
    assert_eq!(plans.objections(fallback), []);
}

/// Asserts that the version is no longer served, and that the object it replaced is closed.
fn closes(plans: &Plans, object: Arc<Object>, about: About) -> Fallback {
    let key = object.key.clone();
    let mut fallback = in_place(plans, object);
    objected(plans, &mut fallback, &key, about);
    assert!(!fallback.0.overlay.objects.contains_key(&key));
    assert_eq!(fallback.0.plan.step(&Node::whole(key.clone())).max(Step::Current), {
        if &*key.kind == "Secret" { Step::Excluded } else { Step::Current }
    });
    if &*key.kind == "HTTPRoute" && plans.objects.get(&key).is_some() {
        let closed = fallback.0.overlay.closed.get(&key).unwrap();
        assert_eq!(closed.keys().map(|unit| &**unit).collect::<Vec<_>>(), ["rules[0]", "rules[1]", "rules[2]"]);
    }
    fallback
}

/// Returns all resources of a type that the Envoys would be sent, as text.
pub(super) fn sent(plans: &mut Plans, fallback: Fallback, kind: ResourceType) -> String {
    let fleet = FleetId::main(&plans.gateway);
    plans.translator.lay_over(&fleet, fallback.0.overlay);
    plans.translate();
    let snapshot = plans.translator.snapshot(&fleet).unwrap();
    let texts = snapshot.of(kind).values().map(|resource| holdfast_xds::to_json(kind, &resource.body).to_string());
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_deleted_object() {
    let mut plans = broken();
    let last = last_valid(&plans);
    plans.remove(&cart());
    plans.translate();
    let fallback = closes(&plans, last, About::Existence);
    assert!(!sent(&mut plans, fallback, ResourceType::Route).contains("httproute/shop/cart"));
}

#[test]
fn a_version_of_another_object_of_the_name() {
    let mut plans = broken();
    let last = last_valid(&plans);
    plans.edit(CART, "/metadata/uid", json!("another"));
    closes(&plans, last, About::Existence);
}

#[test]
fn hostnames_of_then() {
    let mut plans = broken();
    let last = last_valid(&plans);
    plans.edit(CART, "/spec/hostnames", json!(["other.example.com"]));
    let fallback = closes(&plans, last.clone(), About::Version);
    assert!(is_about(&plans.objections(&in_place(&plans, last)), &cart(), About::Reach));
    assert!(sent(&mut plans, fallback, ResourceType::Route).contains("\"other.example.com\""));
}

#[test]
fn unclaimed_hostnames() {
    let mut plans = broken();
    plans.edit(CART, "/spec/hostnames", json!(["bad..host"]));
    let lent = plans.planned().0.overlay.objects.get(&cart()).unwrap().clone();
    assert_eq!(plans.objections(&plans.planned()), []);
    let Body::HttpRoute(route) = &lent.body else { panic!("no route") };
    for hostnames in [vec!["other.example.com"], vec!["cart.example.com", "other.example.com"], vec![]] {
        let mut spoilt = (**route).clone();
        spoilt.hostnames = hostnames.into_iter().map(Arc::from).collect();
        let spoilt = Arc::new(Object { body: Body::HttpRoute(Arc::new(spoilt)), ..(*lent).clone() });
        closes(&plans, spoilt, About::Version);
    }
}

#[test]
fn parents_of_then() {
    let mut plans = broken();
    let last = last_valid(&plans);
    plans.edit(CART, "/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "sectionName": "wild"}]));
    closes(&plans, last.clone(), About::Version);
    assert!(is_about(&plans.objections(&in_place(&plans, last)), &cart(), About::Reach));
}

#[test]
fn labels_and_age_of_then() {
    let last = last_valid(&broken());
    for (path, value) in [
        ("/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/metadata/labels", json!({"team": "shop"})),
        ("/metadata/annotations", json!({"holdfast.dev/note": "new"})),
    ] {
        let mut plans = broken();
        plans.edit(CART, path, value);
        closes(&plans, last.clone(), About::Version);
    }
}

#[test]
fn an_object_that_opts_out_of_backfill() {
    let mut plans = broken();
    plans.edit(CART, "/metadata/annotations", json!({"holdfast.dev/fallback": "never"}));
    let last = last_valid(&plans);
    closes(&plans, last, About::Version);
}

#[test]
fn a_stand_in_version_beyond_its_maximum_age() {
    let mut plans = broken();
    plans.settings.fallback.max_backfill_age = Some(100);
    plans.since.insert(cart(), plans.now - 101);
    closes(&plans, last_valid(&plans), About::Version);
    plans.since.insert(cart(), plans.now - 100);
    assert_eq!(plans.objections(&in_place(&plans, last_valid(&plans))), []);
}

#[test]
fn an_unacknowledged_version() {
    let plans = broken();
    let mut unproven = (*last_valid(&plans)).clone();
    let Body::HttpRoute(route) = &mut unproven.body else { panic!("no route") };
    Arc::make_mut(route).rules.reverse();
    closes(&plans, Arc::new(unproven), About::Version);
}

#[test]
fn a_version_of_what_is_always_of_today() {
    let mut plans = good();
    let last = plans.objects.get(&ObjectKey::new("", "Namespace", "", "shop")).unwrap().clone();
    plans.edit(("Namespace", "", "shop"), "/metadata/labels/team", json!("none"));
    let mut fallback = in_place(&plans, last.clone());
    // The listener allows the namespace with its earlier labels.
    assert!(plans.objections(&fallback).iter().any(|objection| objection.about == About::Reach));
    objected(&plans, &mut fallback, &last.key, About::Version);
    assert!(fallback.0.overlay.is_empty());
    let grant =
        plans.objects.get(&ObjectKey::new(holdfast_api::apis::gateway::GROUP, "ReferenceGrant", "stock", "stock"));
    let grant = grant.unwrap().clone();
    plans.edit(("ReferenceGrant", "stock", "stock"), "/spec/from/0/namespace", json!("elsewhere"));
    closes(&plans, grant, About::Version);
}

#[test]
fn a_certificate_that_is_gone_or_has_expired() {
    let mut plans = good();
    let last = plans.objects.get(&secret()).unwrap().clone();
    plans.edit(("Secret", "infra", "wildcard"), "/stringData/tls.crt", json!("broken"));
    let today = plans.objects.get(&secret()).unwrap().clone();
    let stand_in = Arc::new(Object { body: last.body.clone(), ..(*today).clone() });
    assert_eq!(plans.planned().0.overlay.objects.get(&secret()), Some(&stand_in));
    plans.now += 4_000_000_000;
    let fallback = closes(&plans, stand_in.clone(), About::Credential);
    assert!(fallback.0.overlay.hidden.contains(&secret()));
    // Its host keeps a filter chain, which refuses connections.
    let listeners = sent(&mut plans, fallback, ResourceType::Listener);
    assert!(listeners.contains("*.example.com"), "{listeners}");
    plans.now -= 4_000_000_000;
    plans.remove(&secret());
    plans.translate();
    let fallback = closes(&plans, stand_in, About::Existence);
    assert_eq!(sent(&mut plans, fallback, ResourceType::Secret).matches("infra/wildcard").count(), 0);
}

#[test]
fn a_filter_that_protects_and_is_newer() {
    let rows = [
        json!({"type": "CORS", "cors": {"allowOrigins": ["https://example.com"]}}),
        json!({"type": "ExternalAuth", "externalAuth": {"protocol": "GRPC", "backendRef": {"name": "auth", "port": 80}, "grpc": {}}}),
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-user"]}}),
        json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["x-debug"]}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "example.com", "kind": "Guard", "name": "guard"}}),
    ];
    for filter in rows {
        let mut plans = broken();
        if filter.pointer("/requestRedirect").is_some() {
            plans.edit(CART, "/spec/rules/0/backendRefs", json!([]));
        }
        plans.edit(CART, "/spec/rules/0/filters", json!([filter]));
        let planned = plans.planned();
        assert!(!planned.0.overlay.objects.contains_key(&cart()), "the planner lets {filter} be lost");
        let mut fallback = in_place(&plans, last_valid(&plans));
        objected(&plans, &mut fallback, &cart(), About::Security);
        // Only that rule: the version is still served for the others.
        assert!(fallback.0.overlay.objects.contains_key(&cart()));
        let closed = fallback.0.overlay.closed.get(&cart()).unwrap();
        assert_eq!(closed.keys().map(|unit| &**unit).collect::<Vec<_>>(), ["rules[0]"], "{filter}");
        assert_eq!(fallback.0.plan.step(&Node::section(cart(), "rules[0]")), Step::Replaced);
        assert!(sent(&mut plans, fallback, ResourceType::Route).contains("directResponse"));
    }
}

#[test]
fn a_filter_of_one_backend_that_protects_and_is_newer() {
    let rows = [
        json!({"type": "CORS", "cors": {"allowOrigins": ["https://example.com"]}}),
        json!({"type": "ExternalAuth", "externalAuth": {"protocol": "GRPC", "backendRef": {"name": "auth", "port": 80}, "grpc": {}}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "example.com", "kind": "Guard", "name": "guard"}}),
    ];
    for filter in rows {
        let mut plans = broken();
        let (one, other) =
            (json!({"name": "cart", "port": 80}), json!({"name": "cart", "port": 80, "filters": [filter]}));
        plans.edit(CART, "/spec/rules/0/backendRefs", json!([one, other]));
        assert!(!plans.planned().0.overlay.objects.contains_key(&cart()), "the planner lets {filter} be lost");
        let mut fallback = in_place(&plans, last_valid(&plans));
        objected(&plans, &mut fallback, &cart(), About::Security);
        let closed = fallback.0.overlay.closed.get(&cart()).unwrap();
        assert_eq!(closed.keys().map(|unit| &**unit).collect::<Vec<_>>(), ["rules[0]"], "{filter}");
        assert!(sent(&mut plans, fallback, ResourceType::Route).contains("directResponse"));
    }
}

#[test]
fn a_route_that_would_leave_its_hosts_to_others() {
    let plans = broken();
    let mut fallback = plans.planned();
    fallback.0.overlay.objects.remove(&cart());
    fallback.0.overlay.hidden.insert(cart());
    objected(&plans, &mut fallback, &cart(), About::Reach);
    assert!(!fallback.0.overlay.hidden.contains(&cart()));
    assert_eq!(fallback.0.overlay.closed.get(&cart()).unwrap().len(), 3);
}

#[test]
fn what_the_checker_fails_on() {
    let mut plans = broken();
    plans.edit(CART, "/metadata/annotations", json!({"holdfast.dev/testing-poison-checker": ""}));
    let mut fallback = plans.planned();
    assert!(fallback.0.overlay.objects.contains_key(&cart()));
    objected(&plans, &mut fallback, &cart(), About::Unchecked);
    assert_eq!(fallback.0.overlay.closed.get(&cart()).unwrap().len(), 3);
}
