//! Status of a Pod, as a kubelet writes it.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Timeout of a readiness probe.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// The path of a Pod.
pub(super) fn path(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Returns the status of a running Pod.
pub(super) fn running(pod: &Value, address: Ipv4Addr, ready: bool) -> Value {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).ok().and_then(|time| time.format(&Rfc3339).ok());
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastTransitionTime": now })
    };
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": container["image"],
            "ready": ready,
            "started": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": now } },
        })
    });
    json!({ "status": {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "hostIP": super::NODE,
        "startTime": pod["status"].get("startTime").cloned().unwrap_or_else(|| json!(now)),
        "containerStatuses": containers.collect::<Vec<_>>(),
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
    }})
}

/// Returns whether the readiness probes of a Pod succeed; only HTTP probes are known.
pub(super) async fn is_ready(pod: &Value, address: Ipv4Addr) -> bool {
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        let probe = &container["readinessProbe"]["httpGet"];
        if probe.is_null() {
            continue;
        }
        let ports = || container["ports"].as_array().into_iter().flatten();
        let named = ports().find(|port| port["name"] == probe["port"]).and_then(|port| port["containerPort"].as_u64());
        let port = probe["port"].as_u64().or(named).and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        let path = probe["path"].as_str().unwrap_or("/");
        let probe = succeeds(format!("http://{address}:{port}{path}"));
        if !tokio::time::timeout(PROBE_MAX, probe).await.is_ok_and(|answer| answer.unwrap_or(false)) {
            return false;
        }
    }
    true
}

async fn succeeds(url: String) -> Result<bool> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    Ok(client.get(url.parse()?).await?.status().is_success())
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
