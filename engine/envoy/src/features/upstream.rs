//! Cluster settings of a backend beside its protocol: load balancing, health checks, TLS.
//!
//! Two uses of one Service with different settings are two clusters, which are distinguished by a label derived from
//! all of these settings.

mod balance;
mod configured;
mod health;
mod http;
mod identity;
mod tls;

use std::sync::Arc;
use std::time::Duration;

pub use balance::{Choice, Cookie, HashSource, HashedBy, LoadBalancing};
pub use configured::{Configured, Lookups, ProxyProtocolVersion, UpstreamKeepalive};
use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    LbConfig, LbPolicy, LeastRequestLbConfig, RoundRobinLbConfig, SlowStartConfig,
};
use envoy_types::pb::envoy::config::core::v3::HealthCheck as EnvoyHealthCheck;
use envoy_types::pb::envoy::config::core::v3::RuntimeDouble;
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck, TcpHealthCheck};
use envoy_types::pb::envoy::r#type::v3::{Int64Range, Percent};
use envoy_types::pb::google::protobuf::UInt32Value;
pub use health::{Breakers, Checked, Outliers, Question};
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
pub use http::{Pings, UpstreamHttp, UpstreamHttp1, UpstreamHttp2};
pub use identity::ClientIdentity;
use prost::Message;
pub use tls::{CertificateValidation, SubjectAltName, Trust, UpstreamTls, UpstreamTlsParameters};

use crate::encode::duration;
use crate::model::BackendProtocol;

/// All settings of a backend that its Service and protocol do not determine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    /// The load balancing policy.
    pub balance: Balance,
    /// Slow start of new endpoints.
    pub slow_start: Option<SlowStartSettings>,
    /// Active health checks of endpoints.
    pub health: Option<ActiveHealthCheck>,
    /// TLS towards the backend.
    pub tls: Option<UpstreamTls>,
    /// Idle timeout of connections.
    pub idle: Option<Duration>,
    /// Settings of policies, which supplement and override the others.
    pub configured: Option<Box<Configured>>,
}

/// An [`Upstream`] that is not the default, with the label of its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuned {
    /// The settings.
    pub upstream: Upstream,
    label: Arc<str>,
}

/// The load balancing policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Balance {
    /// One endpoint after the other.
    #[default]
    RoundRobin,
    /// The less busy of two random endpoints.
    LeastRequest,
    /// A random endpoint.
    Random,
    /// The endpoint that the hash of the request selects.
    RingHash,
}

/// Slow start of new endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlowStartSettings {
    /// Duration of the slow start.
    pub window: Duration,
    /// Growth rate of the endpoint's weight, in thousandths.
    pub aggression: u32,
    /// The initial weight in percent.
    pub min_weight: u32,
}

/// Active health checks of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActiveHealthCheck {
    /// The HTTP request of a check; where unset, a TCP connection is enough.
    pub request: Option<HttpHealthRequest>,
    /// Interval between two checks.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Number of failures after which an endpoint gets no requests.
    pub unhealthy: u32,
    /// Number of successes after which an endpoint gets requests again.
    pub healthy: u32,
}

/// The HTTP request of a health check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpHealthRequest {
    /// The path.
    pub path: Arc<str>,
    /// The host.
    pub host: Arc<str>,
    /// Statuses that count as success, as half-open ranges; 200 where empty.
    pub expected: Vec<(u16, u16)>,
}

impl Upstream {
    /// Returns the settings with their label; `None` where all are default.
    pub fn tuned(self) -> Option<Arc<Tuned>> {
        if self == Self::default() {
            return None;
        }
        let mut cluster = envoy::Cluster::default();
        self.apply(&mut cluster);
        let mut bytes = cluster.encode_to_vec();
        bytes.extend(self.idle.unwrap_or_default().as_nanos().to_be_bytes());
        if let Some(configured) = &self.configured {
            for options in
                [BackendProtocol::Http1, BackendProtocol::H2c].map(|protocol| self.protocol_options(protocol))
            {
                bytes.extend(options.map(|options| options.value).unwrap_or_default());
            }
            // Other policies make another cluster, even where their settings are equal.
            configured.origins.iter().for_each(|key| bytes.extend(key.to_string().bytes().chain([0])));
            // `apply` does not write the DNS lookup settings: they depend on the cluster's type.
            bytes.extend(configured.lookups.as_ref().map_or_else(|| "None".into(), Lookups::identity).bytes());
        }
        let label: String = Version::of(&bytes).to_string().chars().take(16).collect();
        Some(Arc::new(Tuned { upstream: self, label: label.into() }))
    }

