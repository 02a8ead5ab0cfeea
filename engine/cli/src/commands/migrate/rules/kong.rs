//! Rules for the kinds of Kong, none of which is served, and for objects of Gateway API that reference them.

use holdfast_api::apis::{gateway, kinds};
use serde_json::Value;

use super::{MigrationRule, RuleCase, RuleCondition, RulePlace, RuleSubject};

/// The group of most kinds of Kong.
pub(super) const GROUP: &str = "configuration.konghq.com";
const NOT_READ: &str = "Holdfast does not read this kind of Kong";
const UPSTREAMS: &[&str] = &["KongUpstreamPolicy"];
const UPSTREAM: &str = "Holdfast does not read KongUpstreamPolicies";
const GATE_FLAGS: &str = "the same variables, for Holdfast; the page /debug/config/fallback lists the objects that are \
                          not served as written";

const fn kind(kind: &'static [&'static str]) -> MigrationRule {
    MigrationRule::not_served(RuleSubject::Kinds(GROUP, kind), RulePlace::Object, RuleCondition::Always, NOT_READ)
}

const fn upstream(field: &'static str, when: RuleCondition) -> MigrationRule {
    MigrationRule::not_served(RuleSubject::Kinds(GROUP, UPSTREAMS), RulePlace::Field(field), when, UPSTREAM)
}

