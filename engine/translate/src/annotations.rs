//! Annotations of other gateways that have no effect here although their documentation promises one.
//!
//! Only annotations that a user has a reason to believe in are reported, each for the kinds that the other gateway reads
//! it from, or where it is often written by mistake. All others belong to other programs.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;

use crate::outcome::delegation::selections;

/// The old and the new prefix of Contour's annotations.
const CONTOUR: [&str; 2] = ["projectcontour.io/", "contour.heptio.com/"];
/// Annotations of Contour for Ingresses, which it does not read from HTTPProxies, with the field to use instead.
const INGRESS: [(&str, &str); 7] = [
    ("num-retries", "retryPolicy.count of the route"),
    ("per-try-timeout", "retryPolicy.perTryTimeout of the route"),
    ("response-timeout", "timeoutPolicy.response of the route"),
    ("retry-on", "retryPolicy.retryOn of the route"),
    ("tls-cert-namespace", "a TLSCertificateDelegation and spec.virtualhost.tls.secretName"),
    ("tls-minimum-protocol-version", "spec.virtualhost.tls.minimumProtocolVersion"),
    ("websocket-routes", "enableWebsockets of the route"),
];
/// Annotations for redirects of Ingresses to HTTPS.
const REDIRECTS: [&str; 2] = ["ingress.kubernetes.io/force-ssl-redirect", "kubernetes.io/ingress.allow-http"];
/// Limits of connections and requests that Contour reads from Services.
const BREAKERS: [&str; 5] =
    ["max-connections", "max-pending-requests", "max-requests", "max-retries", "per-host-max-connections"];
/// Annotation of kgateway about the policies of an HTTPRoute and those of the HTTPRoutes that it delegates to.
const INHERITED_PRIORITY: &str = "kgateway.dev/inherited-policy-priority";
/// Annotations of kgateway: the kinds that it reads them from, and what to use instead.
const KGATEWAY: [(&str, &[&str], &str); 3] = [
    (
        "kgateway.dev/http-redirect-status-code",
        &[kinds::HTTP_ROUTE],
        "use requestRedirect.statusCode of the filter, which is sent as it is written",
    ),
    (
        INHERITED_PRIORITY,
        &[kinds::GATEWAY, kinds::HTTP_ROUTE],
        "for each field the policy that is closest to the route applies, unless the fields are joined",
    ),
    (
        "kgateway.dev/route-weight",
        &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE],
        "of two routes with a request the more specific match has it, then the older route: make the match that is to \
         have it more specific",
    ),
];

/// Returns the annotations of an HTTPProxy without effect: the field, and a sentence.
pub(crate) fn of_proxy(object: &Object) -> Vec<(String, String)> {
    let written = object.metadata.annotations.keys();
    let instead = |name: &str| {
        if REDIRECTS.contains(&name) {
            return Some(
                "hosts with TLS redirect requests without TLS unless permitInsecure of the route is set".into(),
            );
        }
        let short = CONTOUR.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        let (_, field) = INGRESS.iter().find(|(known, _)| *known == short)?;
        Some(format!("it is read from Ingresses only, use {field}"))
    };
    written.filter_map(|name| Some(without_effect(name, &instead(name)?))).collect()
}

/// Returns the sentence about limits in annotations of a Service, if it has any.
pub(crate) fn limits_of_service(service: &Object) -> Option<String> {
    let is_limit = |name: &&String| {
        CONTOUR.iter().find_map(|prefix| name.strip_prefix(prefix)).is_some_and(|short| BREAKERS.contains(&short))
    };
    let names: Vec<&str> = service.metadata.annotations.keys().filter(is_limit).map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("annotations of the Service have no effect, and Envoy's default limits apply: {names}")
    })
}

/// Returns the faults about annotations of kgateway on a route or a Gateway.
pub(crate) fn of_gateway_api(object: &Object) -> Vec<Fault> {
    let known = KGATEWAY.iter().filter(|(name, read_from, _)| {
        let is_read = *name == INHERITED_PRIORITY && may_delegate(object);
        read_from.contains(&&*object.key.kind) && object.metadata.annotations.contains_key(*name) && !is_read
    });
    let faults = known.map(|(name, _, instead)| {
        let (field, message) = without_effect(name, instead);
        Fault::new(&object.key, Class::Ignored, field, "NotServed", message)
    });
    faults.collect()
}

/// Returns whether an object is an HTTPRoute that delegates to others. An unreadable rule may do so.
fn may_delegate(object: &Object) -> bool {
    let Body::HttpRoute(route) = &object.body else { return false };
    let is_unknown = route.rules.iter().any(|rule| matches!(rule, RuleEntry::Broken { .. }));
    is_unknown || selections(route, &object.key.namespace).next().is_some()
}

fn without_effect(name: &str, instead: &str) -> (String, String) {
    (format!("metadata.annotations[{name}]"), format!("the annotation {name} has no effect: {instead}"))
}
