//! Speaks xDS: what each fleet of Envoys should have, what each Envoy was sent, and what it answered.
//!
//! The protocol is a state machine without I/O; `server.rs` alone is tonic around it.
//! This crate names no Kubernetes kind and decides nothing about blame: it carries origins along and reports answers.

pub mod answer;
pub mod resource;
pub mod snapshot;

pub use answer::{Answer, Outcome};
pub use resource::{Resource, ResourceType, Version};
pub use snapshot::Snapshot;
