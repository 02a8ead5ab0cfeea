//! Rules for Ingress, which Holdfast does not read: of Contour, in the terms of HTTPProxy.

use super::{MigrationRule, RuleCondition, RulePlace, RuleSubject};

const INGRESSES: RuleSubject = RuleSubject::Kinds("networking.k8s.io", &["Ingress"]);
const NOT_READ: &str = "Holdfast does not read annotations of Ingress";

const fn annotation(name: &'static str, instead: &'static str, yaml: &'static str) -> MigrationRule {
    MigrationRule::not_served(INGRESSES, RulePlace::Annotation(name), RuleCondition::Always, NOT_READ)
        .instead(instead, yaml)
}

const RETRIES: &str = "retryPolicy of the routes of the HTTPProxy";
const RETRY_EXAMPLE: &str = "retryPolicy: {count: 3, perTryTimeout: 150ms, retryOn: [5xx]}";

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    MigrationRule::not_served(
        INGRESSES,
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read Ingress: none of its hosts and paths is served",
    )
    .instead(
        "an HTTPProxy for each host, with spec.virtualhost.tls.secretName for TLS",
        "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: shop}, spec: {virtualhost: {fqdn: \
         shop.example.com}, routes: [{conditions: [{prefix: /}], services: [{name: shop, port: 80}]}]}}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds("networking.k8s.io", &["IngressClass"]),
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read IngressClass",
    )
    .instead("the flag --ingress-class-names with the classes of the HTTPProxies", ""),
    annotation(
        "projectcontour.io/websocket-routes",
        "enableWebsockets in these routes of the HTTPProxy",
        "enableWebsockets: true",
    ),
    annotation(
        "projectcontour.io/response-timeout",
        "timeoutPolicy of the routes of the HTTPProxy",
        "timeoutPolicy: {response: 30s}",
    ),
    annotation("projectcontour.io/retry-on", RETRIES, RETRY_EXAMPLE),
    annotation("projectcontour.io/num-retries", RETRIES, RETRY_EXAMPLE),
    annotation("projectcontour.io/per-try-timeout", RETRIES, RETRY_EXAMPLE),
    annotation(
        "projectcontour.io/tls-minimum-protocol-version",
        "spec.virtualhost.tls.minimumProtocolVersion of the HTTPProxy, 1.2 or 1.3",
        "minimumProtocolVersion: \"1.3\"",
    ),
    annotation(
        "projectcontour.io/tls-cert-namespace",
        "the namespace in spec.virtualhost.tls.secretName of the HTTPProxy, and a TLSCertificateDelegation there",
        "tls: {secretName: certificates/shop}",
    ),
    annotation(
        "ingress.kubernetes.io/force-ssl-redirect",
        "nothing: an HTTPProxy with TLS redirects, unless a route has permitInsecure: true",
        "",
    ),
    annotation(
        "kubernetes.io/ingress.class",
        "spec.ingressClassName of the HTTPProxy; without a class it is served by default",
        "",
    ),
    annotation(
        "projectcontour.io/ingress.class",
        "spec.ingressClassName of the HTTPProxy; without a class it is served by default",
        "",
    ),
    MigrationRule::not_served(
        INGRESSES,
        RulePlace::Annotations { domain: "projectcontour.io", except: &[] },
        RuleCondition::Always,
        NOT_READ,
    ),
];
