//! Answers of Envoys to responses.

use std::sync::Arc;

use crate::{ResourceType, Version};

/// Answer of an Envoy to resources that were sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The fleet of the Envoy, `namespace/name` of its Gateway.
    pub fleet: Arc<str>,
    /// The `node.id` of the Envoy.
    pub node: Arc<str>,
    /// The build of the Envoy, as in [`EnvoyId`](crate::EnvoyId).
    pub build: Arc<str>,
    /// The type of the resources.
    pub kind: ResourceType,
    /// Whether the Envoy accepted the resources.
    pub outcome: Outcome,
    /// The answered resources, by name; no version means that the response removed the resource.
    ///
    /// For a state-of-the-world response, these are the resources that were new to this Envoy.
    pub resources: Vec<(Arc<str>, Option<Version>)>,
}

/// Whether an Envoy accepted what was sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// ACK.
    Acknowledged,
    /// NACK.
    Refused {
        /// The message of Envoy, scrubbed: no keys, no dumps, no control characters, at most
        /// [`REFUSAL_CHARS_MAX`](crate::limits::REFUSAL_CHARS_MAX) characters. Not stable between processes.
        message: String,
    },
}
