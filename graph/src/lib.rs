//! Relates objects: who they are, what came from whom, and who is affected when one breaks.
//!
//! This is the floor of the house: every other crate may use it, it uses none of them.
//! It names no Kubernetes kind, does no I/O, reads no clock and knows nothing of Envoy.

pub mod graph;
pub mod key;
pub mod origins;
pub mod render;
pub mod role;

pub use graph::{Affected, Edge, Graph, Node};
pub use key::ObjectKey;
pub use origins::Origins;
pub use role::Role;
