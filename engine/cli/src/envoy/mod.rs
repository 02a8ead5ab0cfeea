//! Managed Envoys: one for each Gateway, and the ports that they share with other processes of the host.
//!
//! An Envoy outlives a crash of Holdfast: it keeps serving, and the next start adopts it. This module decides nothing
//! about configuration; a managed Envoy receives it over xDS like any other.

pub(super) mod admin;
pub mod supervisor;
pub(super) mod taken;

pub use supervisor::{ManagedEnvoy, Supervisor, SupervisorOptions};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
