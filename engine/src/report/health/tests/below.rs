//! Routes below several HTTPRoutes.

use super::*;

/// Returns an HTTPRoute that delegates requests of a host to `shop/below`.
fn top(name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: shop, uid: {name}, generation: 1}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [{name}.test]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /a}}}}]
    backendRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: below}}]
---
"
    )
}

const BELOW: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: below, namespace: shop, uid: below, generation: 1}
spec:
  rules:
  - matches: [{path: {type: PathPrefix, value: /a/1}}]
    backendRefs: [{name: cart, port: 80}]
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: broken, namespace: shop, uid: broken, generation: 1}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: one}]
  csrf: {percentageEnabled: 200}
";

#[test]
fn a_policy_of_one_route_above_is_reported_there_with_its_hosts() {
    for combination in GATES {
        let mut scene = Scene::new(gates(combination), envoys());
        scene.apply(&format!("{}{}{BELOW}", top("one"), top("two")));
        let health = health(&scene);
        let all = Severity::ALL.into_iter().flat_map(|severity| health.of(severity));
        let served = all.flat_map(|finding| &finding.served).filter(|served| *served.object.name == *"below");
        let served: Vec<(Gets, Vec<&str>)> =
            served.map(|one| (one.gets.clone(), one.hosts.iter().map(|host| &**host).collect())).collect();
        assert_eq!(served, [(Gets::Status { status: 404 }, vec!["one.test"])], "{combination:?}");

        let statuses = scene.engine.statuses();
        let status = &statuses.iter().find(|status| *status.object.name == *"below").unwrap().status;
        let parents = status["parents"].as_array().unwrap().iter();
        let closed = |parent: &serde_json::Value| parent["conditions"].to_string().contains("holdfast.dev/Fallback");
        let closed: Vec<(&str, bool)> =
            parents.map(|parent| (parent["parentRef"]["name"].as_str().unwrap(), closed(parent))).collect();
        assert_eq!(closed, [("one", true), ("two", false)], "{combination:?}: {status}");
    }
}
