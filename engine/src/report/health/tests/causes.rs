//! One finding for each cause: objects with a fault that follows from a fault of another object are affected by it.

use super::*;

const POLICY: &str = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n";

/// Returns the findings: the severity, the objects at fault, and the other objects that are affected.
fn causes(scene: &Scene) -> Vec<(Severity, Vec<String>, BTreeSet<String>)> {
    let health = health(scene);
    let name = |object: &Identity| format!("{} {}", object.kind, object.name);
    let of = |severity| {
        let findings = health.of(severity).iter();
        findings.map(move |finding| {
            let mut subjects: Vec<String> = finding.objects.iter().map(|subject| name(&subject.object)).collect();
            subjects.dedup();
            let affected = finding.served.iter().map(|served| &served.object).chain(&finding.affected).map(name);
            let affected = affected.filter(|name| !subjects.contains(name)).collect();
            (severity, subjects, affected)
        })
    };
    Severity::ALL.into_iter().flat_map(of).collect()
}

#[track_caller]
fn one(scene: &Scene, context: &dyn std::fmt::Debug, expected: (Severity, &str, &[&str])) {
    let (severity, subject, affected) = expected;
    let affected = affected.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(causes(scene), [(severity, vec![subject.to_owned()], affected)], "{context:?}: {:#?}", health(scene));
}

#[test]
fn a_route_below_a_broken_policy_is_affected_and_has_no_finding_of_its_own() {
    let policy = |target: &str| {
        format!(
            "{POLICY}metadata: {{name: guard, namespace: shop, generation: 1}}\n\
             spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {target}}}], \
             timeouts: {{request: soon}}}}"
        )
    };
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&policy("cart"));
        one(&scene, &combination, (Severity::Outage, "TrafficPolicy guard", &["HTTPRoute cart"]));
        // With an earlier version of the policy, nothing is down.
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&policy("cart").replace("soon", "5s"));
        scene.apply(&policy("cart").replace("generation: 1", "generation: 2"));
        let all = causes(&scene);
        let subjects: Vec<_> = all.iter().flat_map(|(_, subjects, _)| subjects).collect();
        assert_eq!(subjects, ["TrafficPolicy guard"], "{combination:?}: {all:?}");
        let severity = if answer(&scene, "/cart") == Some(200) { Severity::Degraded } else { Severity::Outage };
        assert_eq!(all[0].0, severity, "{combination:?}");
    }
}

#[test]
fn one_missing_authorization_server_is_one_finding_about_the_extension_that_names_it() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&format!(
            "{POLICY}metadata: {{name: guard, namespace: infra, generation: 1}}\n\
             spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public}}], \
             extAuth: {{extensionRef: {{name: auth}}}}}}\n---\n\
             apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: auth, namespace: infra, generation: 1}}\n\
             spec: {{extAuth: {{grpcService: {{backendRef: {{name: auth, port: 80}}}}}}}}"
        ));
        let affected = ["Gateway public", "HTTPRoute cart", "TrafficPolicy guard"];
        one(&scene, &combination, (Severity::Outage, "GatewayExtension auth", &affected));
    }
}

#[test]
fn a_listener_that_a_policy_closes_is_one_effect_with_its_host() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {name: public, namespace: infra, generation: 2}\n\
             spec:\n  gatewayClassName: holdfast\n  listeners:\n  \
             - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}\n  \
             - {name: own, port: 81, protocol: HTTP, hostname: '*.example.com', allowedRoutes: {namespaces: {from: All}}}";
        scene.apply(text);
        scene.apply(&format!(
            "{POLICY}metadata: {{name: guard, namespace: infra, generation: 1}}\n\
             spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: own}}], \
             extAuth: {{extensionRef: {{name: gone}}}}}}"
        ));
        let health = health(&scene);
        let served: Vec<_> = health.outages.iter().flat_map(|finding| &finding.served).collect();
        let of_gateway: Vec<_> = served.iter().filter(|served| &*served.object.kind == "Gateway").collect();
        assert_eq!(of_gateway.len(), 1, "{combination:?}: {health:#?}");
        assert_eq!(of_gateway[0].hosts, ["*.example.com".into()].into(), "{combination:?}");
        let of_route = served.iter().find(|served| &*served.object.kind == "HTTPRoute");
        let hosts = of_route.map(|served| served.hosts.iter().map(|host| &**host).collect::<Vec<_>>());
        assert_eq!(hosts, Some(vec!["*.example.com"]), "{combination:?}: {served:#?}");
        let listener = of_route.and_then(|served| served.listener.as_deref());
        assert_eq!(listener, Some("own"), "{combination:?}: the other listener is open");
    }
}

