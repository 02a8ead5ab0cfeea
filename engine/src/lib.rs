//! Engine: events in, actions out; and the reports about what is served.
//!
//! The engine works like a compiler that must not fail: broken input is a normal case, and every object that is not
//! served as written has a [`Fault`](holdfast_api::fault::Fault) with the reason. Time is an event: this crate and
//! those below it do no I/O, read no clock and are not asynchronous.

// Contents of policies (`policy/setting.rs` of `translate`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

// Test support names this crate as other crates do.
#[cfg(test)]
extern crate self as holdfast_engine;

pub mod engine;
pub mod health;
pub mod identity;
pub mod report;
pub mod review;
// A part of it is used by tests of other packages only.
#[cfg(test)]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../tests/support/src/engine/mod.rs"]
mod testing;
#[cfg(test)]
mod tests;
