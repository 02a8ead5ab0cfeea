//! Annotations of Kong, on any object: Holdfast reads none of them.

use super::{MigrationRule, RuleCondition, RulePlace, RuleSubject};

const NOT_READ: &str = "Holdfast reads no annotations of Kong";

const fn annotation(name: &'static str, instead: &'static str, yaml: &'static str) -> MigrationRule {
    MigrationRule::not_served(RuleSubject::Any, RulePlace::Annotation(name), RuleCondition::Always, NOT_READ)
        .instead(instead, yaml)
}

const fn valued(
    name: &'static str,
    value: &'static [&'static str],
    instead: &'static str,
    yaml: &'static str,
) -> MigrationRule {
    MigrationRule::not_served(RuleSubject::Any, RulePlace::Annotation(name), RuleCondition::Is(value), NOT_READ)
        .instead(instead, yaml)
}

const UPSTREAM_TLS: &str = "a BackendTLSPolicy for the Service";
const UPSTREAM_TLS_EXAMPLE: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: \
                                    shop}, spec: {targetRefs: [{group: '', kind: Service, name: shop}], validation: \
                                    {hostname: shop.internal, wellKnownCACertificates: System}}}";
const TIMEOUT: &str = "timeouts of the rules of the HTTPRoute, which are about the whole response";
const TIMEOUT_EXAMPLE: &str = "timeouts: {request: 30s, backendRequest: 10s}";

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    annotation(
        "konghq.com/plugins",
        "policies with targetRefs to this route, or for a Service to the routes that use it; the KongPlugins are listed \
         with their counterparts",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]",
    ),
    valued(
        "konghq.com/strip-path",
        &["true"],
        "the filter URLRewrite in the rules of the HTTPRoute",
        "filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]",
    ),
    valued("konghq.com/strip-path", &["false"], "nothing: paths reach the backend unchanged", ""),
    valued(
        "konghq.com/preserve-host",
        &["false"],
        "the filter URLRewrite with the host name of the backend",
        "filters: [{type: URLRewrite, urlRewrite: {hostname: shop.internal}}]",
    ),
    valued("konghq.com/preserve-host", &["true"], "nothing: the Host header reaches the backend unchanged", ""),
    annotation(
        "konghq.com/protocols",
        "parentRefs with the sectionName of listeners of these protocols",
        "parentRefs: [{name: public, sectionName: https}]",
    ),
    annotation(
        "konghq.com/https-redirect-status-code",
        "an HTTPRoute at the listener without TLS that redirects",
        "filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]",
    ),
    annotation(
        "ingress.kubernetes.io/force-ssl-redirect",
        "an HTTPRoute at the listener without TLS that redirects",
        "filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]",
    ),
    annotation("konghq.com/methods", "matches of the HTTPRoute with the method", "matches: [{method: GET}]"),
    annotation("konghq.com/snis", "the hostname of the listener, and hostnames of the route", ""),
    annotation(
        "konghq.com/regex-priority",
        "nothing: exact paths precede regular expressions, longer ones first, and these precede prefixes",
        "",
    ),
    annotation(
        "konghq.com/host-aliases",
        "hostnames of the HTTPRoute",
        "hostnames: [shop.example.com, shop.example.org]",
    ),
    annotation(
        "konghq.com/host-header",
        "the filter URLRewrite with the host name",
        "filters: [{type: URLRewrite, urlRewrite: {hostname: shop.internal}}]",
    ),
    annotation(
        "konghq.com/path",
        "the filter URLRewrite in the rules of the HTTPRoute, with the prefix for the backend",
        "filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /internal}}}]",
    ),
    annotation(
        "konghq.com/rewrite",
        "urlRewrite.pathRegex of a TrafficPolicy, or the filter URLRewrite",
        "urlRewrite: {pathRegex: {pattern: ^/old/(.*)$, substitution: /new/\\1}}",
    ),
    annotation(
        "konghq.com/request-buffering",
        "buffer of a TrafficPolicy if requests must be buffered; otherwise they are streamed",
        "buffer: {maxRequestSize: 1Mi}",
    ),
    annotation("konghq.com/response-buffering", "nothing: responses are streamed", ""),
    annotation(
        "konghq.com/connect-timeout",
        "connectTimeout of a BackendConfigPolicy for the Service",
        "connectTimeout: 5s",
    ),
    annotation("konghq.com/read-timeout", TIMEOUT, TIMEOUT_EXAMPLE),
    annotation("konghq.com/write-timeout", TIMEOUT, TIMEOUT_EXAMPLE),
    annotation(
        "konghq.com/retries",
        "retry of a TrafficPolicy with the conditions for a retry",
        "retry: {attempts: 3, retryOn: [connect-failure, refused-stream]}",
    ),
    valued("konghq.com/protocol", &["https"], UPSTREAM_TLS, UPSTREAM_TLS_EXAMPLE),
    valued(
        "konghq.com/protocol",
        &["grpc"],
        "a GRPCRoute, or appProtocol of the port of the Service",
        "ports: [{port: 50051, appProtocol: kubernetes.io/h2c}]",
    ),
    annotation("konghq.com/tls-verify", UPSTREAM_TLS, UPSTREAM_TLS_EXAMPLE),
    annotation("konghq.com/ca-certificates-secrets", UPSTREAM_TLS, UPSTREAM_TLS_EXAMPLE),
    annotation("konghq.com/ca-certificates-configmaps", UPSTREAM_TLS, UPSTREAM_TLS_EXAMPLE),
    annotation(
        "konghq.com/client-cert",
        "tls.secretRef of a BackendConfigPolicy for the Service; the Secret has tls.crt, tls.key and ca.crt",
        "tls: {secretRef: {name: shop-client}}",
    ),
    annotation(
        "konghq.com/upstream-policy",
        "a BackendConfigPolicy with targetRefs to the Service",
        "targetRefs: [{group: '', kind: Service, name: shop}]",
    ),
    annotation("konghq.com/override", "what is listed for the KongIngress", ""),
    annotation(
        "ingress.kubernetes.io/service-upstream",
        "nothing: requests are sent to the endpoints of the Service",
        "",
    ),
    annotation("konghq.com/gatewayclass-unmanaged", "nothing: remove the annotation", ""),
    MigrationRule::not_served(
        RuleSubject::Any,
        RulePlace::Annotations { domain: "konghq.com", except: &[] },
        RuleCondition::Always,
        NOT_READ,
    ),
];
