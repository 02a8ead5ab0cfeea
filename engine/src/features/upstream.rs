//! How a back end is spoken to, beside the protocol: which endpoint is chosen, how its health is known, TLS.
//!
//! Two uses of one Service that differ in any of this are two clusters; the label that tells them apart is made of all
//! of it.

mod balance;
mod configured;
mod health;
mod http;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    LbConfig, LbPolicy, LeastRequestLbConfig, RoundRobinLbConfig, SlowStartConfig,
};
use envoy_types::pb::envoy::config::core::v3::HealthCheck as EnvoyHealthCheck;
use envoy_types::pb::envoy::config::core::v3::RuntimeDouble;
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck, TcpHealthCheck};
use envoy_types::pb::envoy::r#type::v3::{Int64Range, Percent};
use envoy_types::pb::google::protobuf::UInt32Value;
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
use prost::Message;

use crate::encode::duration;
use crate::model::Protocol;

pub use balance::{Choice, Cookie, HashedBy, HashedPart, LoadBalancer};
pub use configured::{Configured, Keepalive, Lookups, ProxyProtocol};
pub use health::{Breakers, Checked, Outliers, Question};
pub use http::{CommonHttp, Http1, Http2, Pings};
pub use tls::{AltName, Parameters, Trust, UpstreamTls, Validation};

/// Everything about a back end that is not said by its Service and protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    /// Which endpoint gets a request.
    pub balance: Balance,
    /// How new endpoints are spared.
    pub slow_start: Option<SlowStart>,
    /// How endpoints are checked.
    pub health: Option<HealthCheck>,
    /// TLS towards the back end.
    pub tls: Option<UpstreamTls>,
    /// How long a connection may be idle.
    pub idle: Option<Duration>,
    /// What policies say beside it, and before it.
    pub configured: Option<Box<Configured>>,
}

/// An [`Upstream`] that is not the default, with what tells its cluster from others of the Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuned {
    /// What it says.
    pub upstream: Upstream,
    label: Arc<str>,
}

/// Which endpoint gets a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The less busy of two.
    LeastRequest,
    /// Any.
    Random,
    /// The one that the hash of the request says.
    RingHash,
}

/// How new endpoints are spared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlowStart {
    /// For how long.
    pub window: Duration,
    /// How fast their share grows, in thousandths.
    pub aggression: u32,
    /// The percentage to begin with.
    pub min_weight: u32,
}

/// How endpoints are checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HealthCheck {
    /// What they are asked over HTTP; where unset it is enough that they take connections.
    pub asked: Option<Asked>,
    /// Time between two checks.
    pub interval: Duration,
    /// Time that an answer may take.
    pub timeout: Duration,
    /// Failures after which an endpoint gets no requests.
    pub unhealthy: u32,
    /// Successes after which it gets requests again.
    pub healthy: u32,
}

/// What endpoints are asked over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    /// The path that is asked for.
    pub path: Arc<str>,
    /// The host that is asked for.
    pub host: Arc<str>,
    /// Statuses that are successes, from one to before another; 200 where empty.
    pub expected: Vec<(u16, u16)>,
}

impl Upstream {
    /// Nothing where all is as usual.
    pub fn tuned(self) -> Option<Arc<Tuned>> {
        if self == Self::default() {
            return None;
        }
        let mut cluster = envoy::Cluster::default();
        self.apply(&mut cluster);
        let mut bytes = cluster.encode_to_vec();
        bytes.extend(self.idle.unwrap_or_default().as_nanos().to_be_bytes());
        if let Some(configured) = &self.configured {
            for options in [Protocol::Http1, Protocol::H2c].map(|protocol| self.protocol_options(protocol)) {
                bytes.extend(options.map(|options| options.value).unwrap_or_default());
            }
            // What comes of other policies is another cluster, also where it is the same.
            configured.origins.iter().for_each(|key| bytes.extend(key.to_string().bytes().chain([0])));
            // A matter of the cluster's place, or of its kind.
            bytes.extend(format!("{:?}", configured.lookups).bytes());
        }
        let label: String = Version::of(&bytes).to_string().chars().take(16).collect();
        Some(Arc::new(Tuned { upstream: self, label: label.into() }))
    }

    /// The same for HTTP/2, where it depends on that.
    pub fn over_h2(mut self) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.h2 = true;
        }
        if let Some(health) = self.configured.as_mut().and_then(|configured| configured.health.as_mut()) {
            health.h2 = true;
        }
        self
    }

    /// The objects that it comes from.
    pub fn origins(&self) -> impl Iterator<Item = &ObjectKey> {
        let policies = self.configured.iter().flat_map(|configured| &configured.origins);
        policies.chain(self.tls.iter().flat_map(UpstreamTls::origins))
    }

    /// Writes into a cluster of which it is known where its hosts are how their names are looked up.
    pub(crate) fn look_up(&self, cluster: &mut envoy::Cluster) {
        if let Some(lookups) = self.configured.as_ref().and_then(|configured| configured.lookups.as_ref()) {
            lookups.apply(cluster);
        }
    }

    /// Writes it into a cluster; idle connections are a matter of the protocol.
    pub(crate) fn apply(&self, cluster: &mut envoy::Cluster) {
        let slow_start = self.slow_start.as_ref().map(SlowStart::encode);
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
        cluster.health_checks = self.health.iter().map(HealthCheck::encode).collect();
        cluster.transport_socket = self.tls.as_ref().map(UpstreamTls::encode);
        if let Some(configured) = &self.configured {
            configured.apply(cluster);
        }
    }
}

impl Tuned {
    /// Tells its cluster from others of the Service.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl SlowStart {
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

impl HealthCheck {
    fn encode(&self) -> EnvoyHealthCheck {
        let count = |value: u32| Some(UInt32Value { value });
        let checker = match &self.asked {
            Some(asked) => HealthChecker::HttpHealthCheck(asked.encode()),
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

impl Asked {
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
            let validation = Validation {
                trust: Trust::Bundle {
                    from: vec![ObjectKey::new("", "Secret", namespace, "ca")],
                    authorities: namespace.as_bytes().into(),
                },
                names: names.iter().map(|name| AltName::Dns(Arc::from(*name))).collect(),
            };
            UpstreamTls { validation: Some(validation), ..UpstreamTls::default() }
        };
        let connects = HealthCheck {
            asked: None,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            unhealthy: 3,
            healthy: 2,
        };
        let health = |host: &str, expected| {
            let asked = Asked { path: "/".into(), host: host.into(), expected };
            HealthCheck { asked: Some(asked), ..connects.clone() }
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
