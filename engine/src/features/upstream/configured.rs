//! What policies say of a back end as a whole, TLS apart: each field is set by one of them, or by none.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::UpstreamConnectionOptions;
use envoy_types::pb::envoy::config::core::v3::proxy_protocol_config::Version;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use envoy_types::pb::envoy::config::core::v3::{ProxyProtocolConfig, TcpKeepalive, TransportSocket};
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::pb::google::protobuf::UInt32Value;
use holdfast_graph::ObjectKey;

use super::{Breakers, Checked, CommonHttp, Http1, Http2, LoadBalancer, Outliers};
use crate::encode::{any, duration};
use crate::features::wall;

/// What policies say of a back end.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configured {
    /// The policies, in order.
    pub origins: Vec<ObjectKey>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// Bytes that are buffered for one connection.
    pub buffer: Option<u32>,
    /// How connections are kept open.
    pub keepalive: Option<Keepalive>,
    /// How names are looked up.
    pub lookups: Option<Lookups>,
    /// HTTP of any version.
    pub common_http: Option<CommonHttp>,
    /// HTTP/1.1.
    pub http1: Option<Http1>,
    /// HTTP/2.
    pub http2: Option<Http2>,
    /// How endpoints are chosen.
    pub balance: Option<LoadBalancer>,
    /// How endpoints are checked.
    pub health: Option<Checked>,
    /// When endpoints are left out for what they answer.
    pub outliers: Option<Outliers>,
    /// How much may be under way.
    pub breakers: Option<Breakers>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// How connections are kept open by the system; what it does by itself where unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keepalive {
    /// Questions without an answer.
    pub probes: Option<u32>,
    /// Seconds before the first.
    pub time: Option<u32>,
    /// Seconds between two.
    pub interval: Option<u32>,
}

/// How names are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lookups {
    /// Time between two.
    pub interval: Option<Duration>,
    /// By how much it varies.
    pub jitter: Option<Duration>,
    /// Does what the answer says come first?
    pub as_told: bool,
}

/// Versions of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyProtocol {
    /// In text.
    V1,
    /// In bytes.
    V2,
}

impl Configured {
    /// Fills in what is not said yet.
    pub fn fill(&mut self, other: Self) {
        let Self {
            origins,
            connect_timeout,
            buffer,
            keepalive,
            lookups,
            common_http,
            http1,
            http2,
            balance,
            health,
            outliers,
            breakers,
            proxy_protocol,
        } = other;
        self.origins.extend(origins);
        self.connect_timeout = self.connect_timeout.or(connect_timeout);
        self.buffer = self.buffer.or(buffer);
        self.keepalive = self.keepalive.take().or(keepalive);
        self.lookups = self.lookups.take().or(lookups);
        self.common_http = self.common_http.take().or(common_http);
        self.http1 = self.http1.take().or(http1);
        self.http2 = self.http2.take().or(http2);
        self.balance = self.balance.take().or(balance);
        self.health = self.health.take().or(health);
        self.outliers = self.outliers.take().or(outliers);
        self.breakers = self.breakers.take().or(breakers);
        self.proxy_protocol = self.proxy_protocol.or(proxy_protocol);
    }

    /// Writes it into a cluster; HTTP is a matter of the protocol.
    pub(super) fn apply(&self, cluster: &mut envoy::Cluster) {
        let count = |value: u32| Some(UInt32Value { value });
        if let Some(time) = self.connect_timeout {
            cluster.connect_timeout = Some(duration(time));
        }
        if let Some(bytes) = self.buffer {
            cluster.per_connection_buffer_limit_bytes = count(bytes);
        }
        if let Some(keepalive) = &self.keepalive {
            cluster.upstream_connection_options = Some(UpstreamConnectionOptions {
                tcp_keepalive: Some(TcpKeepalive {
                    keepalive_probes: keepalive.probes.and_then(count),
                    keepalive_time: keepalive.time.and_then(count),
                    keepalive_interval: keepalive.interval.and_then(count),
                }),
                ..Default::default()
            });
        }
        if let Some(balance) = &self.balance {
            balance.apply(cluster);
        }
        if let Some(health) = &self.health {
            cluster.health_checks = vec![health.encode()];
        }
        cluster.outlier_detection = self.outliers.as_ref().map(Outliers::encode);
        cluster.circuit_breakers = self.breakers.as_ref().map(Breakers::encode);
        if let Some(version) = self.proxy_protocol {
            cluster.transport_socket = Some(version.around(cluster.transport_socket.take()));
        }
    }
}

impl Lookups {
    pub(super) fn apply(&self, cluster: &mut envoy::Cluster) {
        if !wall::is_looked_up(cluster) {
            return;
        }
        // Envoy's other form of it differs in nothing but its place.
        #[allow(deprecated)]
        {
            cluster.dns_refresh_rate = self.interval.map(duration);
            cluster.dns_jitter = self.jitter.map(duration);
            cluster.respect_dns_ttl = self.as_told;
        }
    }
}

impl ProxyProtocol {
    fn around(self, inner: Option<TransportSocket>) -> TransportSocket {
        let plain = || TransportSocket {
            name: "envoy.transport_sockets.raw_buffer".into(),
            config_type: Some(SocketConfig::TypedConfig(any(&RawBuffer {}))),
        };
        let version = match self {
            Self::V1 => Version::V1,
            Self::V2 => Version::V2,
        };
        let transport = ProxyProtocolUpstreamTransport {
            config: Some(ProxyProtocolConfig { version: version.into(), ..Default::default() }),
            transport_socket: Some(inner.unwrap_or_else(plain)),
            ..Default::default()
        };
        TransportSocket {
            name: "envoy.transport_sockets.upstream_proxy_protocol".into(),
            config_type: Some(SocketConfig::TypedConfig(any(&transport))),
        }
    }
}
