//! Probe: a disposable Envoy of production's build, on which contents are tried before production receives them.
//!
//! The probe serves no traffic: its listeners are not bound, its admin interface is off, and only this process can
//! reach it. Each response contains one content, so that each refusal concerns exactly one content. Contents that may
//! have hung or killed the probe are tried again separately; problems of the probe itself never convict an object.
//!
//! [`envoy`] has what any started Envoy needs, also the managed Envoys of `holdfast run`: the binary, the identity of a
//! process, its record on disk, and its log.
//!
//! This crate decides nothing about what is served; it returns the results of
//! [`Trial`](holdfast_fallback::trial::Trial)s.

mod batch;
mod beside;
mod course;
pub mod envoy;
pub mod folders;
mod origin;
mod prober;
mod process;
mod protocol;
mod push;
mod rewrite;
mod server;
mod session;
mod setup;
pub mod sidecar;
mod view;

pub use origin::Origin;
pub use prober::{NotTaken, Prober, ProberOptions};
pub use view::{ProbeState, ProbeView};
