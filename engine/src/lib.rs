//! Decides: Kubernetes objects in, Envoy configuration out, and what to do when it is refused.
//!
//! A compiler that must never fail: broken input is a normal case, every object that is not served as written has a
//! [`fault::Fault`] that says so. Only `run` does I/O, reads clocks and is asynchronous.

pub mod engine;
pub mod object;
pub mod apis;
pub mod run;
pub mod snapshot;
pub mod settings;
pub mod fault;
pub mod check;
pub mod model;
pub mod features;
mod encode;
mod translate;
