//! The Deployment of a Gateway's Envoys: as little as they need, and nothing that a Pod of the strictest profile may not.
//!
//! Listeners bind the ports that are written: a setting of the Pod's network lets anybody bind those below 1024, which
//! needs no privilege. A Pod that is to end goes on for a while, since nobody who sends it connections knows at once.

use serde_json::{Value, json};

use super::bootstrap::{ADMIN_SOCKET, BOOTSTRAP_FILE, MEMORY_LIMIT, READY_PORT};
use super::parameters::{LogLevel, Parameters, PodParameters};
use super::{DataPlane, Operator, QUIET, names, object, own_labels, put, selector, with};

/// Who Envoy runs as: nobody.
const USER: i64 = 65_532;
/// Seconds for which a Pod that is to end goes on serving, where nothing else is said.
const DRAIN_SECONDS: u32 = 30;
/// Seconds that Envoy has to end after that.
const END_SECONDS: u32 = 15;
/// Where the bootstrap is.
pub(super) const BOOTSTRAP_FOLDER: &str = "/etc/envoy";
/// Where the admin socket is.
const RUN_FOLDER: &str = "/run/holdfast";
/// Where the token is by which the xDS server knows who asks.
pub(super) const TOKEN_FOLDER: &str = "/var/run/secrets/holdfast.dev";
/// Seconds for which a token is good; it is replaced long before.
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
    // Ports of listeners are not named here: they need not be, and Pods would begin anew whenever one comes.
    let ready = json!({ "name": "ready", "containerPort": READY_PORT, "protocol": "TCP" });
    let said = || json!({ "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": MEMORY_LIMIT } });
    let mut container = json!({
        "name": "envoy",
        "image": parameters.image.as_ref().unwrap_or(&operator.image),
        // Both forms of Envoy's image have it in the path; one of them begins with a script otherwise.
        "command": ["envoy"],
        "args": args,
        "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "ports": [ready],
        "readinessProbe": {
            "httpGet": { "path": "/ready", "port": READY_PORT },
            "periodSeconds": 5,
            "failureThreshold": 2,
        },
        "resources": parameters.resources.as_ref().map_or_else(said, |resources| json!(resources)),
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

/// Tells Envoy to end connections as soon as the Pod is to end: Envoy itself is told so when the pause is over.
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
