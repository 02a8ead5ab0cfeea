//! Rules for the objects of users of Contour. HTTPProxies are served; the rules are about what differs from Contour, as
//! `docs/reference/httpproxy.md` lists it.

use holdfast_api::apis::{contour, gateway, kinds};
use serde_json::Value;

use super::{MigrationRule, RuleCase, RuleCondition, RulePlace, RuleSubject};

const PROXIES: RuleSubject = RuleSubject::Kinds(contour::GROUP, &[kinds::HTTP_PROXY]);
const SERVICES: RuleSubject = RuleSubject::Kinds("", &[kinds::SERVICE]);
/// The annotations with the class: the first existing one applies, and then the field.
const CONTOUR_CLASS: &str = "/metadata/annotations/projectcontour.io~1ingress.class";
const INGRESS_CLASS: &str = "/metadata/annotations/kubernetes.io~1ingress.class";
/// Classes that are served if no flag names others.
const DEFAULT_CLASS: &str = "contour";

const CLASS: &str = "HTTPProxies of this class are not served with these flags";
const CLASS_FLAG: &str = "the flag --ingress-class-names, or CONTROLLER_INGRESS_CLASS_NAMES, with this class";
const LIMITS: &str =
    "without a rate limit service, Contour ignores global limits; here their routes and hosts are closed";
const LIMIT_FLAG: &str = "the flag --rate-limit-service NAMESPACE/NAME, which names the ExtensionService";
const BREAKERS: &str = "Holdfast does not read limits of connections and requests in annotations of Services";
const BREAKER_POLICY: &str = "for backends of HTTPRoutes a BackendConfigPolicy; for HTTPProxies nothing, since such \
                              policies do not apply to them";
const BREAKER_EXAMPLE: &str = "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: BackendConfigPolicy, metadata: {name: \
                               limits}, spec: {targetRefs: [{group: '', kind: Service, name: shop}], circuitBreakers: \
                               {maxConnections: 100}}}";

const fn breaker(annotation: &'static str) -> MigrationRule {
    MigrationRule::not_served(SERVICES, RulePlace::Annotation(annotation), RuleCondition::Always, BREAKERS)
        .instead(BREAKER_POLICY, BREAKER_EXAMPLE)
}

const fn proxy(field: &'static str, when: fn(&RuleCase<'_>) -> bool, message: &'static str) -> MigrationRule {
    MigrationRule::differs(PROXIES, RulePlace::Field(field), RuleCondition::If(when), message)
}

