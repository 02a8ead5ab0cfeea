//! Tests that an edit of a policy translates the affected units again, and no other units.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use holdfast_api::settings::Settings;
use holdfast_xds::{ResourceType, Snapshot};

use super::translated::Translated;

/// Result of an edit: routes and Gateways that were translated again, and new or changed resources.
#[derive(Debug, PartialEq)]
struct Done {
    routes: Vec<String>,
    gateways: Vec<String>,
    resources: Vec<String>,
}

struct TranslatedRoutes {
    translated: Translated,
    served: Snapshot,
}

impl TranslatedRoutes {
    fn apply(&mut self, yaml: &str) -> Done {
        let changes = self.translated.apply(yaml);
        let mut resources = Vec::new();
        for (_, snapshot) in changes.fleets {
            for kind in ResourceType::ALL {
                let all = snapshot.of(kind).iter();
                let new = all.filter(|(name, resource)| self.served.get(kind, name) != Some(resource));
                resources.extend(new.map(|(name, _)| name.to_string()));
            }
            self.served = snapshot;
        }
        let names = |keys: std::collections::BTreeSet<holdfast_graph::ObjectKey>| {
            keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>()
        };
        Done { routes: names(changes.routes), gateways: names(changes.gateways), resources }
    }
}

fn policy(name: &str, kind: &str, target: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: {kind}, {target}}}], {spec}}}\n---\n"
    )
}

fn limit(most: u32) -> String {
    format!("rateLimit: {{local: {{tokenBucket: {{maxTokens: {most}, fillInterval: 1s}}}}}}")
}

fn ext_auth() -> String {
    "extAuth: {extensionRef: {name: auth}}".to_owned()
}

fn extension(timeout: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\nmetadata: {{name: auth, namespace: shop}}\n\
         spec: {{extAuth: {{grpcService: {{backendRef: {{name: auth, port: 80}}, requestTimeout: {timeout}}}}}}}\n---\n"
    )
}

fn estate() -> TranslatedRoutes {
    let mut yaml = String::from(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: holdfast}\n\
         spec: {controllerName: holdfast.dev/gateway-controller}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public, namespace: shop}\nspec:\n  \
         gatewayClassName: holdfast\n  listeners:\n  - {name: one, port: 8080, protocol: HTTP, hostname: one.example}\n  \
         - {name: two, port: 8081, protocol: HTTP}\n---\n",
    );
    for name in ["a", "auth"] {
        yaml += &format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{ports: [{{port: 80}}]}}\n---\n"
        );
    }
    for number in 0..8 {
        yaml += &format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r{number}, namespace: shop}}\n\
             spec: {{parentRefs: [{{name: public, sectionName: two}}], rules: [{{name: one, matches: [{{path: {{value: /r{number}}}}}], \
             backendRefs: [{{name: a, port: 80}}]}}]}}\n---\n"
        );
    }
    for number in 0..6 {
        let spec = if number < 4 { limit(5) } else { ext_auth() };
        yaml += &policy(&format!("p{number}"), "HTTPRoute", &format!("name: r{number}"), &spec);
    }
    yaml += &policy("wide", "Gateway", "name: public", &limit(7));
    yaml += &policy("listener", "Gateway", "name: public, sectionName: one", &limit(8));
    yaml += &extension("1s");
    let translated = Translated::new(Settings::standalone());
    let mut estate = TranslatedRoutes { translated, served: Snapshot::default() };
    assert_eq!(estate.apply(&yaml).routes.len(), 8);
    estate
}

fn done(routes: &[&str], gateways: &[&str], resources: &[&str]) -> Done {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Done { routes: owned(routes), gateways: owned(gateways), resources: owned(resources) }
}

#[test]
fn of_a_route_the_route_is_done_again() {
    let mut estate = estate();
    let edited = policy("p1", "HTTPRoute", "name: r1", &limit(6));
    assert_eq!(estate.apply(&edited), done(&["r1"], &[], &["http/8081"]));
    assert_eq!(estate.apply(&edited), done(&["r1"], &[], &[]), "no edit at all changes nothing");
    let moved = policy("p1", "HTTPRoute", "name: r7", &limit(6));
    assert_eq!(estate.apply(&moved), done(&["r1", "r7"], &[], &["http/8081"]));
    let broken = policy("p1", "HTTPRoute", "name: r7", &limit(0));
    assert_eq!(estate.apply(&broken), done(&["r7"], &[], &["http/8081"]));
}

#[test]
fn of_a_gateway_no_route_is_done_again() {
    let mut estate = estate();
    let edited = policy("wide", "Gateway", "name: public", &limit(9));
    assert_eq!(estate.apply(&edited), done(&[], &["public"], &["http/8080", "http/8081"]));
    let edited = policy("listener", "Gateway", "name: public, sectionName: one", &limit(9));
    assert_eq!(estate.apply(&edited), done(&[], &["public"], &["http/8080"]));
}

#[test]
fn of_an_extension_the_routes_are_done_again_that_use_it() {
    let mut estate = estate();
    let done = estate.apply(&extension("2s"));
    assert_eq!(done.routes, ["r4", "r5"]);
    assert!(!done.resources.contains(&"http/8080".to_owned()), "{done:?}");
}

/// Contents of a policy are encoded for attribution only: not when the policy is read, nor when it is read again and
/// compared.
#[test]
fn contents_are_not_computed_while_no_policy_is_blamed() {
    let mut estate = estate();
    estate.apply(&policy("p1", "HTTPRoute", "name: r1", &limit(6)));
    estate.apply(&policy("wide", "Gateway", "name: public", &limit(9)));
    for (key, plan) in estate.translated.translator.policies() {
        assert!(!plan.settings.is_computed(), "{key}");
        assert_eq!(plan.contents().count(), 1, "{key}");
        assert!(plan.settings.is_computed(), "{key}");
    }
}
