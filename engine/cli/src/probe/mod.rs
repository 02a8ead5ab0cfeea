//! Probe: a disposable Envoy of production's build, on which contents are tried before production receives them.
//!
//! The probe serves no traffic: its listeners are not bound, its admin interface is off, and only this process can
//! reach it. Each response contains one content, so that each refusal concerns exactly one content. Contents that may
//! have hung or killed the probe are tried again separately; problems of the probe itself never convict an object.
//!
//! This module decides nothing about what is served; it returns the results of
//! [`Trial`](holdfast_fallback::trial::Trial)s.

mod batch;
mod beside;
mod course;
mod origin;
mod prober;
pub(crate) mod process;
pub(crate) mod protocol;
mod push;
mod rewrite;
mod server;
mod session;
mod setup;
mod view;

pub use origin::Origin;
pub use prober::{NotTaken, Prober, ProberOptions};
pub use view::{ProbeState, ProbeView};
