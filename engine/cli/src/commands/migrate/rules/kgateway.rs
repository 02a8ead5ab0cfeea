//! Rules for the objects of users of kgateway. Its policies are served; the rules are about what differs from kgateway,
//! as `docs/reference/kgateway.md` lists it, and about kinds that are not read.

use holdfast_api::apis::{gateway, kgateway, kinds};
use serde_json::Value;

use super::{MigrationRule, RuleCase, RuleCondition, RulePlace, RuleSubject};

const ROUTES: RuleSubject = RuleSubject::Kinds(gateway::GROUP, &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE]);
const BACKEND_REFS: RulePlace = RulePlace::Field("spec.rules[].backendRefs[].kind");
const PARAMETERS: &str = "Holdfast does not read GatewayParameters";
const PARAMETER_MAP: &str = "a ConfigMap with the entry parameters.yaml";

/// The annotations of an HTTPRoute about the order of policies.
const ORDER_ANNOTATIONS: [&str; 2] =
    ["kgateway.dev/inherited-policy-priority", "delegation.kgateway.dev/inherited-policy-priority"];

const XLISTENER_SET: MigrationRule = MigrationRule::not_served(
    of(&[kinds::TRAFFIC_POLICY, kinds::LISTENER_POLICY]),
    RulePlace::Object,
    RuleCondition::Is(&["XListenerSet"]),
    "Holdfast reads no XListenerSets: the policy has no effect on this target, and protects nothing there",
)
.instead(
    "a TrafficPolicy with the ListenerSet as its target; a ListenerPolicy can have Gateways and their listeners only",
    "targetRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: public}]",
);

/// The annotations that Holdfast reads.
const READ_ANNOTATIONS: [&str; 3] = ["kgateway.dev/policy-weight", ORDER_ANNOTATIONS[0], ORDER_ANNOTATIONS[1]];

const fn of(kinds: &'static [&'static str]) -> RuleSubject {
    RuleSubject::Kinds(kgateway::GROUP, kinds)
}

