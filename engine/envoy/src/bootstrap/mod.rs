//! Envoy bootstrap configuration: the connection to the xDS server, and edge hardening.
//!
//! The limits follow Envoy's best practices for edge proxies; settings of listeners are part of the served listeners.
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/best_practices/edge>

pub mod address;
pub mod credentials;

use holdfast_api::settings::RE2_PROGRAM_SIZE_MAX;
use holdfast_xds::connection::Protocol;
use holdfast_xds::identity::FLAGS_FIELD;
use serde_json::{Value, json};

pub use self::address::{ListenAddress, ServerAddress};
pub use self::credentials::Credentials;

/// Default maximum heap size, in bytes (2 GiB), near which Envoy rejects requests.
pub const MAX_HEAP_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Default limit in downstream connections, above which Envoy accepts no more.
pub const MAX_CONNECTIONS: u32 = 50_000;
/// JSON pointer to the HTTP protocol options of a cluster.
const HTTP_OPTIONS: &str = "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
/// The longest wait of an Envoy between two tries to connect, so that all Envoys are current soon after Holdfast is
/// back. Envoy's own limit is 30 seconds.
const RECONNECT_MAX: &str = "5s";
/// The name of the cluster of the xDS server. No served cluster has this name.
const XDS_CLUSTER: &str = "holdfast-xds";

/// The inputs of a bootstrap configuration.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// `namespace/name` of the Gateway; becomes `node.cluster`.
    pub gateway: String,
    /// `node.id`.
    pub node_id: String,
    /// The address of the xDS server.
    pub xds: ServerAddress,
    /// The credentials that Envoy presents to the xDS server; `None` without TLS.
    pub credentials: Option<Credentials>,
    /// The listen address of the admin interface.
    pub admin: Option<ListenAddress>,
    /// The variant of the xDS protocol.
    pub mode: Protocol,
    /// Maximum heap size, in bytes.
    pub max_heap_bytes: u64,
    /// Maximum number of downstream connections.
    pub max_connections: u32,
}

impl Bootstrap {
    /// The configuration in the form that Envoy reads from JSON and YAML.
    pub fn to_json(&self) -> Value {
        let mut all = json!({
            "node": {
                "cluster": self.gateway,
                "id": self.node_id,
                // An Envoy of the same version that accepts other regexes is another build.
                "metadata": { FLAGS_FIELD: format!("re2={RE2_PROGRAM_SIZE_MAX}") },
            },
            "dynamic_resources": self.dynamic_resources(),
            "static_resources": { "clusters": [self.xds_cluster()] },
            "layered_runtime": layered_runtime(),
            "overload_manager": self.overload_manager(),
        });
        if let (Some(admin), Some(fields)) = (&self.admin, all.as_object_mut()) {
            fields.insert("admin".into(), json!({ "address": listen_address(admin) }));
        }
        all
    }

