//! Cluster settings of policies for a whole backend, without TLS. Each field comes from at most one policy.

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

use super::{Breakers, Checked, LoadBalancing, Outliers, UpstreamHttp, UpstreamHttp1, UpstreamHttp2};
use crate::encode::{any, duration};
use crate::features::wall;

/// Cluster settings of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configured {
    /// The policies, in order.
    pub origins: Vec<ObjectKey>,
    /// Connect timeout.
    pub connect_timeout: Option<Duration>,
    /// Buffer limit of one connection, in bytes.
    pub buffer: Option<u32>,
    /// TCP keepalive.
    pub keepalive: Option<UpstreamKeepalive>,
    /// DNS lookups.
    pub lookups: Option<Lookups>,
    /// Options of all HTTP versions.
    pub common_http: Option<UpstreamHttp>,
    /// HTTP/1.1 options.
    pub http1: Option<UpstreamHttp1>,
    /// HTTP/2 options.
    pub http2: Option<UpstreamHttp2>,
    /// Load balancing.
    pub balance: Option<LoadBalancing>,
    /// Active health checks.
    pub health: Option<Checked>,
    /// Outlier detection.
    pub outliers: Option<Outliers>,
    /// Circuit breakers.
    pub breakers: Option<Breakers>,
    /// The version of the PROXY protocol towards endpoints.
    pub proxy_protocol: Option<ProxyProtocolVersion>,
}

/// TCP keepalive; the operating system's defaults apply where unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamKeepalive {
    /// Number of unanswered probes before the connection is closed.
    pub probes: Option<u32>,
    /// Seconds before the first probe.
    pub time: Option<u32>,
    /// Seconds between two probes.
    pub interval: Option<u32>,
}

/// DNS lookups of host names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lookups {
    /// Refresh interval.
    pub interval: Option<Duration>,
    /// Jitter of the interval.
    pub jitter: Option<Duration>,
    /// Whether the TTL of a DNS answer overrides the interval.
    pub respect_ttl: bool,
}

impl Lookups {
    /// Returns a text that identifies the settings. Names of clusters contain a hash of it, so that it must stay as it
    /// is: a changed name replaces the cluster, and its connections, at every upgrade.
    pub(super) fn identity(&self) -> String {
        let Self { interval, jitter, respect_ttl } = self;
        format!("Some(Lookups {{ interval: {interval:?}, jitter: {jitter:?}, as_told: {respect_ttl} }})")
    }
}

/// Versions of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyProtocolVersion {
    /// Version 1, as text.
    V1,
    /// Version 2, binary.
    V2,
}

impl Configured {
    /// Returns whether nothing is set, independent of the policies.
    pub fn is_without_settings(&self) -> bool {
        *self == Self { origins: self.origins.clone(), ..Self::default() }
    }

    /// Fills in the fields that are not set yet.
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

    /// Writes the settings into a cluster, except HTTP options, which depend on the protocol.
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
        // Envoy's replacement of these deprecated fields differs only in their position.
        #[allow(deprecated)]
        {
            cluster.dns_refresh_rate = self.interval.map(duration);
            cluster.dns_jitter = self.jitter.map(duration);
            cluster.respect_dns_ttl = self.respect_ttl;
        }
    }
}

impl ProxyProtocolVersion {
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
