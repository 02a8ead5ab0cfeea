//! Bootstrap of an Envoy in a Pod: readiness endpoint and metrics, in addition to the common bootstrap.
//!
//! The admin interface listens on a socket that only the Pod can reach. One listener is reachable from outside. It
//! answers `/ready` by itself, and forwards exactly `/stats/prometheus` to the admin interface; all other requests are
//! rejected.

use serde_json::{Value, json};

use super::parameters::Parameters;
use super::quantity;

/// The port of the readiness endpoint and of the metrics of a Pod. No listener of a Gateway can use it.
pub const READY_PORT: u16 = 19_001;
/// Path of the socket of the admin interface.
pub(super) const ADMIN_SOCKET: &str = "/run/holdfast/admin.sock";
/// File name of the bootstrap.
pub(super) const BOOTSTRAP_FILE: &str = "bootstrap.json";
/// Name of the cluster of the admin interface. No served cluster has this name.
const ADMIN_CLUSTER: &str = "holdfast-admin";
/// Default memory limit of a Pod.
pub(super) const MEMORY_LIMIT: &str = "1Gi";
/// Share of the memory limit at which Envoy rejects requests.
const HEAP_SHARE: f64 = 0.8;

/// Returns the bootstrap of a Pod.
pub(super) fn provisioned(mut bootstrap: Value, parameters: &Parameters) -> Value {
    if let Some(node) = bootstrap.get_mut("node").and_then(Value::as_object_mut) {
        // Each Pod sets its own node ID on the command line.
        node.remove("id");
    }
    let admin = json!({ "pipe": { "path": ADMIN_SOCKET, "mode": 0o600 } });
    put(&mut bootstrap, "", "admin", json!({ "address": admin }));
    // Envoy is not ready, and receives no connections, before its first configuration.
    for source in ["lds_config", "cds_config"] {
        put(&mut bootstrap, &format!("/dynamic_resources/{source}"), "initial_fetch_timeout", json!("0s"));
    }
    put(&mut bootstrap, "/static_resources", "listeners", json!([ready_listener()]));
    if let Some(clusters) = bootstrap.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut) {
        clusters.push(admin_cluster());
    }
    if let Some(bytes) = heap_bytes(parameters) {
        let heap = "/overload_manager/resource_monitors/0/typed_config";
        put(&mut bootstrap, heap, "max_heap_size_bytes", json!(bytes));
    }
    bootstrap.sort_all_objects();
    bootstrap
}

fn put(all: &mut Value, at: &str, name: &str, value: Value) {
    if let Some(fields) = all.pointer_mut(at).and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), value);
    }
}

/// Heap size at which Envoy rejects requests, in bytes; `None` if the memory has no limit.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a quantity, which is no less than 0"
)]
fn heap_bytes(parameters: &Parameters) -> Option<u64> {
    let memory =
        parameters.resources.as_ref().map(|resources| resources.limits.as_ref().and_then(|all| all.get("memory")));
    let limit = match memory {
        None => MEMORY_LIMIT,
        Some(limit) => &limit?.0,
    };
    Some((quantity::read(limit)? * HEAP_SHARE) as u64)
}

fn ready_listener() -> Value {
    let filter = |name: &str, kind: &str| json!({ "name": name, "typed_config": { "@type": format!("type.googleapis.com/envoy.extensions.filters.http.{kind}") } });
    let exact = |name: &str, text: &str| json!({ "name": name, "string_match": { "exact": text } });
    let mut health = filter("envoy.filters.http.health_check", "health_check.v3.HealthCheck");
    put(&mut health, "/typed_config", "pass_through_mode", json!(false));
    put(&mut health, "/typed_config", "headers", json!([exact(":path", "/ready")]));
    let figures = json!({
        "match": { "path": "/stats/prometheus", "headers": [exact(":method", "GET")] },
        "route": { "cluster": ADMIN_CLUSTER, "timeout": "10s" },
    });
    json!({
        "name": "holdfast-ready",
        "address": { "socket_address": { "address": "0.0.0.0", "port_value": READY_PORT } },
        // An overloaded Envoy is still ready.
        "ignore_global_conn_limit": true,
        "bypass_overload_manager": true,
        "per_connection_buffer_limit_bytes": 32 * 1024,
        "filter_chains": [{
            "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                    "stat_prefix": "ready",
                    "codec_type": "HTTP1",
                    "common_http_protocol_options": { "idle_timeout": "60s" },
                    "request_headers_timeout": "5s",
                    "http_filters": [health, filter("envoy.filters.http.router", "router.v3.Router")],
                    "route_config": {
                        "name": "holdfast-ready",
                        "virtual_hosts": [{ "name": "ready", "domains": ["*"], "routes": [figures] }],
                    },
                },
            }],
        }],
    })
}

fn admin_cluster() -> Value {
    let endpoint = json!({ "endpoint": { "address": { "pipe": { "path": ADMIN_SOCKET } } } });
    json!({
        "name": ADMIN_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": { "cluster_name": ADMIN_CLUSTER, "endpoints": [{ "lb_endpoints": [endpoint] }] },
    })
}
