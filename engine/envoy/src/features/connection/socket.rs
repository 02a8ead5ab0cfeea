//! Settings of the port: PROXY protocol, TCP keepalive, buffer limit, handshake timeout.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::SocketOption;
use envoy_types::pb::envoy::config::core::v3::socket_option::{SocketState, Value};
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, ListenerFilter};
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3::ProxyProtocol;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::{any, duration};

/// Name of the PROXY protocol filter.
const PROXY_FILTER: &str = "envoy.filters.listener.proxy_protocol";
/// `SOL_SOCKET` and `SO_KEEPALIVE` on Linux.
const KEEPALIVE: (i64, i64) = (1, 9);
/// `IPPROTO_TCP`, and `TCP_KEEPIDLE`, `TCP_KEEPINTVL` and `TCP_KEEPCNT` on Linux.
const TCP: i64 = 6;
const IDLE: i64 = 4;
const INTERVAL: i64 = 5;
const COUNT: i64 = 6;

/// Maximum number of keepalive probes that Linux accepts.
pub const PROBES_MAX: u32 = 127;
/// Maximum number of seconds before a keepalive probe that Linux accepts.
pub const KEEPALIVE_SECONDS_MAX: u64 = 32_767;

/// A setting of a port, or of the handshake on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Connections begin with a PROXY protocol header.
    Proxy {
        /// Whether connections without the header are accepted.
        optional: bool,
    },
    /// TCP keepalive.
    Keepalive(DownstreamKeepalive),
    /// Buffer limit of a connection, in bytes.
    Buffer(u32),
    /// Timeout of the TLS handshake.
    Handshake(Duration),
}

/// TCP keepalive; the operating system's defaults apply where unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownstreamKeepalive {
    /// Seconds before the first probe.
    pub idle: Option<u32>,
    /// Seconds between two probes.
    pub interval: Option<u32>,
    /// Number of probes.
    pub probes: Option<u32>,
}

impl Socket {
    /// Returns whether the setting determines the identity of clients.
    pub(super) fn guards(&self) -> bool {
        matches!(self, Socket::Proxy { .. })
    }

    /// Writes the setting into the port's listener.
    pub(crate) fn apply_to_listener(&self, listener: &mut Listener) {
        match self {
            Socket::Proxy { optional } => {
                let filter =
                    ProxyProtocol { allow_requests_without_proxy_protocol: *optional, ..ProxyProtocol::default() };
                let filter = ListenerFilter {
                    name: PROXY_FILTER.into(),
                    config_type: Some(ConfigType::TypedConfig(any(&filter))),
                    ..Default::default()
                };
                // The PROXY protocol header precedes the TLS handshake.
                listener.listener_filters.insert(0, filter);
            }
            Socket::Keepalive(keepalive) => listener.socket_options = keepalive.encode(),
            Socket::Buffer(bytes) => {
                listener.per_connection_buffer_limit_bytes = Some(UInt32Value { value: *bytes });
            }
            Socket::Handshake(_) => {}
        }
    }

    /// Writes the setting into a filter chain with TLS.
    pub(crate) fn apply_to_chain(&self, chain: &mut FilterChain) {
        if let Socket::Handshake(limit) = self {
            chain.transport_socket_connect_timeout = Some(duration(*limit));
        }
    }
}

impl DownstreamKeepalive {
    fn encode(self) -> Vec<SocketOption> {
        let option = |(level, name): (i64, i64), value: u32| SocketOption {
            level,
            name,
            value: Some(Value::IntValue(value.into())),
            state: SocketState::StatePrebind.into(),
            ..Default::default()
        };
        let Self { idle, interval, probes } = self;
        let set = [(IDLE, idle), (INTERVAL, interval), (COUNT, probes)];
        let set = set.into_iter().filter_map(|(name, value)| Some(option((TCP, name), value?)));
        std::iter::once(option(KEEPALIVE, 1)).chain(set).collect()
    }
}
