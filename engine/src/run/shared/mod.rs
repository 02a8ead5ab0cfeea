//! What several replicas share: through a bucket that all of them reach, written by the one that leads.
//!
//! [`Sharing`] is what one replica does in one turn; [`folder`] a bucket that is a folder of files, for replicas on one
//! host; [`task`] takes turns for as long as the product runs. Who leads is asked of somebody else, and what is proven
//! and refused is decided by the engine alone.

pub mod folder;
pub mod sharing;
pub mod task;

pub use sharing::{Begun, Said, Sharing, Turn};
