//! Translation of objects to the resources of each Gateway, incremental.
//!
//! Translation consists of pure functions. Each read of a function is recorded, so a changed object repeats only the
//! functions that read it, and the repetition stops where an outcome equals the last one. The outcome depends only on
//! the objects, never on the order of events: a test compares it with a translation from scratch.
//!
//! Stages, each of which reads only earlier ones: Gateway → claims of routes → routes → hosts and tables of each fleet.
//! Endpoints and certificates are updated beside these stages.

// Contents of policies (`policy/setting.rs`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

mod assembly;
mod backend;
pub mod chain_units;
mod chains;
pub mod claims;
pub mod cluster_policy;
mod conditions;
mod conflicts;
pub mod duplicates;
mod endpoints;
mod filters;
pub mod fleet;
pub mod gateway;
mod gateway_api;
mod grpc;
mod guard;
mod http;
mod incremental;
pub mod infrastructure;
pub mod listener;
mod narrow;
mod narrow_calls;
pub mod overlay;
mod parents;
pub mod policies;
pub mod policy;
mod ports;
pub mod provision;
pub mod proxies;
pub mod proxy;
mod queries;
pub mod reader;
pub mod route;
pub mod rule;
pub mod sets;
mod today;
mod update;
mod uses;
mod variant;
mod view;
mod weighted;

pub use gateway_api::LentHostnames;
pub(crate) use update::Unit;
pub use update::{Changes, Translator};
