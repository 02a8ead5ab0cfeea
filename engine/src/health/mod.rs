//! Health: what is not served as desired, how severe that is for clients, and what to do next.
//!
//! [`judge`](judge::judge) computes a [`Health`] from [`Facts`]: faults, the fallback, effects on clients, Envoys,
//! inputs. `holdfast status`, `/debug/health`, `/readyz?verbose`, the summary of `/debug/config/fallback` and the
//! metrics all use this one value. The computation is pure: time is part of the facts, and all results have a fixed
//! order.

mod causes;
pub mod facts;
pub mod filter;
mod gateways;
pub mod in_force;
pub mod inputs;
pub mod judge;
mod next;
pub mod service;
pub mod timeline;
pub mod view;

pub use facts::{Facts, Outside};
pub use in_force::SettingsInForce;
pub use inputs::{FileProblem, SourceState};
pub use judge::judge;
pub use next::{locate_fields, quoted};
pub use view::{Health, HealthFinding, HealthVerdict, Severity, Summary};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