    fn dynamic_resources(&self) -> Value {
        let api_type = match self.mode {
            Protocol::Delta => "DELTA_GRPC",
            Protocol::Sotw => "GRPC",
        };
        let ads = json!({ "ads": {}, "resource_api_version": "V3" });
        let back_off = json!({ "base_interval": "0.5s", "max_interval": RECONNECT_MAX });
        let retry = json!({ "retry_back_off": back_off });
        json!({
            "ads_config": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": { "cluster_name": XDS_CLUSTER, "retry_policy": retry } }],
            },
            "cds_config": ads,
            "lds_config": ads,
        })
    }

    fn xds_cluster(&self) -> Value {
        let (discovery, address) = match &self.xds {
            ServerAddress::Unix(path) => ("STATIC", json!({ "pipe": { "path": path } })),
            ServerAddress::Tcp(host, port) => {
                let named = host.parse::<std::net::IpAddr>().is_err();
                let address = json!({ "socket_address": { "address": host, "port_value": port } });
                (if named { "STRICT_DNS" } else { "STATIC" }, address)
            }
        };
        let mut cluster = json!({
            "name": XDS_CLUSTER,
            "type": discovery,
            "connect_timeout": "2s",
            "load_assignment": {
                "cluster_name": XDS_CLUSTER,
                "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address } }] }],
            },
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {
                        // Keepalive detects a server that is gone without closing the connection; Envoy then
                        // reconnects.
                        "http2_protocol_options": { "connection_keepalive": { "interval": "10s", "timeout": "5s" } },
                    },
                },
            },
        });
        if let (Some(credentials), Some(fields)) = (&self.credentials, cluster.as_object_mut()) {
            fields.insert("transport_socket".into(), credentials.transport_socket());
        }
        let filters = self.credentials.as_ref().and_then(Credentials::http_filters);
        if let (Some(filters), Some(options)) = (filters, cluster.pointer_mut(HTTP_OPTIONS)) {
            put(options, "http_filters", filters);
        }
        cluster
    }

    fn overload_manager(&self) -> Value {
        let heap = "envoy.resource_monitors.fixed_heap";
        let connections = "envoy.resource_monitors.global_downstream_max_connections";
        let config = |name: &str| format!("type.googleapis.com/envoy.extensions.resource_monitors.{name}");
        let at = |value: f64| json!([{ "name": heap, "threshold": { "value": value } }]);
        json!({
            "refresh_interval": "0.25s",
            "resource_monitors": [
                {
                    "name": heap,
                    "typed_config": {
                        "@type": config("fixed_heap.v3.FixedHeapConfig"),
                        "max_heap_size_bytes": self.max_heap_bytes,
                    },
                },
                {
                    "name": connections,
                    "typed_config": {
                        "@type": config("downstream_connections.v3.DownstreamConnectionsConfig"),
                        "max_active_downstream_connections": self.max_connections,
                    },
                },
            ],
            "actions": [
                { "name": "envoy.overload_actions.shrink_heap", "triggers": at(0.90) },
                { "name": "envoy.overload_actions.stop_accepting_requests", "triggers": at(0.98) },
            ],
        })
    }
}

fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.into(), value);
    }
}

fn layered_runtime() -> Value {
    json!({
        "layers": [
            {
                "name": "holdfast",
                "static_layer": {
                    // Common regexes exceed Envoy's default limit of 100; regexes above this limit are rejected before
                    // they are sent.
                    "re2.max_program_size.error_level": RE2_PROGRAM_SIZE_MAX,
                    "re2.max_program_size.warn_level": RE2_PROGRAM_SIZE_MAX,
                    // Disconnects clients that open and reset streams in a loop (CVE-2023-44487).
                    "overload.premature_reset_total_stream_count": 500,
                    "overload.premature_reset_min_stream_lifetime_seconds": 1,
                },
            },
            { "name": "admin", "admin_layer": {} },
        ],
    })
}

fn listen_address(listen: &ListenAddress) -> Value {
    match listen {
        ListenAddress::Unix(path) => json!({ "pipe": { "path": path, "mode": 0o600 } }),
        ListenAddress::Tcp(address) => {
            json!({ "socket_address": { "address": address.ip(), "port_value": address.port() } })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::yaml;

    fn bootstrap() -> Bootstrap {
        Bootstrap {
            gateway: "infra/public".into(),
            node_id: "one".into(),
            xds: ServerAddress::Unix("/run/holdfast/xds.sock".into()),
            credentials: None,
            admin: Some(ListenAddress::Unix("/run/holdfast/admin.sock".into())),
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        }
    }

    #[test]
    fn the_bootstrap_is_as_it_was_reviewed() {
        let text = yaml::text(&bootstrap().to_json()).unwrap();
        holdfast_golden::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bootstrap/bootstrap.golden.yaml"), &text);
    }

    #[test]
    fn the_xds_server_is_reached_by_socket_address_or_name() {
        let kind = |target: ServerAddress| {
            let json = Bootstrap { xds: target, ..bootstrap() }.to_json();
            json.pointer("/static_resources/clusters/0/type").and_then(Value::as_str).map(str::to_owned)
        };
        assert_eq!(kind(ServerAddress::Tcp("127.0.0.1".into(), 1)).as_deref(), Some("STATIC"));
        assert_eq!(kind(ServerAddress::Tcp("::1".into(), 1)).as_deref(), Some("STATIC"));
        assert_eq!(kind(ServerAddress::Tcp("holdfast.infra".into(), 1)).as_deref(), Some("STRICT_DNS"));
    }

    #[test]
    fn without_an_admin_interface_there_is_none() {
        let json = Bootstrap { admin: None, mode: Protocol::Sotw, ..bootstrap() }.to_json();
        assert_eq!(json.get("admin"), None);
        assert_eq!(json.pointer("/dynamic_resources/ads_config/api_type"), Some(&json!("GRPC")));
    }
}
