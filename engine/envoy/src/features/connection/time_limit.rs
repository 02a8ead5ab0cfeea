//! Idle timeouts of connections and streams.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

use crate::encode::duration;

/// An idle timeout; 0 disables it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Timeout of a connection without requests.
    Connection(Duration),
    /// Timeout of a stream without activity.
    Stream(Duration),
}

impl TimeLimit {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        match self {
            TimeLimit::Connection(limit) => {
                manager.common_http_protocol_options.get_or_insert_default().idle_timeout = Some(duration(limit));
            }
            TimeLimit::Stream(limit) => manager.stream_idle_timeout = Some(duration(limit)),
        }
    }
}