const fn environment(when: fn(&RuleCase<'_>) -> bool, message: &'static str) -> MigrationRule {
    let place = RulePlace::Field("spec.template.spec.containers[].env[]");
    MigrationRule::differs(RuleSubject::Kinds("apps", &["Deployment"]), place, RuleCondition::If(when), message)
}

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    kind(&["KongConsumer"]).instead(
        "a TrafficPolicy with basicAuth, apiKeyAuth or jwtAuth; the credentials are entries of Secrets, and there are no \
         consumers",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: keys}, spec: {targetRefs: \
         [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}], apiKeyAuth: {secretSelector: {matchLabels: \
         {api: shop}}}}}",
    ),
    kind(&["KongConsumerGroup"]).instead(
        "a TrafficPolicy with rbac.policy.matchExpressions about claims of verified tokens; there are no groups of \
         consumers",
        "",
    ),
    kind(&["KongIngress"]).instead(
        "an HTTPRoute for route, a BackendConfigPolicy for upstream, and timeouts of the HTTPRoute for proxy",
        "",
    ),
    upstream("spec.algorithm", RuleCondition::Is(&["round-robin"])).instead(
        "loadBalancer.roundRobin of a BackendConfigPolicy for the Service",
        "loadBalancer: {roundRobin: {}}",
    ),
    upstream("spec.algorithm", RuleCondition::Is(&["least-connections"])).instead(
        "loadBalancer.leastRequest of a BackendConfigPolicy for the Service",
        "loadBalancer: {leastRequest: {choiceCount: 2}}",
    ),
    upstream("spec.algorithm", RuleCondition::Is(&["consistent-hashing"])).instead(
        "loadBalancer.ringHash or maglev with hashPolicies, of a BackendConfigPolicy for the Service",
        "loadBalancer: {ringHash: {hashPolicies: [{header: {name: x-user}}]}}",
    ),
    upstream("spec.healthchecks.active", RuleCondition::Always).instead(
        "healthCheck of a BackendConfigPolicy for the Service",
        "healthCheck: {timeout: 1s, interval: 5s, unhealthyThreshold: 3, healthyThreshold: 1, http: {path: /healthz}}",
    ),
    upstream("spec.healthchecks.passive", RuleCondition::Always).instead(
        "outlierDetection of a BackendConfigPolicy for the Service",
        "outlierDetection: {consecutive5xx: 5, interval: 10s, baseEjectionTime: 30s}",
    ),
    kind(UPSTREAMS).instead(
        "a BackendConfigPolicy for the Service",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: BackendConfigPolicy, metadata: {name: shop}, spec: {targetRefs: \
         [{group: '', kind: Service, name: shop}], loadBalancer: {leastRequest: {choiceCount: 2}}}}",
    ),
    kind(&["TCPIngress"]).instead(
        "a TCPRoute at a listener of protocol TCP, or a TLSRoute at a listener of protocol TLS for hosts by server name",
        "{apiVersion: gateway.networking.k8s.io/v1, kind: TCPRoute, metadata: {name: db}, spec: {parentRefs: [{name: \
         public, sectionName: db}], rules: [{backendRefs: [{name: db, port: 5432}]}]}}",
    ),
    kind(&["UDPIngress"]).instead(
        "a UDPRoute at a listener of protocol UDP",
        "{apiVersion: gateway.networking.k8s.io/v1, kind: UDPRoute, metadata: {name: dns}, spec: {parentRefs: [{name: \
         public, sectionName: dns}], rules: [{backendRefs: [{name: dns, port: 53}]}]}}",
    ),
    kind(&["IngressClassParameters"]).instead("nothing: Holdfast reads no Ingress", ""),
    kind(&["KongVault"]).instead("Secrets, into which another tool copies the values: Holdfast reads no vaults", ""),
    kind(&["KongLicense"]).instead("nothing: Holdfast needs no license", ""),
    kind(&["KongCustomEntity"]),
    MigrationRule::not_served(
        RuleSubject::Kinds(GROUP, &["KongClusterPlugin"]),
        RulePlace::Label("global"),
        RuleCondition::Is(&["true"]),
        "Holdfast does not read plugins that apply to everything",
    )
    .instead(
        "policies with the Gateway in targetRefs",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds("networking.k8s.io", &["Ingress"]),
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read Ingress: none of its hosts and paths is served",
    )
    .instead(
        "an HTTPRoute, and a listener of the Gateway with the certificate for TLS",
        "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: shop}, spec: {parentRefs: [{name: \
         public}], hostnames: [shop.example.com], rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: \
         [{name: shop, port: 80}]}]}}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds("networking.k8s.io", &["IngressClass"]),
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read IngressClass",
    )
    .instead("a GatewayClass", ""),
    MigrationRule::not_served(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE]),
        RulePlace::Field("spec.rules[].filters[].extensionRef.kind"),
        RuleCondition::Is(&["KongPlugin"]),
        "Holdfast reads no plugins: the rule is replaced, and its requests get an error response",
    )
    .instead(
        "a TrafficPolicy or DirectResponse, which this filter can reference, or a policy with targetRefs to the route",
        "extensionRef: {group: gateway.kgateway.dev, kind: TrafficPolicy, name: shop}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds("", &[kinds::SECRET]),
        RulePlace::Label("konghq.com/credential"),
        RuleCondition::Always,
        "Holdfast does not read credentials of consumers",
    )
    .instead(
        "a Secret for a TrafficPolicy: the entry .htpasswd with SHA-1 for basicAuth, or an entry for each key for \
         apiKeyAuth",
        "{apiVersion: v1, kind: Secret, metadata: {name: keys, labels: {api: shop}}, stringData: {client: example-key}}",
    ),
    environment(
        is_gate,
        "Kong Ingress Controller isolates objects that Kong refuses; Holdfast has a gate of this name for objects that \
         Envoy refuses or that cannot be translated, and isolates some faults also without it",
    )
    .instead(GATE_FLAGS, "{name: CONTROLLER_FEATURE_GATES, value: FallbackConfiguration=true}"),
    environment(
        |case| {
            let text = |name: &str| case.value.get(name).and_then(Value::as_str).unwrap_or_default();
            text("name") == "CONTROLLER_USE_LAST_VALID_CONFIG_FOR_FALLBACK" && text("value") == "true"
        },
        "Kong Ingress Controller serves the last valid version of broken objects; Holdfast has a setting of this name, \
         and serves such a version only if it protects as much as the desired one",
    )
    .instead(GATE_FLAGS, "{name: CONTROLLER_USE_LAST_VALID_CONFIG_FOR_FALLBACK, value: \"true\"}"),
];

fn is_gate(case: &RuleCase<'_>) -> bool {
    let text = |name: &str| case.value.get(name).and_then(Value::as_str).unwrap_or_default();
    text("name") == "CONTROLLER_FEATURE_GATES" && text("value").contains("FallbackConfiguration=true")
}
