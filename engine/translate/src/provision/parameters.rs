//! Parameters of a data plane: the text under [`KEY`] of a ConfigMap that a GatewayClass or a Gateway references.
//!
//! Fields of the Gateway override fields of the class; `null` removes a field of the class.

use std::collections::BTreeMap;

use holdfast_api::apis::typed::{self, TypedValue, UnknownField};
use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quantity;

/// Key of the parameters in a ConfigMap; the format is YAML or JSON.
pub const KEY: &str = "parameters.yaml";
/// Maximum size of parameters, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of replicas of one data plane.
pub const REPLICAS_MAX: i32 = 1000;
/// Maximum number of worker threads of one Envoy.
pub const CONCURRENCY_MAX: u32 = 256;
/// Maximum time for which a terminating Envoy drains its connections, in seconds.
pub const DRAIN_SECONDS_MAX: u32 = 3600;
/// Maximum length of a reported error, in characters.
const ERROR_CHARS_MAX: usize = 300;

/// A problem of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The field, as in `service.type`; empty for the parameters as a whole.
    pub field: String,
    /// A sentence for users.
    pub message: String,
}

impl Flaw {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into().chars().take(ERROR_CHARS_MAX).collect() }
    }
}

/// Format: `service.type: message`.
impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Parameters of a data plane. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    /// Number of Pods; ignored with autoscaling.
    pub replicas: Option<i32>,
    /// Image of Envoy.
    pub image: Option<String>,
    /// Pull policy of the image.
    pub image_pull_policy: Option<PullPolicy>,
    /// Names of the Secrets for pulling the image.
    pub image_pull_secrets: Vec<String>,
    /// Resource requests and limits of Envoy.
    pub resources: Option<ResourceRequirements>,
    /// Number of worker threads; by default the number of processors.
    pub concurrency: Option<u32>,
    /// Log level of Envoy.
    pub log_level: Option<LogLevel>,
    /// Time for which a terminating Envoy continues to serve, in seconds.
    pub drain_seconds: Option<u32>,
    /// Parameters of the Service.
    pub service: ServiceParameters,
    /// Parameters of the Pods.
    pub pod: PodParameters,
    /// PodDisruptionBudget.
    pub pod_disruption_budget: Option<Budget>,
    /// HorizontalPodAutoscaler.
    pub autoscaling: Option<Autoscaling>,
}

/// Parameters of the Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceParameters {
    /// Type of the Service.
    #[serde(rename = "type")]
    pub kind: Option<ServiceType>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations, which cloud providers read as settings of load balancers.
    pub annotations: BTreeMap<String, String>,
    /// Forwarding of connections by nodes without a Pod.
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// Class of the load balancer.
    pub load_balancer_class: Option<String>,
    /// Client address ranges that the load balancer accepts.
    pub load_balancer_source_ranges: Vec<String>,
}

/// Parameters of Pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodParameters {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the nodes on which Pods run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that Pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Affinity of Pods to nodes and to other Pods.
    pub affinity: Option<Affinity>,
    /// Spread of Pods over nodes and zones.
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// PriorityClass of Pods.
    pub priority_class_name: Option<String>,
}

/// Types of Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ServiceType {
    /// An external load balancer provides the address.
    #[default]
    LoadBalancer,
    /// The Service is reachable at a port of each node.
    NodePort,
    /// The Service is reachable from the cluster only.
    ClusterIP,
}

/// External traffic policy: behavior of nodes without a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum TrafficPolicy {
    /// Nodes without a Pod forward connections.
    Cluster,
    /// Nodes without a Pod do not forward connections, so that Envoy receives the client's address.
    Local,
}

/// Pull policies of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[allow(missing_docs, reason = "the words are those of Kubernetes")]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// Log levels of Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words are those of Envoy")]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Critical,
    Off,
}

/// PodDisruptionBudget: exactly one of the two fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// Minimum number or share of available Pods.
    pub min_available: Option<IntOrString>,
    /// Maximum number or share of unavailable Pods.
    pub max_unavailable: Option<IntOrString>,
}

