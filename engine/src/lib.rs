//! Decides: Kubernetes objects in, Envoy configuration out, and what to do when it is refused.
//!
//! A compiler that must never fail: broken input is a normal case, every object that is not served as written has a
//! [`fault::Fault`] that says so. Only `run` does I/O, reads clocks and is asynchronous.

// What a policy says (`translate/policy/said.rs`) stands in sets; what is made of it when first asked decides no order.
#![allow(clippy::mutable_key_type)]

pub mod apis;
pub mod check;
mod encode;
pub mod engine;
pub mod fallback;
pub mod fault;
pub mod features;
pub mod health;
pub mod hold;
pub mod identity;
pub mod leadership;
pub mod model;
pub mod object;
pub(crate) mod policies;
pub mod provision;
mod proxies;
pub mod refusal;
pub mod report;
pub mod run;
pub mod settings;
pub mod snapshot;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
mod translate;
pub mod trial;
pub mod watching;
