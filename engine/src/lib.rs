//! Engine: translates Kubernetes objects to Envoy configuration, and decides what to serve when Envoy rejects it.
//!
//! The engine works like a compiler that must not fail: broken input is a normal case, and every object that is not
//! served as written has a [`fault::Fault`] with the reason. Only `run` does I/O, reads clocks and is asynchronous.

// Policy contents (`translate/policy/setting.rs`) are keys of sets; values that they compute on first use do not affect
// their order.
#![allow(clippy::mutable_key_type)]

pub mod apis;
pub mod check;
mod encode;
pub mod engine;
pub mod event;
pub mod fallback;
pub mod fault;
pub mod features;
pub mod health;
pub mod hold;
pub mod identity;
pub mod leadership;
pub mod ledger;
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
pub mod watch_problem;
pub mod watching;
