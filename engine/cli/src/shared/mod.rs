//! State that several replicas share through a bucket, which the leader writes.
//!
//! [`Sharing`] is one turn of one replica; [`folder`] is a bucket in a folder of files, for replicas on one host;
//! [`task`] runs turns until the product ends. The leader election is outside of this module, and only the engine
//! decides what is proven and refused.

pub mod folder;
pub mod sharing;
pub mod task;

pub use sharing::{Begun, Sharing, Turn, TurnInputs};
