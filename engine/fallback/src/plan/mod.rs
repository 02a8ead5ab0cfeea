//! Plans: what is served when objects are broken, as a pure function of objects, verdicts and last valid versions.
//!
//! The room derives a plan and turns it into an overlay. It changes no state, and does not check itself: that is the
//! task of `checker`.

pub(crate) mod budget;
mod claims;
mod company;
pub mod derive;
pub mod fairness;
pub(crate) mod fitness;
mod held;
pub(crate) mod objection;
pub mod policies;
pub(crate) mod reachable;
pub(crate) mod reasons;
mod shared;
pub mod untried;
pub(crate) mod why_not;
pub mod world;
