//! The fallback: attribution of refusals, replacement of broken objects, and recovery.
//!
//! A [`FallbackScope`](scope::FallbackScope) is the state of one scope, the Envoys of one Gateway and build: what they
//! proved, what they refused, and what they are offered. The quarantine is the only memory of refusals; the plan is
//! derived from it each time. Nothing here does I/O or reads a clock: time and answers are input events, and effects are
//! returned as actions.

// Contents of policies (`policy/setting.rs` of `translate`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

mod accused;
pub mod admission;
mod answerable;
mod answers;
pub mod attribution;
pub mod blame;
mod budget;
mod chains;
pub mod checker;
mod claims;
pub mod closed;
pub mod clusters;
mod company;
mod convictions;
pub mod derive;
mod dispatch;
pub mod event;
pub mod fairness;
mod following;
pub mod forms;
mod hosts;
pub(crate) mod hybrid;
pub(crate) mod interaction;
pub mod last_valid;
mod listener_forms;
pub mod members;
mod outlier_fleet;
pub(crate) mod outliers;
pub mod policies;
mod promotion;
pub mod proof;
pub mod protection;
mod proxy_protection;
pub mod readmission;
mod records;
mod replicas;
pub mod restore;
pub mod restored;
pub mod rollout;
pub mod scope;
pub mod scopes;
pub mod search;
mod served_endpoints;
pub mod served_state;
mod shapes;
mod shared;
pub mod step_inputs;
pub mod suspects;
mod taking_part;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod together;
pub mod trial;
pub mod trials;
mod unreached;
mod unread;
pub mod untried;
pub mod view;
pub(crate) mod watchdog;
mod whole;
mod withdrawn;
mod witnesses;
pub mod world;

/// Limit of published fallbacks for one edit; beyond the limit, refused resources are held.
pub const ROUNDS_MAX: usize = 16;
