//! The Envoys of a Gateway, and whether they have what is published.

use std::fmt;
use std::sync::Arc;

use holdfast_fallback::view::{GatewayState, ServedState};
use serde::Serialize;

/// The Envoys of a Gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayEnvoys {
    /// The state of the configuration that they are served.
    pub(crate) state: ServedState,
    /// Envoys that acknowledged their whole configuration.
    pub(crate) acknowledged: usize,
    /// Envoys that refused a part of it.
    pub(crate) refused: usize,
    /// Envoys that have not answered for all of it.
    pub(crate) pending: usize,
    /// Nodes that keep their previous configuration.
    pub(crate) keep_previous: Vec<Arc<str>>,
}

impl GatewayEnvoys {
    pub(crate) fn new(gateway: &GatewayState) -> Self {
        let GatewayState { state, envoys, held_envoys, .. } = gateway;
        Self {
            state: *state,
            acknowledged: envoys.acknowledged,
            refused: envoys.refused,
            pending: envoys.pending,
            keep_previous: held_envoys.keys().cloned().collect(),
        }
    }

    /// Returns whether every connected Envoy has acknowledged what is published now.
    pub(crate) fn all_have_it(&self) -> bool {
        let is_final = matches!(self.state, ServedState::Current | ServedState::Fallback);
        is_final && self.acknowledged > 0 && self.refused + self.pending == 0 && self.keep_previous.is_empty()
    }
}

/// Writes the numbers of Envoys, and the state if it is not current.
impl fmt::Display for GatewayEnvoys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, acknowledged, refused, pending, .. } = self;
        let state = match state {
            ServedState::Current | ServedState::Partial => "",
            ServedState::Fallback => "; the Gateway is in a fallback",
            ServedState::Trying => "; new content is tried on one Envoy first",
            ServedState::Probing => "; new content is tried on the probe first",
            ServedState::Following => "; new content waits for the leader",
            ServedState::Unverified => "; this is the stored configuration of an earlier run",
            ServedState::Held => "; the last acknowledged configuration is held, as a whole or in part",
        };
        if acknowledged + refused + pending == 0 {
            return write!(f, "no Envoy is connected{state}");
        }
        write!(f, "{acknowledged} acknowledged this configuration, {refused} refused a part, {pending} pending{state}")
    }
}
