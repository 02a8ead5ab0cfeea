//! Load balancing fields of BackendConfigPolicies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Disable;

/// Load balancing between endpoints: one of the first five fields, and common settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Least request.
    pub least_request: Option<LeastRequest>,
    /// Round robin.
    pub round_robin: Option<RoundRobin>,
    /// Ring hash.
    pub ring_hash: Option<RingHash>,
    /// Maglev.
    pub maglev: Option<Maglev>,
    /// Random.
    pub random: Option<Disable>,
    /// Percentage of healthy endpoints below which Envoy ignores health.
    pub healthy_panic_threshold: Option<i64>,
    /// Time for which changes of endpoints are merged into one update.
    pub update_merge_window: Option<Arc<str>>,
    /// `WeightedLb`.
    pub locality_type: Option<Arc<str>>,
    /// Preference for endpoints in the zone of the Envoy.
    pub zone_aware: Option<ZoneAware>,
    /// Whether connections are closed when the set of endpoints changes.
    pub close_connections_on_host_set_change: Option<bool>,
}

/// Preference for endpoints in the zone of the Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAware {
    /// Degree of the preference.
    pub prefer_local: Option<PreferLocal>,
}

/// Degree of the preference for endpoints in the zone of the Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferLocal {
    /// Use of local endpoints only, as long as there are enough of them.
    pub force: Option<Force>,
    /// Minimum number of endpoints.
    pub min_endpoints_threshold: Option<i64>,
    /// Percentage of requests that prefer local endpoints.
    pub routing_enabled: Option<i64>,
}

/// Use of endpoints in the zone of the Envoy only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Force {
    /// Number of endpoints in the zone that is enough.
    pub min_endpoints_in_zone_threshold: Option<i64>,
}

/// Least request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeastRequest {
    /// Number of endpoints that are compared.
    pub choice_count: Option<i64>,
    /// Slow start of new endpoints.
    pub slow_start: Option<SlowStart>,
}

/// Round robin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundRobin {
    /// Slow start of new endpoints.
    pub slow_start: Option<SlowStart>,
}

/// Slow start of new endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowStart {
    /// Rate at which the share of a new endpoint grows.
    pub aggression: Option<Arc<str>>,
    /// Initial share in percent.
    pub min_weight_percent: Option<i64>,
    /// Duration of the slow start.
    pub window: Option<Arc<str>>,
}

/// Ring hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RingHash {
    /// Parts of a request that are hashed.
    pub hash_policies: Option<Vec<HashPolicy>>,
    /// Maximum size of the ring.
    pub maximum_ring_size: Option<i64>,
    /// Minimum size of the ring.
    pub minimum_ring_size: Option<i64>,
    /// Whether endpoints are hashed by their host names.
    pub use_hostname_for_hashing: Option<bool>,
}

/// Maglev.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Maglev {
    /// Parts of a request that are hashed.
    pub hash_policies: Option<Vec<HashPolicy>>,
    /// Whether endpoints are hashed by their host names.
    pub use_hostname_for_hashing: Option<bool>,
}

/// A part of a request that is hashed: one of the first three fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashPolicy {
    /// A header.
    pub header: Option<HashedHeader>,
    /// A cookie.
    pub cookie: Option<HashedCookie>,
    /// The address of the client.
    #[serde(rename = "sourceIP")]
    pub source_ip: Option<Disable>,
    /// Whether the policies after this one are skipped when this one gives a hash.
    pub terminal: Option<bool>,
}

/// A header that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashedHeader {
    /// Name.
    pub name: Arc<str>,
}

/// A cookie that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashedCookie {
    /// Name.
    pub name: Arc<str>,
    /// Path.
    pub path: Option<Arc<str>>,
    /// Lifetime.
    pub ttl: Option<Arc<str>>,
    /// Whether the cookie is for secure connections only.
    pub secure: Option<bool>,
    /// Whether the cookie is hidden from scripts.
    pub http_only: Option<bool>,
    /// `Strict`, `Lax` or `None`.
    pub same_site: Option<Arc<str>>,
}