#[test]
fn a_route_to_a_broken_backend_is_affected_by_it_or_by_its_policy() {
    let to = |kind: &str, name: &str| {
        let place = exact("/fine");
        let old = "backendRefs: [{name: cart, port: 80}]\n  - matches";
        let new = match kind {
            "Backend" => {
                format!("backendRefs: [{{group: gateway.kgateway.dev, kind: Backend, name: {name}}}]\n  - matches")
            }
            _ => old.to_owned(),
        };
        route(5, &place).replace(old, &new)
    };
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: Backend\n\
             metadata: {name: far, namespace: shop, generation: 1}\n\
             spec: {type: Static, static: {hosts: [{host: 'not a host', port: 80}]}}",
        );
        scene.apply(&to("Backend", "far"));
        one(&scene, &combination, (Severity::Outage, "Backend far", &["HTTPRoute cart"]));

        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
             metadata: {name: slow, namespace: shop, generation: 1}\n\
             spec: {targetRefs: [{group: '', kind: Service, name: cart}], connectTimeout: soon}",
        );
        let all = causes(&scene);
        assert_eq!(all.len(), 1, "{combination:?}: {:#?}", health(&scene));
        assert_eq!(all[0].1, ["BackendConfigPolicy slow"], "{combination:?}");
    }
}

#[test]
fn a_route_to_a_service_that_cannot_be_read_is_affected_by_it() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: late, namespace: shop}\nspec: {ports: much}";
    let route = route(5, &exact("/fine")).replace("{name: cart, port: 80}", "{name: late, port: 80}");
    for combination in GATES {
        for documents in [[service, &route], [&route, service]] {
            let mut scene = Scene::new(gates(combination), envoys());
            documents.iter().for_each(|document| scene.apply(document));
            one(&scene, &combination, (Severity::Outage, "Service late", &["HTTPRoute cart"]));
            let message = &scene.engine.faults().into_iter().find(|fault| fault.reason == "BackendNotFound").unwrap();
            assert_eq!(message.message, "Service shop/late cannot be read", "{combination:?}");
            scene.delete(holdfast_api::apis::scheme::service_key("shop", "late"));
            let message = &scene.engine.faults().into_iter().find(|fault| fault.reason == "BackendNotFound").unwrap();
            assert_eq!(message.message, "Service shop/late does not exist", "{combination:?}");
        }
    }
}

#[test]
fn several_mistakes_are_as_many_findings() {
    let policy = |name: &str, target: &str, fault: &str| {
        format!(
            "{POLICY}metadata: {{name: {name}, namespace: shop, generation: 1}}\n\
             spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {target}}}], {fault}}}\n---\n"
        )
    };
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(
            &route(1, &exact("/other"))
                .replace("name: cart, namespace: shop, uid: route-1", "name: other, namespace: shop"),
        );
        scene.apply(&policy("one", "cart", "timeouts: {request: soon}"));
        scene.apply(&policy("two", "other", "basicAuth: {secretRef: {name: users}}"));
        let subjects: Vec<_> = causes(&scene)
            .into_iter()
            .filter(|(severity, ..)| *severity != Severity::Warning)
            .flat_map(|(_, subjects, _)| subjects)
            .collect();
        assert_eq!(subjects, ["TrafficPolicy one", "TrafficPolicy two"], "{combination:?}: {:#?}", health(&scene));
    }
}

/// A host of HTTPProxies with a certificate of its own.
fn secured_proxy(gates: Fallback) -> Scene {
    let mut scene = Scene::new(gates, envoys());
    scene.apply(&BASE.replace("port: 8080", "port: 9080"));
    scene.apply(CERTIFICATES);
    scene.apply(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: p, namespace: infra, generation: 1}\n\
         spec: {virtualhost: {fqdn: p.test, tls: {secretName: shop}}, \
         routes: [{permitInsecure: true, directResponsePolicy: {statusCode: 200}}]}",
    );
    scene.connect(crate::testing::played::PlayedEnvoy::new("holdfast/httpproxy", "three"));
    scene
}

