//! Stages of a rollout: where the wanted configuration is on its way to the Envoys.

use std::sync::Arc;

use holdfast_xds::{ResourceType, Version};

use super::{STRIKES_MAX, Waiting};

/// The stage of the wanted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All Envoys are offered the configuration.
    Settled,
    /// The configuration is on the probe.
    Probing {
        /// The time at which the probe counts as silent, in milliseconds of Unix time.
        until_ms: u64,
    },
    /// The configuration waits for the leader.
    Following,
    /// One Envoy is offered the configuration.
    Canary {
        /// The node of the Envoy.
        node: Arc<str>,
        /// The resources that the Envoy has not answered yet.
        waiting: Waiting,
        /// The number of losses of an Envoy on this configuration.
        strikes: u32,
        /// Whether the Envoy has lost its configuration. In that case it is first offered the proven one.
        empty: bool,
        /// The start of the offer, in milliseconds of Unix time.
        began_ms: u64,
        /// The time at which the Envoy counts as silent, in milliseconds of Unix time.
        deadline: u64,
    },
}

impl Stage {
    /// Records an answer of the canary; returns true if the canary has now answered for all resources.
    pub(crate) fn canary_acknowledged(
        &mut self,
        node: &str,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
    ) -> bool {
        let Stage::Canary { node: canary, waiting, .. } = self else { return false };
        let slot = (kind, name.clone());
        if **canary == *node && waiting.get(&slot) == Some(&version) {
            waiting.remove(&slot);
        }
        waiting.is_empty()
    }

    /// Records the connection of the canary, with or without its earlier configuration. A canary that accepts a route
    /// configuration has the proven configuration as well.
    pub(crate) fn canary_connected(&mut self, envoy: &str, resumes: bool) {
        if let Stage::Canary { node, empty, .. } = self
            && **node == *envoy
        {
            *empty = !resumes;
        }
    }

    /// Records the loss of an Envoy: its stream ended, or it did not answer in time. Two losses on the same content,
    /// while another Envoy answers, count as a refusal without a message. After a silence, the second loss is that of
    /// another Envoy.
    pub(crate) fn canary_lost(&mut self, node: &str, others_answer: bool) -> bool {
        let Stage::Canary { node: canary, strikes, waiting, .. } = self else { return false };
        if **canary != *node || waiting.is_empty() {
            return false;
        }
        *strikes += 1;
        others_answer && *strikes >= STRIKES_MAX
    }

    /// Checks whether the Envoy that tries new content has reached the limit of losses.
    pub(crate) fn has_struck_out(&self, node: &str) -> bool {
        matches!(self, Stage::Canary { node: canary, strikes, .. } if **canary == *node && *strikes >= STRIKES_MAX)
    }

    /// Checks whether the configuration is on the probe.
    pub(crate) fn is_on_probe(&self) -> bool {
        matches!(self, Stage::Probing { .. })
    }
}
