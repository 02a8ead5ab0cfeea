//! Load balancing by policy, and the parts of a request that consistent hashing uses.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::common_lb_config::ConsistentHashingLbConfig;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    CommonLbConfig, LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig, RoundRobinLbConfig,
};
use envoy_types::pb::envoy::config::route::v3::route_action::HashPolicy;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie as EnvoyCookie, CookieAttribute, Header, PolicySpecifier,
};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::{UInt32Value, UInt64Value};

use super::SlowStartSettings;
use crate::encode::duration;

/// Load balancing settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadBalancing {
    /// The load balancing policy.
    pub choice: Choice,
    /// The panic threshold: below this share of healthy endpoints (percent), Envoy ignores health.
    pub panic: Option<u32>,
    /// The time window in which endpoint changes are merged.
    pub gathered: Option<Duration>,
    /// Whether connections are closed when the set of endpoints changes.
    pub close: bool,
}

/// The load balancing policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// One endpoint after the other.
    RoundRobin(Option<SlowStartSettings>),
    /// The least busy of the given number of random endpoints.
    LeastRequest(u32, Option<SlowStartSettings>),
    /// A random endpoint.
    Random,
    /// The endpoint that the hash of the request selects from a ring.
    RingHash {
        /// The minimum and maximum size of the ring.
        sizes: (Option<u64>, Option<u64>),
        /// Whether the hash of an endpoint is that of its host name.
        by_name: bool,
        /// The hash policy.
        hashed: Vec<HashedBy>,
    },
    /// The endpoint that the hash of the request selects from a Maglev table.
    Maglev {
        /// Whether the hash of an endpoint is that of its host name.
        by_name: bool,
        /// The hash policy.
        hashed: Vec<HashedBy>,
    },
}

/// One entry of a hash policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashedBy {
    /// Whether later entries are skipped once this one has produced a hash.
    pub terminal: bool,
    /// The hashed part of the request.
    pub part: HashSource,
}

/// The hashed part of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashSource {
    /// A header.
    Header(Arc<str>),
    /// The client's address.
    Address,
    /// A cookie.
    Cookie(Cookie),
}

/// A hashed cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie {
    /// The name.
    pub name: Arc<str>,
    /// The path.
    pub path: Arc<str>,
    /// The lifetime; where unset, Envoy sets no cookie.
    pub ttl: Option<Duration>,
    /// Whether the cookie is sent over TLS only.
    pub secure: bool,
    /// Whether scripts cannot read the cookie.
    pub http_only: bool,
    /// The `SameSite` attribute: `Strict`, `Lax` or `None`.
    pub same_site: Option<Arc<str>>,
}

impl LoadBalancing {
    pub(super) fn apply(&self, cluster: &mut envoy::Cluster) {
        let (policy, config) = match &self.choice {
            Choice::RoundRobin(slow_start) => {
                let config =
                    slow_start.as_ref().map(|slow| RoundRobinLbConfig { slow_start_config: Some(slow.encode()) });
                (LbPolicy::RoundRobin, config.map(LbConfig::RoundRobinLbConfig))
            }
            Choice::LeastRequest(count, slow_start) => {
                let config = LeastRequestLbConfig {
                    choice_count: Some(UInt32Value { value: *count }),
                    slow_start_config: slow_start.as_ref().map(SlowStartSettings::encode),
                    ..Default::default()
                };
                (LbPolicy::LeastRequest, Some(LbConfig::LeastRequestLbConfig(config)))
            }
            Choice::Random => (LbPolicy::Random, None),
            Choice::RingHash { sizes, .. } => {
                let size = |size: Option<u64>| size.map(|value| UInt64Value { value });
                let config = RingHashLbConfig {
                    minimum_ring_size: size(sizes.0),
                    maximum_ring_size: size(sizes.1),
                    ..Default::default()
                };
                (LbPolicy::RingHash, Some(LbConfig::RingHashLbConfig(config)))
            }
            Choice::Maglev { .. } => (LbPolicy::Maglev, Some(LbConfig::MaglevLbConfig(MaglevLbConfig::default()))),
        };
        cluster.lb_policy = policy.into();
        cluster.lb_config = config;
        let by_name = match &self.choice {
            Choice::RingHash { by_name, .. } | Choice::Maglev { by_name, .. } => *by_name,
            Choice::RoundRobin(_) | Choice::LeastRequest(..) | Choice::Random => false,
        };
        let common = CommonLbConfig {
            healthy_panic_threshold: self.panic.map(|percent| Percent { value: f64::from(percent) }),
            update_merge_window: self.gathered.map(duration),
            close_connections_on_host_set_change: self.close,
            consistent_hashing_lb_config: by_name
                .then(|| ConsistentHashingLbConfig { use_hostname_for_hashing: true, ..Default::default() }),
            ..Default::default()
        };
        cluster.common_lb_config = (common != CommonLbConfig::default()).then_some(common);
    }

    /// Returns the hash policy.
    pub(super) fn hashed(&self) -> Vec<HashPolicy> {
        match &self.choice {
            Choice::RingHash { hashed, .. } | Choice::Maglev { hashed, .. } => {
                hashed.iter().map(HashedBy::encode).collect()
            }
            Choice::RoundRobin(_) | Choice::LeastRequest(..) | Choice::Random => Vec::new(),
        }
    }
}

impl HashedBy {
    fn encode(&self) -> HashPolicy {
        let part = match &self.part {
            HashSource::Header(name) => {
                PolicySpecifier::Header(Header { header_name: name.to_string(), ..Default::default() })
            }
            HashSource::Address => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
            HashSource::Cookie(cookie) => PolicySpecifier::Cookie(cookie.encode()),
        };
        HashPolicy { terminal: self.terminal, policy_specifier: Some(part) }
    }
}

impl Cookie {
    fn encode(&self) -> EnvoyCookie {
        let flag =
            |is_set: bool, name: &str| is_set.then(|| CookieAttribute { name: name.into(), ..Default::default() });
        let same_site = self.same_site.as_ref();
        let same_site = same_site.map(|value| CookieAttribute { name: "SameSite".into(), value: value.to_string() });
        let attributes = [flag(self.secure, "Secure"), flag(self.http_only, "HttpOnly"), same_site];
        EnvoyCookie {
            name: self.name.to_string(),
            ttl: self.ttl.map(duration),
            path: self.path.to_string(),
            attributes: attributes.into_iter().flatten().collect(),
        }
    }
}
