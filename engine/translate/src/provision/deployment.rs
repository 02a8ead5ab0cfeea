//! Deployment of a Gateway's Envoys, with minimal permissions: it satisfies the strictest Pod security profile.
//!
//! Listeners bind the ports of the Gateway: a sysctl of the Pod's network namespace allows ports below 1024 without
//! privileges. A Pod that terminates continues to serve for a while, since clients learn of the termination with a
//! delay.

use serde_json::{Value, json};

use super::bootstrap::{ADMIN_SOCKET, BOOTSTRAP_FILE, MEMORY_LIMIT, READY_PORT};
use super::parameters::{LogLevel, Parameters, PodParameters};
use super::{DataPlane, Operator, QUIET, names, object, own_labels, put, selector, with};

/// User ID of Envoy: `nobody`.
const USER: i64 = 65_532;
/// Default time for which a terminating Pod continues to serve, in seconds.
const DRAIN_SECONDS: u32 = 30;
/// Time that Envoy has to exit after that, in seconds.
const END_SECONDS: u32 = 15;
/// Folder of the bootstrap.
pub(super) const BOOTSTRAP_FOLDER: &str = "/etc/envoy";
/// Folder of the admin socket.
const RUN_FOLDER: &str = "/run/holdfast";
/// Folder of the token that authenticates the Envoy at the xDS server.
pub(super) const TOKEN_FOLDER: &str = "/var/run/secrets/holdfast.dev";
/// Lifetime of the token, in seconds; it is renewed long before.
const TOKEN_SECONDS: u32 = 3600;

pub(super) fn deployment(plane: &DataPlane, operator: &Operator, parameters: &Parameters, bootstrap: &str) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": selector(plane) },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": "25%" } },
        "template": template(plane, operator, parameters, bootstrap),
    });
    if parameters.autoscaling.is_none() {
        put(&mut spec, "replicas", Some(parameters.replicas.unwrap_or(1)));
    }
    with(object(plane, "apps/v1", "Deployment"), [("spec", spec)])
}

fn template(plane: &DataPlane, operator: &Operator, parameters: &Parameters, bootstrap: &str) -> Value {
    let PodParameters { labels, annotations, .. } = &parameters.pod;
    let mut all = plane.labels.clone();
    all.extend(labels.clone());
    all.extend(own_labels(plane));
    let mut notes = plane.annotations.clone();
    notes.extend(annotations.clone());
    notes.insert("holdfast.dev/bootstrap".into(), bootstrap.into());
    json!({ "metadata": { "labels": all, "annotations": notes }, "spec": pod(plane, operator, parameters) })
}

fn pod(plane: &DataPlane, operator: &Operator, parameters: &Parameters) -> Value {
    let name = names::name(&plane.gateway);
    let drain = parameters.drain_seconds.unwrap_or(DRAIN_SECONDS);
    let mut containers = vec![envoy(operator, parameters, drain)];
    containers.extend(operator.drain_image.as_ref().map(|image| drainer(image)));
    let token = json!({
        "audience": operator.token_audience,
        "expirationSeconds": TOKEN_SECONDS,
        "path": "token",
    });
    let mut spec = json!({
        "serviceAccountName": names::account(&plane.gateway),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": drain.saturating_add(END_SECONDS),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
            "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }],
        },
        "containers": containers,
        "volumes": [
            { "name": "bootstrap", "configMap": { "name": name } },
            { "name": "run", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
            { "name": "token", "projected": { "sources": [{ "serviceAccountToken": token }] } },
        ],
    });
    let PodParameters {
        node_selector, tolerations, affinity, topology_spread_constraints, priority_class_name, ..
    } = &parameters.pod;
    put(&mut spec, "nodeSelector", Some(node_selector).filter(|labels| !labels.is_empty()));
    put(&mut spec, "tolerations", Some(tolerations).filter(|all| !all.is_empty()));
    put(&mut spec, "affinity", affinity.as_ref());
    put(&mut spec, "topologySpreadConstraints", Some(topology_spread_constraints).filter(|all| !all.is_empty()));
    put(&mut spec, "priorityClassName", priority_class_name.as_ref());
    let secrets = parameters.image_pull_secrets.iter().map(|name| json!({ "name": name }));
    put(&mut spec, "imagePullSecrets", Some(secrets.collect::<Vec<_>>()).filter(|all| !all.is_empty()));
    spec
}

fn envoy(operator: &Operator, parameters: &Parameters, drain: u32) -> Value {
    let mut args = vec![
        "--config-path".to_owned(),
        format!("{BOOTSTRAP_FOLDER}/{BOOTSTRAP_FILE}"),
        "--service-node".into(),
        "$(POD_NAME)".into(),
        "--disable-hot-restart".into(),
        "--drain-time-s".into(),
        drain.max(1).to_string(),
    ];
    args.extend(parameters.concurrency.iter().flat_map(|count| ["--concurrency".into(), count.to_string()]));
    if let Some(Value::String(level)) = parameters.log_level.map(|level| json!(level)) {
        args.extend(["--log-level".into(), level]);
    }
    if !matches!(parameters.log_level, Some(LogLevel::Trace | LogLevel::Debug)) {
        args.extend(["--component-log-level".into(), QUIET.into()]);
    }
    // Ports of listeners are not declared here: the declaration is optional, and each new port would restart the Pods.
    let ready = json!({ "name": "ready", "containerPort": READY_PORT, "protocol": "TCP" });
    let default_resources =
        || json!({ "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": MEMORY_LIMIT } });
    let mut container = json!({
        "name": "envoy",
        "image": parameters.image.as_ref().unwrap_or(&operator.image),
        // Both variants of Envoy's image have `envoy` in the path; one of them starts a script by default.
        "command": ["envoy"],
        "args": args,
        "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "ports": [ready],
        "readinessProbe": {
            "httpGet": { "path": "/ready", "port": READY_PORT },
            "periodSeconds": 5,
            "failureThreshold": 2,
        },
        "resources": parameters.resources.as_ref().map_or_else(default_resources, |resources| json!(resources)),
        "securityContext": security(),
        "volumeMounts": [
            { "name": "bootstrap", "mountPath": BOOTSTRAP_FOLDER, "readOnly": true },
            { "name": "run", "mountPath": RUN_FOLDER },
            { "name": "token", "mountPath": TOKEN_FOLDER, "readOnly": true },
        ],
    });
    if drain > 0 {
        put(&mut container, "lifecycle", Some(json!({ "preStop": { "sleep": { "seconds": drain } } })));
    }
    put(&mut container, "imagePullPolicy", parameters.image_pull_policy);
    container
}

/// Container that makes Envoy drain connections as soon as the Pod terminates: Kubernetes signals Envoy itself only
/// after the `preStop` pause.
fn drainer(image: &str) -> Value {
    json!({
        "name": "drain",
        "image": image,
        "args": ["drain", "--admin-socket", ADMIN_SOCKET],
        "resources": { "requests": { "cpu": "1m", "memory": "16Mi" }, "limits": { "memory": "64Mi" } },
        "securityContext": security(),
        "volumeMounts": [{ "name": "run", "mountPath": RUN_FOLDER }],
    })
}

fn security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "capabilities": { "drop": ["ALL"] },
    })
}
