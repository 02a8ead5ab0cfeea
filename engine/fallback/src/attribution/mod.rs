//! Attribution: the object at fault for a refusal.
//!
//! The room finds suspects by route, cluster, listener and policy, tries them on the probe or on one Envoy, and records
//! verdicts. It does not decide what is served instead: that is the plan, derived again after each verdict.

pub(crate) mod accepted_versions;
mod accused;
pub mod admission;
pub mod blame;
mod chains;
pub mod clusters;
mod convictions;
pub(crate) mod derived;
mod durations;
pub mod envoy_trials;
mod hosts;
mod interaction;
pub mod readmission;
pub mod search;
pub mod searches;
pub(crate) mod suspect_inputs;
mod taking_part;
mod together;
pub mod trials;
mod unreached;
pub(crate) mod untried_at;
pub mod verdicts;
pub(crate) mod whole;
pub(crate) mod witnesses;

pub use durations::{Attributed, Attribution};
