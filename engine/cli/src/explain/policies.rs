//! The policies that apply to a request: each field with the level at which it is set, the policies that set it, and the
//! value that each of them has for it in the version that is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::shown::shown;
use holdfast_api::apis::{gateway, kinds};
use holdfast_api::object::Object;
use holdfast_api::section;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::report::GatewayView;
use holdfast_graph::ObjectKey;
use serde::Serialize;
use serde_json::Value;

/// A field that policies set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyField {
    /// The level: the rule, a listener of the Gateway, or the route configuration. The first of two levels applies where a
    /// field can have only one value.
    pub(super) level: String,
    /// The field, as in `timeouts.request`.
    pub(super) field: String,
    /// The policies.
    pub(super) policies: Vec<String>,
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

/// Policies by object and level, as `/debug/policies` shows them.
#[derive(Debug)]
pub(super) struct MergedPolicies(Value);

impl MergedPolicies {
    pub(super) fn new(origins: Value) -> Self {
        Self(origins)
    }

    /// The fields for a rule of an object, a route configuration, and the listeners of the Gateway at a port.
    pub(super) fn of(
        &self,
        (object, section): (&ObjectKey, &str),
        receiver: &GatewayView,
        (table, port): (&str, u16),
        served: &ServedPolicies<'_>,
    ) -> Vec<PolicyField> {
        let mut fields = self.fields("routes", &object.to_string(), section);
        let (namespace, name) = receiver.name.split_once('/').unwrap_or_default();
        let key = ObjectKey::new(gateway::GROUP, kinds::GATEWAY, namespace, name).to_string();
        for listener in receiver.listeners.iter().filter(|listener| listener.port == port) {
            fields.extend(self.fields("gateways", &key, &section::listener(&listener.name)));
        }
        fields.extend(self.fields("gateways", &key, table));
        for PolicyField { field, policies, values, .. } in &mut fields {
            let value = |policy: &String| Some((policy.clone(), served.value(policy, field)?));
            *values = policies.iter().filter_map(value).collect();
        }
        fields
    }

    fn fields(&self, of: &str, object: &str, level: &str) -> Vec<PolicyField> {
        let found = self.0.get(of).and_then(|all| all.get(object)).and_then(|object| object.get(level));
        let found: BTreeMap<String, Vec<String>> =
            found.cloned().and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default();
        let field =
            |(field, policies)| PolicyField { level: level.to_owned(), field, policies, values: BTreeMap::new() };
        found.into_iter().map(field).collect()
    }
}