/// Autoscaling of Pods by CPU usage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Minimum number of Pods.
    #[serde(default = "one")]
    pub min_replicas: i32,
    /// Maximum number of Pods.
    pub max_replicas: i32,
    /// Target CPU usage, in percent of the requested CPU.
    #[serde(default = "target", rename = "targetCPUUtilizationPercentage")]
    pub target_cpu_utilization_percentage: i32,
}

fn one() -> i32 {
    1
}

fn target() -> i32 {
    80
}

/// Parses the text of a ConfigMap and checks that it is valid on its own.
///
/// # Errors If the text cannot be parsed or is invalid.
pub fn read(text: &str) -> Result<Value, Flaw> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Flaw::new("", format!("more than {TEXT_BYTES_MAX} bytes")));
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        Flaw::new("", format!("not valid YAML: {}", message.lines().next().unwrap_or_default()))
    })?;
    let value = if value.is_null() { Value::Object(Default::default()) } else { value };
    typed(&value)?;
    Ok(value)
}

/// Merges the parameters of a class and a Gateway, each of which is valid on its own.
///
/// # Errors If the merged parameters are invalid.
pub fn together(class: Option<&Value>, gateway: Option<&Value>) -> Result<Parameters, Flaw> {
    let mut all = class.cloned().unwrap_or_else(|| Value::Object(Default::default()));
    if let Some(own) = gateway {
        merge(&mut all, own);
    }
    typed(&all)
}

/// JSON merge patch (RFC 7396).
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    under.remove(name);
                } else {
                    merge(under.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (under, over) => under.clone_from(over),
    }
}

fn typed(value: &Value) -> Result<Parameters, Flaw> {
    if !value.is_object() {
        return Err(Flaw::new("", "must be an object, as in \"replicas: 2\""));
    }
    let mut value = value.clone();
    without_nulls(&mut value);
    let TypedValue { result, unknown } = typed::read(&value);
    let parameters: Parameters = result.map_err(|error| Flaw::new(error.path, error.message))?;
    if let Some(UnknownField { path, meant }) = unknown.into_iter().next() {
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(Flaw::new(path, format!("is not a field of the parameters{meant}")));
    }
    check(&parameters)?;
    Ok(parameters)
}

/// Removes fields that are `null`: they count as unset.
fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

