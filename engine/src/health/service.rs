//! The state of a Gateway in one word, for a table of Gateways.

use serde::{Deserialize, Serialize};

use super::view::{GatewayHealth, Health, HealthFinding};
use holdfast_fallback::view::ServedState;

/// The state of a Gateway in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GatewayService {
    /// Everything is served as desired.
    Served,
    /// An older version than desired is served at some of the hosts, or not every Envoy has the desired one.
    Degraded,
    /// Clients of some of the hosts get errors, or no connection.
    Outage,
    /// The last acknowledged configuration is held, as a whole or in part.
    Held,
    /// No Envoy serves it.
    NoEnvoy,
}

impl GatewayService {
    /// Returns the state in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Degraded => "degraded",
            Self::Outage => "clients get errors",
            Self::Held => "held",
            Self::NoEnvoy => "no Envoy",
        }
    }

    /// Returns the state of one of the Gateways. Warnings affect no client, and do not count.
    pub fn of(gateway: &GatewayHealth, health: &Health) -> GatewayService {
        let is_here = |finding: &HealthFinding| finding.gateways.contains(&gateway.name);
        let envoys = gateway.envoys.acknowledged + gateway.envoys.refused + gateway.envoys.pending;
        if gateway.listeners > 0 && gateway.connected == 0 && envoys == 0 {
            return GatewayService::NoEnvoy;
        }
        if gateway.state == ServedState::Held {
            return GatewayService::Held;
        }
        let is_current = gateway.state == ServedState::Current && gateway.envoys.refused + gateway.envoys.pending == 0;
        match (health.outages.iter().any(is_here), is_current && !health.degraded.iter().any(is_here)) {
            (true, _) => GatewayService::Outage,
            (false, true) => GatewayService::Served,
            (false, false) => GatewayService::Degraded,
        }
    }
}
