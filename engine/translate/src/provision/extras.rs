//! Smaller objects of a data plane: ServiceAccount, ConfigMap of the bootstrap, PodDisruptionBudget,
//! HorizontalPodAutoscaler.

use std::collections::BTreeMap;

use holdfast_api::apis::kinds;
use serde_json::{Value, json};

use super::bootstrap::BOOTSTRAP_FILE;
use super::parameters::{Autoscaling, Parameters};
use super::{DataPlane, Operator, hash, names, object, put, secure, selector, with};

/// ServiceAccount of the Envoys; it has no permission at the API server.
pub(super) fn service_account(plane: &DataPlane) -> Value {
    let mut account = with(object(plane, "v1", "ServiceAccount"), [("automountServiceAccountToken", json!(false))]);
    if let Some(metadata) = account.get_mut("metadata") {
        put(metadata, "name", Some(names::account(&plane.gateway)));
    }
    account
}

/// ConfigMap with the bootstrap and its files, and the hash of the bootstrap. Envoys restart when the hash changes.
pub(super) fn config_map(plane: &DataPlane, operator: &Operator, bootstrap: &Value) -> (Value, String) {
    let text = serde_json::to_string_pretty(bootstrap).unwrap_or_default();
    // Envoy reloads the other files by itself.
    let version = hash(&text);
    let mut data: BTreeMap<&str, String> = secure::files(operator);
    data.insert(BOOTSTRAP_FILE, text);
    (with(object(plane, "v1", kinds::CONFIG_MAP), [("data", json!(data))]), version)
}

pub(super) fn budget(plane: &DataPlane, parameters: &Parameters) -> Option<Value> {
    let written = parameters.pod_disruption_budget.as_ref()?;
    let mut spec = json!({ "selector": { "matchLabels": selector(plane) } });
    put(&mut spec, "minAvailable", written.min_available.as_ref());
    put(&mut spec, "maxUnavailable", written.max_unavailable.as_ref());
    Some(with(object(plane, "policy/v1", "PodDisruptionBudget"), [("spec", spec)]))
}

pub(super) fn autoscaler(plane: &DataPlane, parameters: &Parameters) -> Option<Value> {
    let Autoscaling { min_replicas, max_replicas, target_cpu_utilization_percentage } =
        parameters.autoscaling.as_ref()?;
    let target = json!({ "type": "Utilization", "averageUtilization": target_cpu_utilization_percentage });
    let spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": names::name(&plane.gateway) },
        "minReplicas": min_replicas,
        "maxReplicas": max_replicas,
        "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }],
    });
    Some(with(object(plane, "autoscaling/v2", "HorizontalPodAutoscaler"), [("spec", spec)]))
}
