//! The policies that apply to a request: each field with the level at which it is set, and the policies that set it.

use std::collections::BTreeMap;

use holdfast_api::apis::{gateway, kinds};
use holdfast_api::section;
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
    ) -> Vec<PolicyField> {
        let mut fields = self.fields("routes", &object.to_string(), section);
        let (namespace, name) = receiver.name.split_once('/').unwrap_or_default();
        let key = ObjectKey::new(gateway::GROUP, kinds::GATEWAY, namespace, name).to_string();
        for listener in receiver.listeners.iter().filter(|listener| listener.port == port) {
            fields.extend(self.fields("gateways", &key, &section::listener(&listener.name)));
        }
        fields.extend(self.fields("gateways", &key, table));
        fields
    }

    fn fields(&self, of: &str, object: &str, level: &str) -> Vec<PolicyField> {
        let found = self.0.get(of).and_then(|all| all.get(object)).and_then(|object| object.get(level));
        let found: BTreeMap<String, Vec<String>> =
            found.cloned().and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default();
        let field = |(field, policies)| PolicyField { level: level.to_owned(), field, policies };
        found.into_iter().map(field).collect()
    }
}
