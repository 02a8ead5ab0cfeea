//! A response before it is written: which resources, by pointer.

use std::sync::Arc;

use crate::{Resource, ResourceType};

/// A response to send.
#[derive(Clone, Debug)]
pub struct Response {
    /// The type of its resources.
    pub kind: ResourceType,
    /// Its number on this stream; the nonce is this number in decimal digits.
    pub nonce: u64,
    /// The resources, shared with every other client that is sent them.
    pub resources: Vec<Arc<Resource>>,
    /// What the two variants of the protocol say differently.
    pub form: Form,
}

/// What the two variants of the protocol say differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Incremental.
    Delta {
        /// `removed_resources`.
        removed: Vec<Arc<str>>,
    },
    /// State of the world.
    Sotw {
        /// `version_info`: what the client has of this type when it takes this response.
        version: String,
    },
}

impl Response {
    /// How many names it says are gone.
    pub fn removals(&self) -> usize {
        match &self.form {
            Form::Delta { removed } => removed.len(),
            Form::Sotw { .. } => 0,
        }
    }
}
