//! Relations between objects: identity, origins, the objects that a failure affects, and the plan for broken objects.
//!
//! This is the lowest crate: every other crate may use it, it uses none of them. It names no Kubernetes kind, does no
//! I/O, reads no clock and does not depend on Envoy.

pub mod affected;
mod causes;
mod closing;
pub mod graph;
mod hold_down;
pub mod key;
pub mod origins;
pub mod plan;
pub mod quarantine;
pub mod render;
pub mod role;
pub mod sorted;
mod text;
pub mod verdict;
mod versions;
pub mod visits;
pub mod world;

pub use affected::Affected;
pub use graph::{Edge, Graph, Node};
pub use key::ObjectKey;
pub use origins::Origins;
pub use plan::{Decision, Plan, Step};
pub use quarantine::Quarantine;
pub use role::Role;
pub use sorted::SortedSet;
pub use verdict::{Content, Detected, Verdict};
pub use visits::Visits;
pub use world::{Gates, World};
