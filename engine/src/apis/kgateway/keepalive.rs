//! `tcpKeepalive`, of listeners and of back ends.
//!
//! <https://kgateway.dev/docs/envoy/main/reference/api/#tcpkeepalive>

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How connections are kept open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpKeepalive {
    /// The time between two probes.
    pub keep_alive_interval: Option<Arc<str>>,
    /// How many probes there are.
    pub keep_alive_probes: Option<i64>,
    /// The time before the first.
    pub keep_alive_time: Option<Arc<str>>,
}
