//! What no request reaches is no effect: another route of the host, or a policy that closes it, answers first.

use super::*;

/// Returns the statuses that are reported for a path, with the objects at fault.
fn statuses(scene: &Scene, path: &str) -> BTreeSet<(String, u16)> {
    let health = health(scene);
    let all = Severity::ALL.into_iter().flat_map(|severity| health.of(severity));
    let served = all.flat_map(|finding| &finding.served).filter(|served| served.paths.contains(path));
    let status = |served: &crate::health::view::ServedInstead| match served.gets {
        Gets::Status { status } => Some((served.section.to_string(), status)),
        _ => None,
    };
    served.filter_map(status).collect()
}

/// Returns a route object with one rule, which has a filter that cannot be translated.
fn broken(name: &str, created: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: shop, generation: 1, creationTimestamp: '{created}'}}\n\
         spec: {{parentRefs: [{{name: public, namespace: infra}}], rules: [{{matches: [{{path: {{value: /own}}}}], \
         filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: 'a b', value: x}}]}}}}], \
         backendRefs: [{{name: cart, port: 80}}]}}]}}"
    )
}

#[test]
fn a_broken_rule_after_an_older_one_with_the_same_match_answers_nothing() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&broken("b-new", "2026-02-01T00:00:00Z"));
        let status = answer(&scene, "/own").unwrap();
        let own = ("rules[0]".to_owned(), u16::try_from(status).unwrap());
        assert_eq!(statuses(&scene, "/own/*"), BTreeSet::from([own]), "{combination:?}: {:#?}", findings(&scene));
        let older = broken("a-old", "2026-01-01T00:00:00Z").replace("'a b'", "a-b");
        scene.apply(&older);
        assert_eq!(answer(&scene, "/own"), Some(200), "{combination:?}: the older route is the first");
        assert_eq!(statuses(&scene, "/own/*"), BTreeSet::new(), "{combination:?}: {:#?}", health(&scene));
        assert!(!findings(&scene).is_empty(), "{combination:?}: the fault is reported");
        assert_eq!(health(&scene).outages, [], "{combination:?}");
    }
}

#[test]
fn a_broken_rule_of_a_closed_host_answers_nothing() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&broken("own", "2026-02-01T00:00:00Z"));
        assert_ne!(statuses(&scene, "/own/*"), BTreeSet::new(), "{combination:?}");
        scene.apply(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
             metadata: {name: guard, namespace: infra, generation: 1}\n\
             spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}], \
             extAuth: {extensionRef: {name: missing}}}",
        );
        assert_eq!(statuses(&scene, "/own/*"), BTreeSet::new(), "{combination:?}: {:#?}", health(&scene));
    }
}

#[test]
fn several_faults_of_a_proxy_have_one_answer() {
    let proxy = |host: &str, route: &str, includes: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: cart, namespace: infra}}\nspec: {{ports: [{{port: 80}}]}}\n---\n\
             apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: root, namespace: infra, generation: 1}}\n\
             spec: {{virtualhost: {{fqdn: root.test{host}}}, routes: [{{conditions: [{{prefix: /own}}]{route}}}]{includes}}}"
        )
    };
    let hosts = [
        ("", ""),
        (", corsPolicy: {allowOrigin: ['['], allowMethods: [GET]}", ""),
        (", rateLimitPolicy: {local: {requests: 0, unit: second}}", ""),
        (", authorization: {extensionRef: {name: none}}", ""),
        ("", ", includes: [{name: gone, conditions: [{prefix: /own}]}]"),
    ];
    let routes = [
        ", services: [{name: none, port: 80}]",
        ", services: [{name: cart, port: 80}], requestHeadersPolicy: {set: [{name: 'a b', value: x}]}",
        ", services: [{name: none, port: 80}], requestHeadersPolicy: {set: [{name: 'a b', value: x}]}",
        ", services: [{name: none, port: 80}], timeoutPolicy: {response: soon}",
    ];
    let mut wrong = Vec::new();
    for ((host, includes), route) in hosts.iter().flat_map(|host| routes.iter().map(move |route| (host, route))) {
        let mut scene = Scene::new(gates((true, false)), envoys());
        scene.apply(&BASE.replace("port: 8080", "port: 9080"));
        scene.apply(&proxy(host, route, includes));
        scene.connect(crate::testing::played::PlayedEnvoy::new("holdfast/httpproxy", "three"));
        let health = health(&scene);
        let served: BTreeSet<(Gets, String)> = [&health.outages, &health.degraded]
            .into_iter()
            .flatten()
            .flat_map(|finding| finding.served.iter().map(|served| (served.gets.clone(), served.section.to_string())))
            // A route with the same match precedes the include.
            .filter(|(gets, section)| *gets != Gets::LeftOut || !section.starts_with("includes"))
            .collect();
        let is_one = served.iter().map(|(gets, _)| gets).collect::<BTreeSet<_>>().len() == 1;
        if !is_one {
            wrong.push(format!("{host}{includes} + {route}: {served:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_http_proxy_that_claims_a_host_is_closed() {
    let root = |name: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: shop, generation: 1}}\n\
             spec: {{virtualhost: {{fqdn: root.test}}, routes: [{{services: [{{name: cart, port: 80}}]}}]}}"
        )
    };
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&BASE.replace("port: 8080", "port: 9080"));
        scene.apply(&format!("{}\n---\n{}", root("one"), root("two")));
        scene.connect(crate::testing::played::PlayedEnvoy::new("holdfast/httpproxy", "three"));
        let health = health(&scene);
        let served = health.outages.iter().flat_map(|finding| &finding.served);
        let closed: BTreeSet<(&str, &Gets)> = served.map(|served| (&*served.object.name, &served.gets)).collect();
        let gets = Gets::Status { status: 500 };
        assert_eq!(closed, BTreeSet::from([("one", &gets), ("two", &gets)]), "{combination:?}: {health:#?}");
        assert!(health.warnings.is_empty(), "{combination:?}: {:#?}", health.warnings);
    }
}