    /// Returns the settings for HTTP/2, for those that depend on the protocol.
    pub fn over_h2(mut self) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.h2 = true;
        }
        if let Some(health) = self.configured.as_mut().and_then(|configured| configured.health.as_mut()) {
            health.h2 = true;
        }
        self
    }

    /// Returns the objects that the settings come from.
    pub fn origins(&self) -> impl Iterator<Item = &ObjectKey> {
        let policies = self.configured.iter().flat_map(|configured| &configured.origins);
        policies.chain(self.tls.iter().flat_map(UpstreamTls::origins))
    }

    /// Writes the DNS lookup settings into a cluster; its discovery type must already be set.
    pub fn look_up(&self, cluster: &mut envoy::Cluster) {
        if let Some(lookups) = self.configured.as_ref().and_then(|configured| configured.lookups.as_ref()) {
            lookups.apply(cluster);
        }
    }

    /// Writes the settings into a cluster, except the idle timeout, which is a protocol option.
    pub fn apply(&self, cluster: &mut envoy::Cluster) {
        self.apply_as(&ClientIdentity::Anonymous, cluster);
    }

    /// Writes the settings into a cluster of a Gateway, except the idle timeout.
    pub fn apply_as(&self, identity: &ClientIdentity, cluster: &mut envoy::Cluster) {
        let slow_start = self.slow_start.as_ref().map(SlowStartSettings::encode);
        let (policy, config) = match self.balance {
            Balance::RoundRobin => {
                let config = slow_start.map(|config| RoundRobinLbConfig { slow_start_config: Some(config) });
                (LbPolicy::RoundRobin, config.map(LbConfig::RoundRobinLbConfig))
            }
            Balance::LeastRequest => {
                let config = slow_start
                    .map(|config| LeastRequestLbConfig { slow_start_config: Some(config), ..Default::default() });
                (LbPolicy::LeastRequest, config.map(LbConfig::LeastRequestLbConfig))
            }
            Balance::Random => (LbPolicy::Random, None),
            Balance::RingHash => (LbPolicy::RingHash, None),
        };
        cluster.lb_policy = policy.into();
        cluster.lb_config = config;
        cluster.health_checks = self.health.iter().map(ActiveHealthCheck::encode).collect();
        cluster.transport_socket = self.tls.as_ref().map(|tls| tls.encode(identity));
        if let Some(configured) = &self.configured {
            configured.apply(cluster);
        }
    }
}

impl Tuned {
    /// Returns the label that distinguishes the cluster from others of the same Service.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl SlowStartSettings {
    fn encode(&self) -> SlowStartConfig {
        SlowStartConfig {
            slow_start_window: Some(duration(self.window)),
            aggression: Some(RuntimeDouble {
                default_value: f64::from(self.aggression) / 1000.0,
                runtime_key: "holdfast.slow_start.aggression".into(),
            }),
            min_weight_percent: Some(Percent { value: f64::from(self.min_weight) }),
        }
    }
}

impl ActiveHealthCheck {
    fn encode(&self) -> EnvoyHealthCheck {
        let count = |value: u32| Some(UInt32Value { value });
        let checker = match &self.request {
            Some(request) => HealthChecker::HttpHealthCheck(request.encode()),
            None => HealthChecker::TcpHealthCheck(TcpHealthCheck::default()),
        };
        EnvoyHealthCheck {
            timeout: Some(duration(self.timeout)),
            interval: Some(duration(self.interval)),
            unhealthy_threshold: count(self.unhealthy),
            healthy_threshold: count(self.healthy),
            health_checker: Some(checker),
            ..Default::default()
        }
    }
}

impl HttpHealthRequest {
    fn encode(&self) -> HttpHealthCheck {
        let range = |(start, end): &(u16, u16)| Int64Range { start: i64::from(*start), end: i64::from(*end) };
        HttpHealthCheck {
            host: self.host.to_string(),
            path: self.path.to_string(),
            expected_statuses: self.expected.iter().map(range).collect(),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn whatever_differs_gives_another_label() {
        let tls = |names: &[&str], namespace: &str| {
            let validation = CertificateValidation {
                trust: Trust::Bundle {
                    from: vec![ObjectKey::new("", "Secret", namespace, "ca")],
                    authorities: namespace.as_bytes().into(),
                },
                names: names.iter().map(|name| SubjectAltName::Dns(Arc::from(*name))).collect(),
            };
            UpstreamTls { validation: Some(validation), ..UpstreamTls::default() }
        };
        let connects = ActiveHealthCheck {
            request: None,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            unhealthy: 3,
            healthy: 2,
        };
        let health = |host: &str, expected| {
            let request = HttpHealthRequest { path: "/".into(), host: host.into(), expected };
            ActiveHealthCheck { request: Some(request), ..connects.clone() }
        };
        let all = [
            Upstream { balance: Balance::Random, ..Upstream::default() },
            Upstream { balance: Balance::RingHash, ..Upstream::default() },
            Upstream { idle: Some(Duration::from_secs(1)), ..Upstream::default() },
            Upstream { idle: Some(Duration::ZERO), ..Upstream::default() },
            Upstream { tls: Some(UpstreamTls::default()), ..Upstream::default() },
            Upstream { tls: Some(tls(&["a"], "one")), ..Upstream::default() },
            Upstream { tls: Some(tls(&["a"], "two")), ..Upstream::default() },
            Upstream { tls: Some(tls(&["a", "b"], "one")), ..Upstream::default() },
            Upstream { health: Some(connects.clone()), ..Upstream::default() },
            Upstream { health: Some(health("a", vec![])), ..Upstream::default() },
            Upstream { health: Some(health("b", vec![])), ..Upstream::default() },
            Upstream { health: Some(health("a", vec![(200, 300)])), ..Upstream::default() },
        ];
        let labels: HashMap<String, &Upstream> =
            all.iter().filter_map(|one| Some((one.clone().tuned()?.label().to_owned(), one))).collect();
        assert_eq!(labels.len(), all.len());
        assert_eq!(Upstream::default().tuned(), None);
    }
}
