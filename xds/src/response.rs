//! Responses before they are written: the resources, by pointer.

use std::sync::Arc;

use crate::{Resource, ResourceType};

/// A response to send.
#[derive(Clone, Debug)]
pub struct Response {
    /// The type of its resources.
    pub kind: ResourceType,
    /// Whether the resources are virtual hosts of a route configuration, not route configurations (VHDS).
    pub are_hosts: bool,
    /// Number of the response on its stream; the nonce is this number in decimal digits.
    pub nonce: u64,
    /// The resources, shared with every other client to which they are sent.
    pub resources: Vec<Arc<Resource>>,
    /// The fields that differ between the two variants of the protocol.
    pub form: Form,
}

/// The fields that differ between the two variants of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Incremental.
    Delta {
        /// `removed_resources`.
        removed: Vec<Arc<str>>,
    },
    /// State of the world.
    Sotw {
        /// `version_info`: the version that the client has of this type after it accepts the response.
        version: String,
    },
}

/// The type URL of virtual hosts.
pub(crate) const VIRTUAL_HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

impl Response {
    /// Returns the type URL of the resources.
    pub fn url(&self) -> &'static str {
        if self.are_hosts { VIRTUAL_HOST } else { self.kind.url() }
    }

    /// Returns the number of removed names.
    pub fn removals(&self) -> usize {
        match &self.form {
            Form::Delta { removed } => removed.len(),
            Form::Sotw { .. } => 0,
        }
    }
}
