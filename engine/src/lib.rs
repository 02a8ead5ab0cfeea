//! Engine: events in, actions out; and the reports about what is served.
//!
//! The engine works like a compiler that must not fail: broken input is a normal case, and every object that is not
//! served as written has a [`Fault`](holdfast_api::fault::Fault) with the reason. Time is an event: this crate and
//! those below it do no I/O, read no clock and are not asynchronous.

// Contents of policies (`policy/setting.rs` of `translate`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

pub mod engine;
pub mod health;
pub mod identity;
pub mod leadership;
pub mod report;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod watching;
