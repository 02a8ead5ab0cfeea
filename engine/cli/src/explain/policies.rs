//! The policies that apply to a request: each field with the level at which it is set, the policies that set it, and the
//! value that each of them has for it in the version that is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::shown::shown;
use holdfast_api::apis::{gateway, kinds};
use holdfast_api::object::Object;
use holdfast_api::section;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::report::{DelegatedRoutes, GatewayView, ListenerView, PoliciesByField, RoutePosition};
use holdfast_envoy::encode::names;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;
use serde::Serialize;
use serde_json::Value;

/// A field that policies set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyField {
    /// The level: the rule, a listener of the Gateway, or the route configuration. The first of two levels applies where a
    /// field can have only one value.
    pub(crate) level: String,
    /// The field, as in `timeouts.request`.
    pub(crate) field: String,
    /// The policies.
    pub(crate) policies: Vec<String>,
    /// The value of the field in each of these policies, as far as Holdfast keeps it. No credentials.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) values: BTreeMap<String, Value>,
}

/// The served versions of policies: the desired version, or the last valid version that is served instead.
#[derive(Debug)]
pub(super) struct ServedPolicies<'a> {
    pub(super) objects: &'a ObjectSnapshot,
    /// The last valid versions that are served at the Gateway.
    pub(super) earlier: BTreeMap<ObjectKey, Arc<Object>>,
}

impl ServedPolicies<'_> {
    /// Returns the value of a field (`timeouts`, `cors`) below the `spec` of a policy.
    fn value(&self, policy: &str, field: &str) -> Option<Value> {
        let key: ObjectKey = policy.parse().ok()?;
        let object = self.earlier.get(&key).or_else(|| self.objects.get(&key))?;
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        shown(object)?.pointer_mut(&pointer).map(Value::take)
    }
}

/// Fields of which only the closest level applies, whatever a wider one sets.
const CLOSEST_ONLY: [&str; 5] = ["extAuth", "jwtAuth", "rateLimit.global", "extProc", "oauth2"];

/// The route that takes a request.
pub(super) struct TakingRoute<'a> {
    pub(super) object: &'a ObjectKey,
    /// The section of the object, as in `rules[0]`.
    pub(super) section: &'a str,
    /// The name of the route.
    pub(super) name: &'a str,
    /// The name of the route configuration.
    pub(super) table: &'a str,
    /// The domain of the virtual host.
    pub(super) domain: &'a str,
    pub(super) port: u16,
}

/// Policies by object and level, as `/debug/policies` shows them, and those of routes below other HTTPRoutes.
#[derive(Debug)]
pub(super) struct MergedPolicies {
    origins: Value,
    delegated: DelegatedRoutes,
}

impl MergedPolicies {
    pub(super) fn new(origins: Value, delegated: DelegatedRoutes) -> Self {
        Self { origins, delegated }
    }

    /// Returns the fields for a route of a Gateway.
    pub(super) fn of(
        &self,
        route: &TakingRoute<'_>,
        receiver: &GatewayView,
        served: &ServedPolicies<'_>,
    ) -> Vec<PolicyField> {
        let mut fields = self.of_rule(route, receiver);
        let (namespace, name) = receiver.name.split_once('/').unwrap_or_default();
        let key = ObjectKey::new(gateway::GROUP, kinds::GATEWAY, namespace, name).to_string();
        let listener = listener_of(route, receiver).map(|listener| section::listener(&listener.name));
        for level in listener.iter().map(String::as_str).chain([route.table]) {
            let mut wider = self.fields(&key, level);
            let is_replaced =
                |field: &str| CLOSEST_ONLY.contains(&field) && fields.iter().any(|one| one.field == field);
            wider.retain(|one| !is_replaced(&one.field));
            fields.extend(wider);
        }
        for PolicyField { field, policies, values, .. } in &mut fields {
            let value = |policy: &String| Some((policy.clone(), served.value(policy, field)?));
            *values = policies.iter().filter_map(value).collect();
        }
        fields
    }

    /// Returns the fields of the rule. Below other HTTPRoutes they are those of the place where the request arrives: the
    /// policies of another place do not apply to it.
    fn of_rule(&self, route: &TakingRoute<'_>, receiver: &GatewayView) -> Vec<PolicyField> {
        let at = RoutePosition {
            gateway: &receiver.name,
            route_configuration: route.table,
            domain: route.domain,
            route: route.name,
        };
        let below = self.delegated.policies_at(route.object, at);
        below.map_or_else(
            || fields_at(route.section, self.recorded("routes", &route.object.to_string(), route.section)),
            |found| fields_at(route.section, found),
        )
    }

    fn fields(&self, gateway: &str, level: &str) -> Vec<PolicyField> {
        fields_at(level, self.recorded("gateways", gateway, level))
    }

    fn recorded(&self, of: &str, object: &str, level: &str) -> PoliciesByField {
        let found = self.origins.get(of).and_then(|all| all.get(object)).and_then(|object| object.get(level));
        found.cloned().and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default()
    }
}

/// Returns the listener with the policies of a host: of those without TLS at the port, the most specific one.
fn listener_of<'v>(route: &TakingRoute<'_>, receiver: &'v GatewayView) -> Option<&'v ListenerView> {
    if !names::is_plain(route.table) {
        return None;
    }
    let host = Host::new(Some(&route.domain.into()));
    let at_port = receiver.listeners.iter().filter(|listener| listener.serving && listener.port == route.port);
    let plain = at_port.filter(|listener| &*listener.protocol == "HTTP");
    let covering = plain.filter_map(|listener| {
        let own = Host::new(listener.hostname.as_ref());
        own.covers(&host).then(|| (own.specificity(), listener))
    });
    covering.min_by_key(|(specificity, _)| *specificity).map(|(_, listener)| listener)
}

fn fields_at(level: &str, found: PoliciesByField) -> Vec<PolicyField> {
    let field = |(field, policies)| PolicyField { level: level.to_owned(), field, policies, values: BTreeMap::new() };
    found.into_iter().map(field).collect()
}
