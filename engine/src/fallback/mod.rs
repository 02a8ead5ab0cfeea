//! The fallback: attribution of refusals, replacement of broken objects, and recovery.
//!
//! A [`Line`](line::Line) is the state of one scope, the Envoys of one Gateway and build: what they proved, what they
//! refused, and what they are offered. The quarantine is the only memory of refusals; the plan is derived from it each
//! time. Nothing here does I/O or reads a clock: time and answers are input events, and effects are returned as
//! actions.

mod accused;
pub(crate) mod admission;
mod answerable;
mod answers;
pub mod attribution;
pub(crate) mod blame;
mod budget;
mod chains;
pub mod checker;
mod claims;
pub(crate) mod closed;
pub(crate) mod clusters;
mod company;
mod convictions;
pub(crate) mod derive;
mod dispatch;
pub mod events;
pub(crate) mod fairness;
mod following;
pub(crate) mod forms;
mod hosts;
pub(crate) mod hybrid;
pub(crate) mod interaction;
pub(crate) mod last_valid;
pub(crate) mod line;
pub(crate) mod lines;
mod listener_forms;
mod outlier_fleet;
pub(crate) mod outliers;
pub(crate) mod policies;
mod promotion;
pub(crate) mod proof;
pub(crate) mod protection;
mod proxy_protection;
pub(crate) mod readmission;
mod records;
mod replicas;
pub mod restored;
pub(crate) mod rollout;
pub(crate) mod search;
mod served_endpoints;
mod shapes;
mod shared;
pub(crate) mod step_inputs;
pub(crate) mod suspects;
mod taking_part;
mod together;
pub(crate) mod trials;
mod unreached;
mod unread;
pub(crate) mod untried;
pub mod view;
pub(crate) mod watchdog;
mod whole;
mod withdrawn;
mod witnesses;
pub(crate) mod world;

/// Limit of published fallbacks for one edit; beyond the limit, refused resources are held.
pub const ROUNDS_MAX: usize = 16;
