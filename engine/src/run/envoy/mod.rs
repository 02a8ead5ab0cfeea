//! Envoys in standalone mode: finding a binary, and keeping one Envoy alive for each Gateway.
//!
//! An Envoy outlives a crash of Holdfast: it goes on serving, and the next start adopts it. This room decides nothing
//! about configuration; an Envoy gets it over xDS as any other does.

pub(super) mod admin;
mod fetch;
pub mod find;
pub mod keeper;
pub(super) mod log_lines;
pub mod process;
pub(super) mod record;
pub(super) mod taken;

pub use find::EnvoyBinary;
pub use keeper::{Keeper, KeeperOptions, ManagedEnvoy};

/// The release of Envoy that is fetched where none is found, and that everything is tested with.
pub const RELEASE: &str = fetch::VERSION;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
