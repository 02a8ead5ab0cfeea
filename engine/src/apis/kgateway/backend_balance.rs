//! What a BackendConfigPolicy says of how endpoints are chosen.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Disable;

/// How endpoints are chosen: one of the first five, and what else there is to say.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// The least busy of some.
    pub least_request: Option<LeastRequest>,
    /// One after the other.
    pub round_robin: Option<RoundRobin>,
    /// By hash, from a ring.
    pub ring_hash: Option<RingHash>,
    /// By hash, from a table.
    pub maglev: Option<Maglev>,
    /// Any.
    pub random: Option<Disable>,
    /// The share of healthy endpoints below which health is not looked at.
    pub healthy_panic_threshold: Option<i64>,
    /// How long changes are gathered.
    pub update_merge_window: Option<Arc<str>>,
    /// `WeightedLb`.
    pub locality_type: Option<Arc<str>>,
    /// Endpoints of the own zone first.
    pub zone_aware: Option<ZoneAware>,
    /// Are connections closed when endpoints come or go?
    pub close_connections_on_host_set_change: Option<bool>,
}

/// Endpoints of the own zone first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAware {
    /// How much.
    pub prefer_local: Option<PreferLocal>,
}

/// How much endpoints of the own zone are preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferLocal {
    /// As long as there are enough of them, no others.
    pub force: Option<Force>,
    /// How many endpoints there must be.
    pub min_endpoints_threshold: Option<i64>,
    /// For which share of requests.
    pub routing_enabled: Option<i64>,
}

/// No endpoints but those of the own zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Force {
    /// How many are enough.
    pub min_endpoints_in_zone_threshold: Option<i64>,
}

/// The least busy of some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeastRequest {
    /// Of how many.
    pub choice_count: Option<i64>,
    /// How new endpoints are spared.
    pub slow_start: Option<SlowStart>,
}

/// One after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundRobin {
    /// How new endpoints are spared.
    pub slow_start: Option<SlowStart>,
}

/// How new endpoints are spared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowStart {
    /// How fast their share grows.
    pub aggression: Option<Arc<str>>,
    /// The percentage to begin with.
    pub min_weight_percent: Option<i64>,
    /// For how long.
    pub window: Option<Arc<str>>,
}

/// By hash, from a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RingHash {
    /// What is hashed.
    pub hash_policies: Option<Vec<HashPolicy>>,
    /// The largest ring.
    pub maximum_ring_size: Option<i64>,
    /// The smallest ring.
    pub minimum_ring_size: Option<i64>,
    /// Are endpoints hashed by their names?
    pub use_hostname_for_hashing: Option<bool>,
}

/// By hash, from a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Maglev {
    /// What is hashed.
    pub hash_policies: Option<Vec<HashPolicy>>,
    /// Are endpoints hashed by their names?
    pub use_hostname_for_hashing: Option<bool>,
}

/// A part of a request that is hashed: one of the first three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashPolicy {
    /// A header.
    pub header: Option<HashedHeader>,
    /// A cookie.
    pub cookie: Option<HashedCookie>,
    /// The client's address.
    #[serde(rename = "sourceIP")]
    pub source_ip: Option<Disable>,
    /// Is nothing after it looked at?
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
    /// How long it lasts.
    pub ttl: Option<Arc<str>>,
    /// Over TLS only?
    pub secure: Option<bool>,
    /// Hidden from scripts?
    pub http_only: Option<bool>,
    /// `Strict`, `Lax` or `None`.
    pub same_site: Option<Arc<str>>,
}