#[test]
fn a_proxy_with_the_last_valid_certificate_is_affected_by_its_secret() {
    for combination in GATES {
        let mut scene = secured_proxy(gates(combination));
        assert_eq!(findings(&scene), vec![], "{combination:?}");
        scene.apply(&foreign_key("shop"));
        let severity = if combination == (true, true) { Severity::Degraded } else { Severity::Outage };
        let all = causes(&scene);
        assert_eq!(all.len(), 1, "{combination:?}: {:#?}", health(&scene));
        assert_eq!(all[0].0, severity, "{combination:?}: {:#?}", health(&scene));
    }
}

#[test]
fn a_proxy_below_a_broken_extension_service_is_affected_by_it() {
    for combination in GATES {
        let mut scene = secured_proxy(gates(combination));
        scene.apply(
            "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\n\
             metadata: {name: auth, namespace: infra, generation: 1}\n\
             spec: {services: [{name: auth, port: 80}], protocol: h2c}\n---\n\
             apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: p, namespace: infra, generation: 2}\n\
             spec: {virtualhost: {fqdn: p.test, tls: {secretName: shop}, \
             authorization: {extensionRef: {name: auth, namespace: infra}}}, \
             routes: [{directResponsePolicy: {statusCode: 200}}]}",
        );
        let all = causes(&scene);
        assert_eq!(all.len(), 1, "{combination:?}: {:#?}", health(&scene));
        assert_eq!(all[0].1, ["ExtensionService auth"], "{combination:?}: {:#?}", health(&scene));
        assert!(all[0].2.contains("HTTPProxy p"), "{combination:?}: {:#?}", health(&scene));
    }
}

#[test]
fn a_route_with_one_parent_of_a_misspelt_class_is_affected_by_that_gateway() {
    let other = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
                 metadata: {name: other, namespace: infra, generation: 1}\n\
                 spec: {gatewayClassName: holdfsat, listeners: [{name: http, port: 9090, protocol: HTTP}]}";
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(other);
        let both = "parentRefs: [{name: public, namespace: infra}, {name: other, namespace: infra}]";
        scene.apply(&route(5, &exact("/fine")).replace("parentRefs: [{name: public, namespace: infra}]", both));
        one(&scene, &combination, (Severity::Outage, "Gateway other", &["HTTPRoute cart"]));
        // A parent that does not exist is the fault of the route; the other parent serves it.
        let both = "parentRefs: [{name: public, namespace: infra}, {name: none, namespace: infra}]";
        scene.apply(&route(6, &exact("/fine")).replace("parentRefs: [{name: public, namespace: infra}]", both));
        let health = health(&scene);
        let own = health.degraded.iter().find(|finding| &*finding.objects[0].object.kind == "HTTPRoute").unwrap();
        let parts: Vec<_> = own.served.iter().map(|served| (&*served.section, served.gets.clone())).collect();
        assert_eq!(parts, [("parentRefs[1]", Gets::LeftOut)], "{combination:?}: {health:#?}");
        assert_eq!(answer(&scene, "/cart"), Some(200), "{combination:?}");
    }
}

#[test]
fn a_route_of_conflicted_listeners_is_affected_and_gets_404_where_envoy_listens() {
    let listeners = "- {name: a, port: 8080, protocol: HTTP, hostname: x.test, allowedRoutes: {namespaces: {from: All}}}\n  \
                     - {name: b, port: 8080, protocol: HTTP, hostname: x.test, allowedRoutes: {namespaces: {from: All}}}\n  \
                     - {name: http,";
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&BASE.replace("- {name: http,", listeners));
        let below = "parentRefs: [{name: public, namespace: infra, sectionName: a}]";
        let lost = route(1, &exact("/lost")).replace("parentRefs: [{name: public, namespace: infra}]", below);
        scene.apply(&lost.replace("name: cart, namespace: shop, uid: route-1", "name: lost, namespace: shop"));
        one(&scene, &combination, (Severity::Outage, "Gateway public", &["HTTPRoute cart", "HTTPRoute lost"]));
        let gets: BTreeSet<_> = health(&scene)
            .outages
            .iter()
            .flat_map(|finding| &finding.served)
            .map(|served| served.gets.clone())
            .collect();
        assert_eq!(gets, BTreeSet::from([Gets::Status { status: 404 }]), "{combination:?}: {:#?}", health(&scene));
    }
}

