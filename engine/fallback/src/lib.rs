//! The fallback: attribution of refusals, replacement of broken objects, and recovery.
//!
//! A [`FallbackScope`](scope::FallbackScope) is the state of one scope, the Envoys of one Gateway and build: what they
//! proved, what they refused, and what they are offered. The quarantine is the only memory of refusals; the plan is
//! derived from it each time. Nothing here does I/O or reads a clock: time and answers are input events, and effects are
//! returned as actions.
//!
//! The crate consists of rooms. A room uses only the rooms before it in this order: `context`, `members`, `evidence`,
//! `eligibility`, `plan`, `checker`, `rollout`, `attribution`, `revocation`, `report`, `persistence`, `replication`,
//! `scope`. Each component of a scope is a struct of its room; methods of the scope change several components.

// Contents of policies (`policy/setting.rs` of `translate`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

// Test support names this crate as other crates do.
#[cfg(test)]
extern crate self as holdfast_fallback;

pub mod attribution;
pub mod checker;
pub mod context;
pub mod eligibility;
pub mod evidence;
pub mod members;
pub mod persistence;
pub mod plan;
pub mod replication;
pub mod report;
pub mod revocation;
pub mod rollout;
pub mod scope;
// A part of it is used by tests of other packages only.
#[cfg(test)]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../../tests/support/src/fallback/mod.rs"]
mod testing;

pub use attribution::{readmission, trials};
pub use context::{step_inputs, trial};
pub use evidence::last_valid;
pub use persistence::{restore, restored};
pub use plan::{derive, policies};
pub use report::{served_state, view};
pub use scope::{event, scopes};
