//! Kubernetes objects: kinds, decoding, faults, statuses, settings.
//!
//! This crate decides nothing about served configuration, and an error in one object never affects another one.

pub mod apis;
pub mod fault;
pub mod ledger;
pub mod object;
pub mod section;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod watch_problem;
