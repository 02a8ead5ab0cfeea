//! Envoys in standalone mode: finding a binary, and running one Envoy for each Gateway.
//!
//! An Envoy outlives a crash of Holdfast: it keeps serving, and the next start adopts it. This module decides nothing
//! about configuration; a managed Envoy receives it over xDS like any other.

pub(super) mod admin;
mod fetch;
pub mod find;
pub(super) mod log_lines;
pub mod process;
pub(super) mod record;
pub mod supervisor;
pub(super) mod taken;

pub use find::EnvoyBinary;
pub use supervisor::{ManagedEnvoy, Supervisor, SupervisorOptions};

/// The release of Envoy that is downloaded if none is found, and that everything is tested with.
pub const RELEASE: &str = fetch::VERSION;
/// The oldest supported release of Envoy.
pub const OLDEST: &str = "1.36";

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
