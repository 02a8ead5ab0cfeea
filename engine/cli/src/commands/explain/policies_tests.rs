//! Tests of the policies of a request: no policy of another place is among them.

use super::tests::{explained, folder};

/// Two listeners at one port, and two routes that delegate to the same one through a third.
const ALL: &str = "
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: c},
 spec: {controllerName: holdfast.dev/gateway-controller}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: shop},
 spec: {gatewayClassName: c, listeners: [
  {name: a, protocol: HTTP, port: 80, hostname: '*.a.test'}, {name: b, protocol: HTTP, port: 80, hostname: '*.b.test'}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: open, namespace: shop},
 spec: {parentRefs: [{name: g}], hostnames: [open.a.test], rules: [{matches: [{path: {value: /cart}}], backendRefs: [
  {group: gateway.networking.k8s.io, kind: HTTPRoute, name: between}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: closed, namespace: shop},
 spec: {parentRefs: [{name: g}], hostnames: [closed.a.test], rules: [{matches: [{path: {value: /cart}}], backendRefs: [
  {group: gateway.networking.k8s.io, kind: HTTPRoute, name: between}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: between, namespace: shop},
 spec: {rules: [{matches: [{path: {value: /cart}}], backendRefs: [
  {group: gateway.networking.k8s.io, kind: HTTPRoute, name: below}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: below, namespace: shop},
 spec: {rules: [{matches: [{path: {value: /cart/x}}], filters: [
  {type: RequestRedirect, requestRedirect: {hostname: x.test}}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: plain, namespace: shop},
 spec: {parentRefs: [{name: g}], hostnames: [plain.a.test], rules: [{filters: [
  {type: RequestRedirect, requestRedirect: {hostname: x.test}}]}]}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: ranges, namespace: shop},
 spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: closed}],
  acl: {defaultAction: deny, rules: [{cidrs: [10.0.0.0/8], action: allow}]}}}
";

/// Policies with tokens: of the Gateway, of one of its listeners, and of a route.
const TOKENS: &str = "
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayExtension, metadata: {name: tokens, namespace: shop},
 spec: {jwt: {providers: [{name: p, issuer: i, jwks: {local: {inline: '{\"keys\":[{\"kty\":\"RSA\",\"n\":\"sXch\",\"e\":\"AQAB\"}]}'}}}]}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: whole, namespace: shop},
 spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], jwtAuth: {extensionRef: {name: tokens}},
  buffer: {maxRequestSize: 1Ki}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: listener, namespace: shop},
 spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g, sectionName: b}],
  jwtAuth: {extensionRef: {name: tokens}}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: route, namespace: shop},
 spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: plain}],
  jwtAuth: {extensionRef: {name: tokens}}}}
";

/// Returns the policies of a request: level, field and names.
fn policies(manifests: &str, url: &str) -> Vec<String> {
    let folder = folder(manifests);
    let report = explained(folder.path(), &["GET", url]).unwrap();
    let name = |policy: &String| policy.rsplit('/').next().unwrap_or_default().to_owned();
    let one = report.policies.iter().map(|one| {
        let names: Vec<String> = one.policies.iter().map(name).collect();
        format!("{} {} {}", one.level, one.field, names.join(","))
    });
    one.collect()
}

#[test]
fn a_route_below_several_others_has_only_the_policies_above_its_place() {
    assert_eq!(policies(ALL, "http://open.a.test/cart/x"), [""; 0]);
    assert_eq!(policies(ALL, "http://closed.a.test/cart/x"), ["rules[0] acl ranges"]);
    // A request that no route below takes.
    assert_eq!(policies(ALL, "http://open.a.test/cart/y"), [""; 0]);
    assert_eq!(policies(ALL, "http://closed.a.test/cart/y"), ["rules[0] acl ranges"]);
}

#[test]
fn of_guards_only_the_closest_level_is_shown() {
    let all = format!("{ALL}{TOKENS}");
    let of_the_gateway = ["http/80 buffer whole", "http/80 jwtAuth whole"];
    assert_eq!(policies(&all, "http://open.a.test/cart/x"), of_the_gateway);
    assert_eq!(policies(&all, "http://plain.a.test/"), ["rules[0] jwtAuth route", "http/80 buffer whole"]);
    let elsewhere = all
        .replace("plain.a.test", "other.b.test")
        .replace("kind: HTTPRoute, name: plain", "kind: HTTPRoute, name: gone");
    assert_eq!(policies(&elsewhere, "http://other.b.test/"), ["listeners[b] jwtAuth listener", "http/80 buffer whole"]);
}
