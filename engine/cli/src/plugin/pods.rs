//! The Pod of Holdfast that answers: the leader, or the only one.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{PluginTarget, failure};
use crate::failure::Failure;
use crate::printable::plain;

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A list of objects, as kubectl prints it.
#[derive(Deserialize)]
struct ObjectList<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default, rename = "deletionTimestamp")]
    deleted: Option<String>,
}

#[derive(Deserialize)]
struct PodObject {
    metadata: Meta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
    #[serde(default)]
    conditions: Vec<PodCondition>,
}

#[derive(Deserialize)]
struct PodCondition {
    r#type: String,
    status: String,
}

#[derive(Deserialize)]
struct LeaseObject {
    #[serde(default)]
    spec: LeaseHolder,
}

#[derive(Default, Deserialize)]
struct LeaseHolder {
    #[serde(default, rename = "holderIdentity")]
    holder: Option<String>,
}

impl PodObject {
    fn is_running(&self) -> bool {
        self.metadata.deleted.is_none() && self.status.phase == "Running"
    }

    fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True")
    }
}

/// Finds the Pod with kubectl.
///
/// # Errors
/// Returns an error if kubectl fails, or no single Holdfast runs there.
pub(super) fn find(cluster: &PluginTarget) -> Result<PodName, Failure> {
    let place = cluster.namespace.as_ref().map_or("--all-namespaces".into(), |name| format!("--namespace={name}"));
    let selector = format!("--selector={}", cluster.selector);
    let pods: ObjectList<PodObject> = list(cluster, &["get", "pods", &place, &selector, "--output=json"])?;
    let pods = candidates(cluster, &pods.items)?;
    let [first, others @ ..] = &*pods else { return Err(none(cluster)) };
    if others.is_empty() {
        return Ok(first.clone());
    }
    let namespace = format!("--namespace={}", first.namespace);
    let leases = list(cluster, &["get", "leases.coordination.k8s.io", &namespace, "--output=json"]);
    let leases: ObjectList<LeaseObject> = leases.unwrap_or(ObjectList { items: Vec::new() });
    Ok(leader(&pods, &leases.items).unwrap_or_else(|| {
        let pod = format!("{}/{}", first.namespace, first.name);
        eprintln!("no leader is known: queries Pod {}; --pod selects another one", plain(&pod));
        first.clone()
    }))
}

/// The running Pods that were selected, the ready ones first.
fn candidates(cluster: &PluginTarget, pods: &[PodObject]) -> Result<Vec<PodName>, Failure> {
    let is_wanted = |pod: &&PodObject| cluster.pod.as_ref().is_none_or(|name| *name == pod.metadata.name);
    let mut found: Vec<&PodObject> = pods.iter().filter(|pod| pod.is_running()).filter(is_wanted).collect();
    found.sort_by_key(|pod| !pod.is_ready());
    let namespaces: BTreeSet<&str> = found.iter().map(|pod| &*pod.metadata.namespace).collect();
    if namespaces.len() > 1 {
        let all = namespaces.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("Holdfast runs in the namespaces {all}: select one with --namespace")));
    }
    let name = |pod: &PodObject| PodName { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() };
    Ok(found.into_iter().map(name).collect())
}

fn none(cluster: &PluginTarget) -> Failure {
    let place = cluster.namespace.as_ref().map_or("in any namespace".into(), |name| format!("in namespace {name}"));
    let name = cluster.pod.as_ref().map(|pod| format!(" {pod}")).unwrap_or_default();
    Failure::Undetermined(format!(
        "no Pod{name} of Holdfast runs {place} with the labels {}; `kubectl get pods --all-namespaces` lists all Pods. \
         --namespace, --selector and --pod select others",
        cluster.selector
    ))
}

/// The Pod that holds a Lease: its identity begins with the name of the Pod.
fn leader(pods: &[PodName], leases: &[LeaseObject]) -> Option<PodName> {
    let holders = || leases.iter().filter_map(|lease| lease.spec.holder.as_deref());
    let leads = |pod: &&PodName| {
        let is_of_pod = |holder: &str| holder.rsplit_once('_').is_some_and(|(name, _)| name == pod.name);
        holders().any(is_of_pod)
    };
    pods.iter().find(leads).cloned()
}

fn list<T: for<'a> Deserialize<'a>>(cluster: &PluginTarget, arguments: &[&str]) -> Result<T, Failure> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(cluster.of_kubectl()).args(arguments).arg("--request-timeout=30s").stdin(Stdio::null());
    let output = kubectl
        .output()
        .map_err(|error| Failure::Undetermined(format!("cannot run kubectl, which must be on the PATH: {error}")))?;
    let failed = |why: &str| failure(&arguments.join(" "), why);
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&format!("its output is not valid: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster() -> PluginTarget {
        let (kubeconfig, context, namespace, pod) = (None, None, None, None);
        let (selector, diagnostics_port, metrics_port) = ("app=holdfast".into(), 1, 2);
        PluginTarget { kubeconfig, context, namespace, selector, pod, diagnostics_port, metrics_port }
    }

    fn pod(namespace: &str, name: &str, phase: &str, ready: &str) -> PodObject {
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        object(json!({"metadata": {"name": name, "namespace": namespace}, "status": status}))
    }

    fn object<T: for<'a> Deserialize<'a>>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    fn names(pods: &[PodName]) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.name).collect()
    }

    #[test]
    fn ready_pods_are_first_and_others_than_running_ones_left_out() {
        let pods = [
            pod("infra", "a", "Running", "False"),
            pod("infra", "b", "Pending", "False"),
            pod("infra", "c", "Running", "True"),
            object(
                json!({"metadata": {"name": "d", "namespace": "infra", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                          "status": {"phase": "Running"}}),
            ),
        ];
        assert_eq!(names(&candidates(&cluster(), &pods).unwrap()), ["c", "a"]);
        let one = PluginTarget { pod: Some("a".into()), ..cluster() };
        assert_eq!(names(&candidates(&one, &pods).unwrap()), ["a"]);
        let pods = [pod("blue", "a", "Running", "True"), pod("green", "a", "Running", "True")];
        let why = candidates(&cluster(), &pods).unwrap_err().to_string();
        assert_eq!(why, "Holdfast runs in the namespaces blue, green: select one with --namespace");
    }

    #[test]
    fn the_leader_holds_a_lease() {
        let name = |name: &str| PodName { namespace: "infra".into(), name: name.into() };
        let pods = [name("holdfast-0"), name("holdfast-1")];
        let lease = |holder: Value| object(json!({"spec": {"holderIdentity": holder}}));
        let leases = [lease(Value::Null), lease(json!("other_1")), lease(json!("holdfast-1_00ff"))];
        assert_eq!(leader(&pods, &leases), Some(name("holdfast-1")));
        assert_eq!(leader(&pods, &leases[..2]), None);
        assert_eq!(leader(&pods, &[object(json!({}))]), None);
    }
}