#[test]
fn the_host_of_a_set_that_lost_it_is_answered_by_the_listener_with_the_older_claim() {
    let claim = |protocol: &str| {
        let mode = if protocol == "TLS" { ", tls: {mode: Passthrough}" } else { "" };
        format!("{{name: own, port: 8085, protocol: {protocol}, hostname: x.test{mode}}}")
    };
    let claims = ["HTTP", "TLS"].into_iter().flat_map(|protocol| GATES.map(|combination| (protocol, combination)));
    for (protocol, combination) in claims {
        let mut scene = Scene::new(gates(combination), envoys());
        let own = format!("allowedListeners: {{namespaces: {{from: All}}}}\n  listeners:\n  - {}", claim(protocol));
        let gateway = BASE.replace("listeners:", &own);
        scene.apply(&gateway);
        scene.apply(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\n\
             metadata: {{name: young, namespace: shop, uid: young, generation: 1}}\n\
             spec: {{parentRef: {{name: public, namespace: infra}}, listeners: [{}]}}\n",
            claim(protocol)
        ));
        let all = health(&scene);
        let of_set = all.outages.iter().flat_map(|finding| &finding.served).filter(|one| &*one.object.name == "young");
        let gets: Vec<_> = of_set.map(|served| &served.gets).collect();
        assert_eq!(gets, [&Gets::AnotherListener], "{protocol} {combination:?}: {all:#?}");
    }
}

#[test]
fn a_route_at_a_served_and_a_closed_listener_is_affected_at_the_closed_one() {
    let all = "allowedRoutes: {namespaces: {from: All}}";
    let conflicted = format!(
        "- {{name: a, port: 8080, protocol: HTTP, hostname: x.test, {all}}}\n  \
         - {{name: b, port: 8080, protocol: HTTP, hostname: x.test, {all}}}\n  - {{name: http,"
    );
    let without_certificate = format!(
        "- {{name: a, port: 8443, protocol: HTTPS, {all}, tls: {{certificateRefs: [{{name: none}}]}}}}\n  - {{name: http,"
    );
    for (combination, listeners) in
        GATES.into_iter().flat_map(|gates| [(gates, &conflicted), (gates, &without_certificate)])
    {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&BASE.replace("- {name: http,", listeners));
        scene.apply(&route(1, &exact("/fine")));
        one(&scene, &combination, (Severity::Outage, "Gateway public", &["HTTPRoute cart"]));
        let served = health(&scene).outages.into_iter().flat_map(|finding| finding.served);
        let of_route = served.filter(|served| &*served.object.kind == "HTTPRoute");
        let at: BTreeSet<_> = of_route.map(|served| (served.section.clone(), served.listener.clone())).collect();
        let closed = if listeners == &conflicted { vec!["a", "b"] } else { vec!["a"] };
        let expected = closed.into_iter().map(|name| (Arc::from(""), Some(Arc::from(name)))).collect();
        assert_eq!(at, expected, "{combination:?}: {:#?}", health(&scene));
        assert_eq!(answer(&scene, "/fine"), Some(200), "{combination:?}");
    }
}

#[test]
fn a_route_of_conflicted_listeners_is_not_affected_by_the_port_in_use_of_another_listener() {
    let all = "allowedRoutes: {namespaces: {from: All}}";
    let listeners = format!(
        "- {{name: c1, port: 8082, protocol: HTTP, hostname: x.test, {all}}}\n  \
         - {{name: c2, port: 8082, protocol: HTTP, hostname: x.test, {all}}}\n  - {{name: http,"
    );
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&BASE.replace("- {name: http,", &listeners));
        let below = "parentRefs: [{name: public, namespace: infra, sectionName: c1}]";
        let lost = route(1, &exact("/lost")).replace("parentRefs: [{name: public, namespace: infra}]", below);
        scene.apply(&lost.replace("name: cart, namespace: shop, uid: route-1", "name: lost, namespace: shop"));
        let below = below.replace("c1", "http");
        scene.apply(&route(2, &exact("/fine")).replace("parentRefs: [{name: public, namespace: infra}]", &below));
        let taken = ("0.0.0.0:8080".parse().unwrap(), Arc::from("nginx"));
        scene.engine.handle(vec![Event::PortsTaken([taken].into())]);
        let gateway = vec!["Gateway public".to_owned()];
        let affected = |name: &str| BTreeSet::from([format!("HTTPRoute {name}")]);
        let mut expected = [
            (Severity::Outage, gateway.clone(), affected("lost")),
            (Severity::Outage, gateway.clone(), affected("cart")),
        ];
        let mut all = causes(&scene);
        all.sort();
        expected.sort();
        assert_eq!(all, expected, "{combination:?}: {:#?}", health(&scene));
    }
}
