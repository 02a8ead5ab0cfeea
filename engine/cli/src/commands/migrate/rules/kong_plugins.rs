//! Plugins of Kong, by name, and what Holdfast serves instead: fields of `docs/reference/kgateway.md` and filters of
//! Gateway API.

use super::{MigrationRule, RuleCondition, RulePlace, RuleSubject, kong};

const NOT_READ: &str = "Holdfast does not read plugins of Kong";
const UNAVAILABLE: &str = "Holdfast does not read plugins of Kong, and has no counterpart of this one";

const fn plugin(names: &'static [&'static str], instead: &'static str, yaml: &'static str) -> MigrationRule {
    let subject = RuleSubject::Kinds(kong::GROUP, &["KongPlugin", "KongClusterPlugin"]);
    MigrationRule::not_served(subject, RulePlace::Field("plugin"), RuleCondition::Is(names), NOT_READ)
        .instead(instead, yaml)
}

/// Begins an example of a policy for a route.
macro_rules! traffic {
    ($spec:literal) => {
        concat!(
            "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: shop}, spec: {targetRefs: \
             [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}], ",
            $spec,
            "}}"
        )
    };
}

/// Begins an example of a policy for a Gateway.
macro_rules! listener {
    ($spec:literal) => {
        concat!(
            "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: ListenerPolicy, metadata: {name: public}, spec: \
             {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}], default: {httpSettings: {",
            $spec,
            "}}}}"
        )
    };
}

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    plugin(
        &["rate-limiting", "rate-limiting-advanced"],
        "a TrafficPolicy: rateLimit.local counts all clients together, in each Envoy; rateLimit.global, with a rate limit \
         service, counts by address or header",
        traffic!("rateLimit: {local: {tokenBucket: {maxTokens: 100, tokensPerFill: 100, fillInterval: 60s}}}"),
    ),
    plugin(
        &["basic-auth"],
        "a TrafficPolicy with basicAuth; passwords are SHA-1, in the form of htpasswd",
        traffic!("basicAuth: {secretRef: {name: users}}"),
    ),
    plugin(
        &["key-auth", "key-auth-enc"],
        "a TrafficPolicy with apiKeyAuth; each entry of the Secret is a key",
        traffic!("apiKeyAuth: {keySources: [{header: apikey}], secretRef: {name: keys}}"),
    ),
    plugin(
        &["jwt"],
        "a TrafficPolicy with jwtAuth, and a GatewayExtension with the key sets of the issuers; keys in PEM are not read",
        traffic!("jwtAuth: {extensionRef: {name: tokens}}"),
    ),
    plugin(
        &["openid-connect"],
        "a TrafficPolicy with oauth2 for the login, or jwtAuth for bearer tokens, and a GatewayExtension with the \
         addresses of the provider, which are not discovered",
        traffic!("oauth2: {extensionRef: {name: login}}"),
    ),
    plugin(
        &["hmac-auth", "ldap-auth", "ldap-auth-advanced", "oauth2-introspection"],
        "a TrafficPolicy with extAuth, and a GatewayExtension with an authorization server that does this",
        traffic!("extAuth: {extensionRef: {name: authorization}}"),
    ),
    plugin(
        &["opa"],
        "a TrafficPolicy with extAuth, and a GatewayExtension with extAuth.grpcService for the Envoy plugin of OPA",
        traffic!("extAuth: {extensionRef: {name: opa}}"),
    ),
    plugin(
        &["mtls-auth"],
        "a ListenerPolicy with clientCertificateValidation, or spec.tls.frontend of the Gateway; the certificates belong \
         to no consumers",
        "tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: clients}]}}}}",
    ),
    plugin(
        &["acl"],
        "a TrafficPolicy with rbac about claims of verified tokens; acl of a TrafficPolicy is a list of addresses",
        traffic!(
            "rbac: {action: Allow, policy: {matchExpressions: \
             [\"metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['group'] == 'gold'\"]}}"
        ),
    ),
    plugin(
        &["ip-restriction"],
        "a TrafficPolicy with acl; the narrowest range applies",
        traffic!("acl: {defaultAction: deny, rules: [{name: office, cidrs: [10.0.0.0/8], action: allow}]}"),
    ),
    plugin(
        &["bot-detection"],
        "a TrafficPolicy with rbac about the header user-agent",
        traffic!(
            "rbac: {action: Deny, policy: {matchExpressions: [\"'user-agent' in request.headers && \
             request.headers['user-agent'].contains('bot')\"]}}"
        ),
    ),
    plugin(
        &["cors"],
        "a TrafficPolicy with cors, or the filter CORS of an HTTPRoute",
        traffic!("cors: {allowOrigins: ['https://shop.example.com'], allowMethods: [GET, POST]}"),
    ),
    plugin(
        &["request-transformer", "request-transformer-advanced"],
        "a TrafficPolicy with headerModifiers.request, and urlRewrite for paths; bodies and query parameters cannot be \
         changed",
        traffic!("headerModifiers: {request: {set: [{name: x-shop, value: cart}], remove: [x-internal]}}"),
    ),
    plugin(
        &["response-transformer", "response-transformer-advanced"],
        "a TrafficPolicy with headerModifiers.response; bodies cannot be changed",
        traffic!("headerModifiers: {response: {set: [{name: x-shop, value: cart}], remove: [x-internal]}}"),
    ),
    plugin(
        &["request-termination"],
        "a DirectResponse, referenced by a filter ExtensionRef of the rule, which has no backendRefs then",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: DirectResponse, metadata: {name: closed}, spec: {status: 503, \
         body: closed}}",
    ),
    plugin(
        &["redirect"],
        "the filter RequestRedirect of an HTTPRoute",
        "filters: [{type: RequestRedirect, requestRedirect: {hostname: www.example.com, statusCode: 301}}]",
    ),
    plugin(
        &["request-size-limiting"],
        "a TrafficPolicy with buffer, which also buffers the requests",
        traffic!("buffer: {maxRequestSize: 1Mi}"),
    ),
    plugin(
        &["aws-lambda"],
        "a Backend with aws.lambda, and a key in a Secret, as the backendRef of the route",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {name: resize}, spec: {aws: {region: \
         eu-central-1, accountId: \"000000000000\", auth: {type: Secret, secretRef: {name: aws}}, lambda: {functionName: \
         resize}}}}",
    ),
    plugin(
        &["correlation-id"],
        "a ListenerPolicy with httpSettings.generateRequestId, for the header x-request-id",
        listener!("generateRequestId: true"),
    ),
    plugin(
        &["file-log", "http-log", "tcp-log", "udp-log", "loggly", "syslog"],
        "a ListenerPolicy with httpSettings.accessLog, to the standard output, over gRPC or to OpenTelemetry",
        listener!("accessLog: [{fileSink: {path: /dev/stdout, stringFormat: \"%REQ(:path)% %RESPONSE_CODE%\\n\"}}]"),
    ),
    plugin(
        &["opentelemetry", "zipkin"],
        "a ListenerPolicy with httpSettings.tracing to a collector of OpenTelemetry",
        listener!(
            "tracing: {provider: {openTelemetry: {serviceName: shop, grpcService: {backendRef: {name: collector, port: \
             4317}}}}}"
        ),
    ),
    plugin(
        &["prometheus"],
        "nothing: each Envoy that Holdfast creates has its metrics at port 19001, path /stats/prometheus",
        "",
    ),
    plugin(
        &["canary"],
        "weights of backendRefs of the HTTPRoute",
        "backendRefs: [{name: shop, port: 80, weight: 90}, {name: shop-next, port: 80, weight: 10}]",
    ),
    plugin(
        &["route-by-header"],
        "a rule of the HTTPRoute with the header in its matches",
        "matches: [{headers: [{name: x-version, value: next}]}]",
    ),
    plugin(
        &["upstream-timeout"],
        "timeouts of the rules of the HTTPRoute",
        "timeouts: {request: 30s, backendRequest: 10s}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds(kong::GROUP, &["KongPlugin", "KongClusterPlugin"]),
        RulePlace::Field("plugin"),
        RuleCondition::Always,
        UNAVAILABLE,
    ),
];
