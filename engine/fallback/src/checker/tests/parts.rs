//! Earlier translations against the current objects, as if translation had missed a change.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::ListenerState;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;
use serde_json::{Value, json};

use super::{CART, cart, good};
use crate::checker::today::Today;
use crate::checker::{About, Objection, listeners, route};
use crate::testing::plans::Plans;

const GATEWAY: (&str, &str, &str) = ("Gateway", "infra", "public");

fn about(found: Vec<Objection>) -> Vec<About> {
    let mut about: Vec<About> = found.into_iter().map(|objection| objection.about).collect();
    about.sort_unstable();
    about.dedup();
    about
}

/// Returns the objections to a route object in an earlier translation.
fn against_today(plans: &Plans, plan: &Arc<RoutePlan>) -> Vec<Objection> {
    let world = plans.world();
    let gateway = plans.translator.gateway(&plans.gateway).unwrap();
    route(&cart(), plan, &Overlay::default(), gateway, &world, &Today::new(&world))
}

#[test]
fn a_route_of_yesterday() {
    type Edit<'a> = ((&'a str, &'a str, &'a str), &'a str, Value, &'a [About]);
    let (reach, backend): (&[About], &[About]) = (&[About::Reach], &[About::Backend]);
    let grant = ("ReferenceGrant", "stock", "stock");
    let rows: [Edit<'_>; 17] = [
        (CART, "/metadata/annotations", json!({"note": "nothing changed"}), &[]),
        (CART, "/spec/hostnames", json!(["cart.example.com", "more.example.com"]), &[]),
        (CART, "/spec/hostnames", json!(["other.example.com"]), reach),
        (CART, "/spec/parentRefs", json!([]), reach),
        (CART, "/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "sectionName": "tls"}]), reach),
        (CART, "/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "port": 8080}]), reach),
        (CART, "/spec/parentRefs", json!([{"name": "public", "namespace": "shop"}]), reach),
        (("Namespace", "", "shop"), "/metadata/labels/team", json!("none"), reach),
        (GATEWAY, "/spec/listeners/3/allowedRoutes", json!({"kinds": [{"kind": "GRPCRoute"}]}), reach),
        (GATEWAY, "/spec/listeners/3/allowedRoutes", json!({}), reach),
        (GATEWAY, "/spec/listeners/1/hostname", json!("*.example.org"), reach),
        (grant, "/spec/from/0/namespace", json!("elsewhere"), backend),
        (grant, "/spec/from/0/kind", json!("GRPCRoute"), backend),
        (grant, "/spec/to/0/name", json!("another"), backend),
        (grant, "/spec/to/0/name", json!(""), backend),
        (("Service", "stock", "stock"), "/spec/ports/0/port", json!(8080), backend),
        (("Service", "stock", "stock"), "/spec/type", json!("ExternalName"), backend),
    ];
    let mut wrong = Vec::new();
    for (object, path, value, expected) in rows {
        let mut plans = good();
        let yesterday = plans.translator.route(&cart()).unwrap().clone();
        assert_eq!(against_today(&plans, &yesterday), []);
        plans.edit(object, path, value.clone());
        let found = about(against_today(&plans, &yesterday));
        if found != expected {
            wrong.push(format!("{object:?} {path} {value}: {found:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_lent_host_that_yields_to_no_claim() {
    let mut plans = good();
    plans.edit(CART, "/spec/hostnames", json!(["bad..host"]));
    let overlay = plans.planned().0.overlay;
    let served = plans.translator.try_route(&cart(), &overlay, &plans.objects).unwrap();
    let against = |plan: &RoutePlan, overlay: &Overlay| {
        let world = plans.world();
        let gateway = plans.translator.gateway(&plans.gateway).unwrap();
        about(route(&cart(), plan, overlay, gateway, &world, &Today::new(&world)))
    };
    assert!(!served.lent.is_empty());
    assert_eq!(against(&served, &overlay), []);
    assert_eq!(against(&RoutePlan { lent: Default::default(), ..served.clone() }, &overlay), [About::Reach]);
    assert_eq!(against(&served, &Overlay::default()), [About::Reach]);
}

#[test]
fn a_route_with_a_deleted_backend() {
    let mut plans = good();
    let yesterday = plans.translator.route(&cart()).unwrap().clone();
    plans.remove(&holdfast_api::apis::scheme::service_key("stock", "stock"));
    let found = against_today(&plans, &yesterday);
    let messages: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(about(found), [About::Backend], "{messages:?}");
    assert!(messages[0].contains("rules[2] (backend): Service stock/stock is not there"), "{messages:?}");
}

#[test]
fn a_route_that_is_gone() {
    let mut plans = good();
    let yesterday = plans.translator.route(&cart()).unwrap().clone();
    plans.remove(&cart());
    assert!(about(against_today(&plans, &yesterday)).contains(&About::Existence));
}

/// Returns the objections to listeners that are served in a form other than the desired one.
fn served(plans: &Plans, spoil: impl Fn(&mut GatewayPlan)) -> Vec<About> {
    let world = plans.world();
    let desired = plans.translator.gateway(&plans.gateway).unwrap();
    let mut served = (**desired).clone();
    spoil(&mut served);
    about(listeners::check(desired, &served, &Overlay::default(), &world, &Today::new(&world)))
}

#[test]
fn listeners_that_are_not_as_desired() {
    let plans = good();
    let wrong: &[About] = &[About::Listener];
    type Spoil = fn(&mut GatewayPlan);
    let rows: [(&str, Spoil, &[About]); 10] = [
        ("nothing", |_| {}, &[]),
        (
            "a TLS listener loses its certificate and refuses",
            |plan| {
                plan.listeners[2].certificates.clear();
                plan.listeners[2].state = ListenerState::Closed;
            },
            &[],
        ),
        ("a TLS listener gives up its host", |plan| plan.listeners[3].state = ListenerState::Out, wrong),
        ("a TLS listener serves without a certificate", |plan| plan.listeners[2].certificates.clear(), wrong),
        ("a plain listener is closed", |plan| plan.listeners[0].state = ListenerState::Closed, wrong),
        ("another host", |plan| plan.listeners[3].hostname = Some("other.example.com".into()), wrong),
        ("another port", |plan| plan.listeners[3].port = 8444, wrong),
        ("no TLS", |plan| plan.listeners[3].https = false, wrong),
        ("a listener is missing", |plan| drop(plan.listeners.pop()), wrong),
        (
            "a certificate that it does not name",
            |plan| {
                plan.listeners[2].certificates = plan.listeners[3].certificates.clone();
            },
            wrong,
        ),
    ];
    let wrong = rows.into_iter().filter(|(_, spoil, expected)| served(&plans, spoil) != *expected);
    assert_eq!(wrong.map(|(what, ..)| what).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn listeners_of_yesterday() {
    let yesterday = |plans: &Plans| plans.translator.gateway(&plans.gateway).unwrap().clone();
    let check = |plans: &Plans, then: &GatewayPlan| served(plans, |plan| plan.clone_from(then));
    let mut plans = good();
    let then = yesterday(&plans);
    plans.edit(("ReferenceGrant", "shop", "certificates"), "/spec/from/0/namespace", json!("elsewhere"));
    assert_eq!(check(&plans, &then), [About::Listener], "the grant was revoked");
    let mut plans = good();
    let then = yesterday(&plans);
    plans.remove(&ObjectKey::new("", "Secret", "infra", "wildcard"));
    plans.translate();
    assert_eq!(check(&plans, &then), [About::Listener], "the certificate was deleted");
    let mut plans = good();
    let then = yesterday(&plans);
    plans.edit(GATEWAY, "/spec/tls", 
        json!({"frontend": {"default": {"validation": {"caCertificateRefs": [{"group": "", "kind": "Secret", "name": "ca"}]}}}}),
    );
    assert_eq!(check(&plans, &then), [About::Listener], "clients have to show certificates");
}

#[test]
fn client_certificates_for_backends_of_yesterday() {
    let named = |name: &str| json!({"backend": {"clientCertificateRef": {"name": name}}});
    let yesterday = |plans: &Plans| plans.translator.gateway(&plans.gateway).unwrap().clone();
    let check = |plans: &Plans, then: &GatewayPlan| served(plans, |plan| plan.client.clone_from(&then.client));
    let with = |tls: serde_json::Value| {
        let mut plans = good();
        plans.edit(GATEWAY, "/spec/tls", tls);
        plans.translate();
        plans
    };
    let without = yesterday(&good());
    let mut plans = with(named("wildcard"));
    let then = yesterday(&plans);
    assert!(then.identity().secret().is_some(), "{:?}", then.client);
    assert_eq!(check(&plans, &then), []);
    assert_eq!(check(&plans, &without), [About::Listener], "no certificate");
    assert_eq!(check(&good(), &then), [About::Listener], "a certificate that is not named");
    assert_eq!(check(&with(named("gone")), &then), [About::Listener], "another certificate is named");
    assert_eq!(check(&with(json!({"backend": 1})), &then), [About::Listener], "the reference cannot be read");
    let closed = yesterday(&with(named("gone")));
    assert_eq!(check(&plans, &closed), [], "no connections");
    plans.remove(&ObjectKey::new("", "Secret", "infra", "wildcard"));
    plans.translate();
    let about_client = check(&plans, &then);
    assert!(about_client.contains(&About::Listener), "the certificate was deleted: {about_client:?}");
}
