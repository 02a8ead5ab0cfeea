//! What is served when something is broken: whom to blame, what stands in, and how everything heals.
//!
//! A [`Line`](line::Line) is the state of one Gateway's Envoys of one build: what they proved, what they refused, and
//! what they are offered. The quarantine is its only memory of trouble; the plan is derived from it each time. Nothing
//! here does I/O or reads a clock: time and answers come in as events, and what is to be done goes out as actions.

mod accused;
pub(crate) mod admission;
mod answers;
pub(crate) mod around;
pub mod attribution;
pub(crate) mod blame;
mod chains;
pub mod checker;
mod claims;
pub(crate) mod closed;
pub(crate) mod clusters;
pub(crate) mod conditions;
mod convictions;
pub(crate) mod derive;
pub mod events;
mod following;
pub(crate) mod forms;
mod hear;
pub(crate) mod hybrid;
pub mod inspection;
pub(crate) mod interaction;
pub(crate) mod last_valid;
pub(crate) mod line;
pub(crate) mod lines;
mod listener_forms;
mod listener_protection;
mod policies;
mod policy_protection;
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
mod shapes;
mod shared;
pub(crate) mod strays;
pub(crate) mod survey;
pub(crate) mod suspects;
mod together;
pub(crate) mod trials;
mod unread;
pub mod view;
pub(crate) mod whole;
mod withdrawn;
pub(crate) mod world;

/// Published fallbacks for one edit, at most; then what is refused is held.
pub const ROUNDS_MAX: usize = 16;
