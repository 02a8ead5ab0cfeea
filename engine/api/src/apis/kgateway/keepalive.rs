//! `tcpKeepalive` of listeners and backends.
//!
//! <https://kgateway.dev/docs/envoy/main/reference/api/#tcpkeepalive>

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// TCP keepalive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpKeepalive {
    /// Time between two probes.
    pub keep_alive_interval: Option<Arc<str>>,
    /// Number of probes.
    pub keep_alive_probes: Option<i64>,
    /// Time before the first probe.
    pub keep_alive_time: Option<Arc<str>>,
}