const fn class(at: RulePlace, when: fn(&RuleCase<'_>) -> bool) -> MigrationRule {
    MigrationRule::not_served(PROXIES, at, RuleCondition::If(when), CLASS).instead(CLASS_FLAG, "")
}

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    class(RulePlace::Annotation("projectcontour.io/ingress.class"), is_another_class),
    class(RulePlace::Annotation("kubernetes.io/ingress.class"), |case| {
        !case.has(CONTOUR_CLASS) && is_another_class(case)
    }),
    class(RulePlace::Field("spec.ingressClassName"), |case| {
        !case.has(CONTOUR_CLASS) && !case.has(INGRESS_CLASS) && is_another_class(case)
    }),
    proxy(
        "spec.routes",
        has_duplicates,
        "two routes have the same conditions: Contour serves the last one; here the first one is served, and the \
         HTTPProxy is invalid",
    )
    .instead("only the route that is to be served", ""),
    proxy(
        "spec.routes[].conditions[].prefix",
        is_slash_of_child,
        "in Contour, an included prefix /foo and this / become /foo/; here they become /foo",
    ),
    proxy(
        "spec.routes[].conditions[].regex",
        is_of_child,
        "prefixes of includes before this regular expression are matched literally here",
    ),
    proxy(
        "spec.routes[].permitInsecure",
        is_insecure_and_checked,
        "Contour serves the route without TLS, without authorization and without verifying tokens; here such \
         requests are redirected to TLS",
    )
    .instead("nothing: remove the field", ""),
    proxy(
        "spec.routes[].authPolicy",
        is_enabled_at_route,
        "the host disables authorization: Contour serves this route without a check; here it is checked",
    ),
    proxy(
        "spec.virtualhost.authorization",
        |_| true,
        "in Contour, the answer of the authorization server can select another route; here it cannot, since the \
         request would bypass the lists and limits of that route",
    ),
    proxy(
        "spec.virtualhost.tls.clientValidation",
        is_without_authority,
        "without caSecret, Contour accepts any certificate; here the host is closed",
    )
    .instead(
        "caSecret, or skipClientCertValidation to request certificates without verifying them",
        "clientValidation: {caSecret: clients}",
    ),
    proxy(
        "spec.virtualhost.tls.enableFallbackCertificate",
        |case| case.value == true && case.scene.settings.proxies.fallback_certificate.is_none(),
        "Contour's configuration names the fallback certificate; here a flag names it, and without it clients without \
         a server name are refused",
    )
    .instead("the flag --httpproxy-fallback-certificate NAMESPACE/NAME", ""),
    proxy("spec.virtualhost.rateLimitPolicy.global", has_no_limiter, LIMITS).instead(LIMIT_FLAG, ""),
    proxy("spec.routes[].rateLimitPolicy.global", has_no_limiter, LIMITS).instead(LIMIT_FLAG, ""),
    breaker("projectcontour.io/max-connections"),
    breaker("projectcontour.io/max-pending-requests"),
    breaker("projectcontour.io/max-requests"),
    breaker("projectcontour.io/max-retries"),
    breaker("projectcontour.io/per-host-max-connections"),
    MigrationRule::not_served(
        RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY_CLASS]),
        RulePlace::Field("spec.parametersRef.kind"),
        RuleCondition::Is(&["ContourDeployment"]),
        "Holdfast does not read ContourDeployments",
    )
    .instead(
        "a ConfigMap with the entry parameters.yaml",
        "parametersRef: {group: '', kind: ConfigMap, name: envoys, namespace: holdfast-system}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds(contour::GROUP, &["ContourDeployment"]),
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read ContourDeployments",
    )
    .instead(
        "a ConfigMap with the parameters of the Envoys, named by parametersRef of the GatewayClass",
        "data: {parameters.yaml: \"{replicas: 2, service: {type: LoadBalancer}}\"}",
    ),
];

fn is_another_class(case: &RuleCase<'_>) -> bool {
    let served = &case.scene.settings.proxies.ingress_classes;
    let is_served =
        |class: &str| if served.is_empty() { class == DEFAULT_CLASS } else { served.iter().any(|it| **it == *class) };
    case.value.as_str().is_some_and(|class| !is_served(class))
}

fn is_of_child(case: &RuleCase<'_>) -> bool {
    !case.has("/spec/virtualhost")
}

fn is_slash_of_child(case: &RuleCase<'_>) -> bool {
    case.value == "/" && is_of_child(case)
}

fn has_duplicates(case: &RuleCase<'_>) -> bool {
    let mut seen = Vec::new();
    for route in case.value.as_array().into_iter().flatten().filter(|route| route.is_object()) {
        let written = route.get("conditions").and_then(Value::as_array).into_iter().flatten();
        // The order does not matter, and every path begins with a slash.
        let narrowing = written.filter(|condition| condition.get("prefix").is_none_or(|prefix| prefix != "/"));
        let mut conditions: Vec<String> = narrowing.map(Value::to_string).collect();
        conditions.sort_unstable();
        if seen.contains(&conditions) {
            return true;
        }
        seen.push(conditions);
    }
    false
}

fn is_insecure_and_checked(case: &RuleCase<'_>) -> bool {
    let is_checked = case.has("/spec/virtualhost/authorization") || case.has("/spec/virtualhost/jwtProviders");
    case.value == true && is_checked
}

fn is_enabled_at_route(case: &RuleCase<'_>) -> bool {
    case.has("/spec/virtualhost/authorization/authPolicy/disabled")
        && case.value.get("disabled").and_then(Value::as_bool) == Some(false)
}

fn is_without_authority(case: &RuleCase<'_>) -> bool {
    let has = |field: &str| case.value.get(field).is_some_and(|it| !matches!(it, Value::Null | Value::Bool(false)));
    case.value.is_object() && !has("caSecret") && !has("skipClientCertValidation")
}

fn has_no_limiter(case: &RuleCase<'_>) -> bool {
    case.scene.settings.proxies.rate_limit.is_none() && case.value.get("disabled") != Some(&Value::Bool(true))
}