fn check(parameters: &Parameters) -> Result<(), Flaw> {
    let Parameters { replicas, image, resources, concurrency, drain_seconds, service, pod, autoscaling, .. } =
        parameters;
    if replicas.is_some_and(|count| !(0..=REPLICAS_MAX).contains(&count)) {
        return Err(Flaw::new("replicas", format!("must be from 0 to {REPLICAS_MAX}")));
    }
    let is_image =
        |image: &String| !image.is_empty() && image.len() <= 1024 && image.bytes().all(|b| b.is_ascii_graphic());
    if image.as_ref().is_some_and(|image| !is_image(image)) {
        return Err(Flaw::new("image", "must be the name of an image"));
    }
    if concurrency.is_some_and(|count| !(1..=CONCURRENCY_MAX).contains(&count)) {
        return Err(Flaw::new("concurrency", format!("must be from 1 to {CONCURRENCY_MAX}")));
    }
    if drain_seconds.is_some_and(|seconds| seconds > DRAIN_SECONDS_MAX) {
        return Err(Flaw::new("drainSeconds", format!("must be at most {DRAIN_SECONDS_MAX}")));
    }
    for (field, quantities) in resources.iter().flat_map(|all| [("requests", &all.requests), ("limits", &all.limits)]) {
        for (name, quantity) in quantities.iter().flatten() {
            if quantity::read(&quantity.0).is_none() {
                return Err(Flaw::new(format!("resources.{field}.{name}"), "must be a quantity, such as 500m or 1Gi"));
            }
        }
    }
    check_labels("service.labels", &service.labels)?;
    check_labels("pod.labels", &pod.labels)?;
    check_labels("pod.nodeSelector", &pod.node_selector)?;
    if let Some(range) = service.load_balancer_source_ranges.iter().find(|range| !is_range(range)) {
        let message = format!(
            "{:?} is not an address range in CIDR notation, such as 10.0.0.0/8",
            range.chars().take(64).collect::<String>()
        );
        return Err(Flaw::new("service.loadBalancerSourceRanges", message));
    }
    if let Some(Budget { min_available, max_unavailable }) = &parameters.pod_disruption_budget
        && min_available.is_some() == max_unavailable.is_some()
    {
        return Err(Flaw::new("podDisruptionBudget", "exactly one of minAvailable and maxUnavailable must be set"));
    }
    if let Some(Autoscaling { min_replicas, max_replicas, target_cpu_utilization_percentage }) = autoscaling {
        if *min_replicas < 1 || max_replicas < min_replicas || *max_replicas > REPLICAS_MAX {
            let message =
                format!("minReplicas must be at least 1, and maxReplicas must be from minReplicas to {REPLICAS_MAX}");
            return Err(Flaw::new("autoscaling", message));
        }
        if *target_cpu_utilization_percentage < 1 {
            return Err(Flaw::new("autoscaling.targetCPUUtilizationPercentage", "must be at least 1"));
        }
    }
    Ok(())
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn check_labels(field: &str, labels: &BTreeMap<String, String>) -> Result<(), Flaw> {
    let graphic = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let ends = |text: &str| text.starts_with(char::is_alphanumeric) && text.ends_with(char::is_alphanumeric);
    let is_label_part = |text: &str| text.len() <= 63 && graphic(text) && ends(text);
    for (name, value) in labels {
        let part = match name.split_once('/') {
            Some((prefix, part)) if !prefix.is_empty() && prefix.len() <= 253 && graphic(prefix) => part,
            Some(_) => "",
            None => name,
        };
        if !is_label_part(part) || !(value.is_empty() || is_label_part(value)) {
            let shown: String = name.chars().take(64).collect();
            return Err(Flaw::new(
                field,
                format!("{shown:?} is not a valid label, or its value is not a valid label value"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_goes_before_its_class_field_by_field() {
        let class = read("{replicas: 2, service: {type: NodePort, labels: {a: b}}, image: one}").unwrap();
        let own = read("replicas: 3\nservice: {labels: {c: d}}\nimage: null").unwrap();
        let both = together(Some(&class), Some(&own)).unwrap();
        assert_eq!((both.replicas, both.image, both.service.kind), (Some(3), None, Some(ServiceType::NodePort)));
        let labels: Vec<_> = both.service.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["a=b", "c=d"]);
        assert_eq!(together(None, None), Ok(Parameters::default()));
    }

    #[test]
    fn an_unusable_parameter_is_reported_with_its_field() {
        for (text, field) in [
            ("replicas: two", "replicas"),
            ("replicas: 1001", "replicas"),
            ("replica: 2", "replica"),
            ("- replicas", ""),
            ("{", ""),
            ("service: {type: Cloud}", "service.type"),
            ("service: {loadBalancerSourceRanges: [10.0.0.0]}", "service.loadBalancerSourceRanges"),
            ("resources: {limits: {memory: 1GB}}", "resources.limits.memory"),
            ("resources: {limit: {memory: 1Gi}}", "resources.limit"),
            ("pod: {labels: {a: 'b c'}}", "pod.labels"),
            ("pod: {tolerations: [{kee: x}]}", "pod.tolerations[0].kee"),
            ("image: 'a b'", "image"),
            ("concurrency: 0", "concurrency"),
            ("drainSeconds: 3601", "drainSeconds"),
            ("podDisruptionBudget: {}", "podDisruptionBudget"),
            ("autoscaling: {minReplicas: 3, maxReplicas: 2}", "autoscaling"),
            ("autoscaling: {minReplicas: 3}", "autoscaling"),
        ] {
            let flaw = read(text).unwrap_err();
            assert_eq!(flaw.field, field, "{text}: {flaw}");
        }
        assert!(read(&format!("image: {}", "x".repeat(TEXT_BYTES_MAX))).is_err());
        assert_eq!(read(""), Ok(json!({})));
    }

    #[test]
    fn parameters_that_are_valid_alone_may_be_invalid_together() {
        let class = read("podDisruptionBudget: {minAvailable: 1}").unwrap();
        let own = read("podDisruptionBudget: {maxUnavailable: 50%}").unwrap();
        assert_eq!(together(Some(&class), Some(&own)).unwrap_err().field, "podDisruptionBudget");
    }
}
