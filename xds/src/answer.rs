//! What an Envoy said to a response.

use std::sync::Arc;

use crate::{ResourceType, Version};

/// An Envoy's answer to resources it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The fleet of the Envoy, `namespace/name` of its Gateway.
    pub fleet: Arc<str>,
    /// Its `node.id`.
    pub node: Arc<str>,
    /// Its build, as in [`EnvoyId`](crate::EnvoyId).
    pub build: Arc<str>,
    /// The type of the resources.
    pub kind: ResourceType,
    /// Whether it took them.
    pub outcome: Outcome,
    /// The resources that were answered, by name; no version means that the response removed it.
    ///
    /// Of a state-of-the-world response these are the resources that were new to this Envoy.
    pub resources: Vec<(Arc<str>, Option<Version>)>,
}

/// Whether an Envoy took what it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// ACK.
    Acknowledged,
    /// NACK.
    Refused {
        /// Envoy's own words, scrubbed: no keys, no dumps, no control characters, at most
        /// [`MESSAGE_CHARS_MAX`](crate::limits::MESSAGE_CHARS_MAX) characters. Not stable between processes.
        message: String,
    },
}
