//! The probe: a disposable Envoy of production's build, in which contents are tried before production sees them.
//!
//! It serves nobody: none of its listeners is bound, its admin interface is off, and only this process can reach it.
//! It is told one content at a time in each response, so that each refusal is exactly one content's. What may hang or
//! kill it is tried again alone; trouble of the probe's own never convicts anybody.
//!
//! This room decides nothing about what is served; it answers [`Trial`](crate::trial::Trial)s.

mod batch;
mod beside;
mod course;
pub mod keeping;
mod origin;
mod prober;
mod process;
mod push;
mod rewrite;
mod server;
mod session;
mod setup;
mod view;
mod words;

pub use origin::Origin;
pub use prober::{NotTaken, Prober, ProberOptions};
pub use view::{ProbeState, ProbeView};