const fn kind(kinds: &'static [&'static str], message: &'static str) -> MigrationRule {
    MigrationRule::not_served(of(kinds), RulePlace::Object, RuleCondition::Always, message)
}

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    MigrationRule::differs(
        of(&[kinds::TRAFFIC_POLICY]),
        RulePlace::Field("spec.rbac.action"),
        RuleCondition::Is(&["Deny"]),
        "a condition can be undefined, for example because a header is missing: kgateway allows such a request \
         through a Deny; here it is denied",
    )
    .instead(
        "conditions that are never undefined",
        "matchExpressions: [\"'role' in request.headers && request.headers['role'] == 'banned'\"]",
    ),
    MigrationRule::differs(
        of(&[kinds::BACKEND_CONFIG_POLICY]),
        RulePlace::Field("spec.tls"),
        RuleCondition::If(is_without_alpn),
        "without alpnProtocols, kgateway offers HTTP/2 and HTTP/1.1; here the protocol of the Service decides",
    )
    .instead("alpnProtocols, if the HTTP version is to be negotiated", "tls: {alpnProtocols: [h2, http/1.1]}"),
    MigrationRule::not_served(
        of(&[kinds::BACKEND_CONFIG_POLICY]),
        RulePlace::Field("spec.loadBalancer.localityType"),
        RuleCondition::Is(&["WeightedLb"]),
        "it has no effect: the endpoints of a backend are one locality",
    )
    .instead("nothing: remove the field", ""),
    MigrationRule::differs(
        of(&[kinds::GATEWAY_EXTENSION]),
        RulePlace::Field("spec.extProc.routeCacheAction"),
        RuleCondition::Is(&["FromResponse"]),
        "the service cannot make Envoy select another route: FromResponse is served like Retain",
    ),
    MigrationRule::not_served(
        RuleSubject::Any,
        RulePlace::Annotations { domain: "kgateway.dev", except: &READ_ANNOTATIONS },
        RuleCondition::Always,
        "Holdfast reads no other annotation of kgateway than kgateway.dev/policy-weight, and \
         kgateway.dev/inherited-policy-priority of HTTPRoutes",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY]),
        RulePlace::Annotation("kgateway.dev/inherited-policy-priority"),
        RuleCondition::Always,
        "it has no effect on a Gateway: for each field the policy that is closest to the route applies",
    ),
    MigrationRule::differs(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::HTTP_ROUTE]),
        BACKEND_REFS,
        RuleCondition::If(delegates_without_order),
        "requests that no delegated route takes get 404 instead of going to a broader rule; filters, timeouts and retries \
         of the delegating rule close it; and a policy of another namespace replaces no protection of the delegating route",
    )
    .instead(
        "the annotation, if routes of other namespaces may replace protections as in kgateway",
        "kgateway.dev/inherited-policy-priority: ShallowMergePreferChild",
    ),
    MigrationRule::differs(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::HTTP_ROUTE]),
        BACKEND_REFS,
        RuleCondition::If(delegates_with_order),
        "requests that no delegated route takes get 404 instead of going to a broader rule; filters, timeouts and retries \
         of the delegating rule close it",
    ),
    XLISTENER_SET.at(RulePlace::Field("spec.targetRefs[].kind")),
    XLISTENER_SET.at(RulePlace::Field("spec.targetSelectors[].kind")),
    MigrationRule::differs(
        of(&[kinds::TRAFFIC_POLICY]),
        RulePlace::Field("spec.jwtAuth.extensionRef"),
        RuleCondition::If(is_below_gateway),
        "kgateway requires this token and that of a policy of the Gateway; here only the closest jwtAuth applies, so that \
         a route or listener with its own does not require the token of the Gateway",
    ),
    MigrationRule::not_served(
        ROUTES,
        BACKEND_REFS,
        RuleCondition::Is(&["InferencePool"]),
        "Holdfast does not read InferencePools: its share of the requests gets an error response",
    ),
    MigrationRule::not_served(
        ROUTES,
        BACKEND_REFS,
        RuleCondition::Is(&["Hostname"]),
        "Holdfast does not read ServiceEntries of Istio: its share of the requests gets an error response",
    )
    .instead(
        "a Backend with the name",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {name: external}, spec: {static: {hosts: \
         [{host: api.example.com, port: 443}]}}}",
    ),
    MigrationRule::not_served(
        ROUTES,
        RulePlace::Field("spec.parentRefs[].kind"),
        RuleCondition::Is(&[kinds::SERVICE]),
        "Holdfast serves Gateways and ListenerSets, and no mesh: the route is not attached to a Service",
    )
    .instead("a parentRef to a Gateway", "parentRefs: [{name: public, namespace: infra}]"),
    MigrationRule::not_served(
        RuleSubject::Any,
        RulePlace::Label("istio.io/use-waypoint"),
        RuleCondition::Always,
        "Holdfast has no waypoint proxies",
    ),
    kind(&["GatewayParameters"], PARAMETERS).instead(
        PARAMETER_MAP,
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: envoys}, data: {parameters.yaml: \"{replicas: 3, service: \
         {type: LoadBalancer}}\"}}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY]),
        RulePlace::Field("spec.infrastructure.parametersRef.kind"),
        RuleCondition::Is(&["GatewayParameters"]),
        PARAMETERS,
    )
    .instead(PARAMETER_MAP, "parametersRef: {group: '', kind: ConfigMap, name: envoys}"),
    MigrationRule::not_served(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY_CLASS]),
        RulePlace::Field("spec.parametersRef.kind"),
        RuleCondition::Is(&["GatewayParameters"]),
        PARAMETERS,
    )
    .instead(PARAMETER_MAP, "parametersRef: {group: '', kind: ConfigMap, name: envoys, namespace: holdfast-system}"),
    kind(&["HTTPListenerPolicy"], "Holdfast does not read this kind").instead(
        "a ListenerPolicy with the settings in spec.default.httpSettings",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: ListenerPolicy, metadata: {name: public}, spec: {targetRefs: \
         [{group: gateway.networking.k8s.io, kind: Gateway, name: public}], default: {httpSettings: {useRemoteAddress: \
         true}}}}",
    ),
    kind(
        &["AgentgatewayBackend", "AgentgatewayParameters", "AgentgatewayPolicy"],
        "Holdfast configures Envoys and no agentgateway",
    ),
];

fn is_without_alpn(case: &RuleCase<'_>) -> bool {
    case.value.as_object().is_some_and(|tls| tls.get("alpnProtocols").is_none_or(Value::is_null))
}

/// Returns whether a reference selects HTTPRoutes: by name or namespace, or by their label.
fn delegates(case: &RuleCase<'_>) -> bool {
    [kinds::HTTP_ROUTE, "label"].map(Some).contains(&case.value.as_str())
}

/// Returns whether an annotation sets the order of the policies of a route and of those that it delegates to.
fn has_order(case: &RuleCase<'_>) -> bool {
    let annotations = case.document.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|all| ORDER_ANNOTATIONS.iter().any(|name| all.contains_key(*name)))
}

fn delegates_without_order(case: &RuleCase<'_>) -> bool {
    delegates(case) && !has_order(case)
}

fn delegates_with_order(case: &RuleCase<'_>) -> bool {
    delegates(case) && has_order(case)
}

/// Returns whether a policy is for less than whole Gateways: a listener, a ListenerSet, a route, or a rule that names it.
fn is_below_gateway(case: &RuleCase<'_>) -> bool {
    let targets = |list: &str| case.document.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let mut all = targets("/spec/targetRefs").chain(targets("/spec/targetSelectors")).peekable();
    let is_whole_gateway = |target: &Value| {
        target.get("kind").is_some_and(|kind| kind == kinds::GATEWAY) && target.get("sectionName").is_none()
    };
    all.peek().is_none() || !all.all(is_whole_gateway)
}
