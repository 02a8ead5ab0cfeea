//! Translation of objects to the resources of each Gateway, incremental.
//!
//! Translation consists of pure functions. Each read of a function is recorded, so a changed object repeats only the
//! functions that read it, and the repetition stops where an outcome equals the last one. The outcome depends only on
//! the objects, never on the order of events: a test compares it with a translation from scratch.
//!
//! Stages, each of which reads only earlier ones: Gateway → claims of routes → routes → hosts and tables of each fleet.
//! Endpoints and certificates are updated beside these stages.
//!
//! `incremental` is the core, which knows no kind. `outcome` has what units yield, as plain data. `gateway_api`,
//! `listener_set`, `httpproxy`, `policy` and `backend_policy` are the functions of one API each; `annotations`,
//! `listeners` and `narrowing` are functions that several of them share. `assembly` has the resources of each fleet. `update` has the
//! state, `query` the questions about it.

// Contents of policies (`policy/setting.rs`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

mod annotations;
mod assembly;
pub mod backend_policy;
mod dates;
mod gateway_api;
pub mod httpproxy;
mod incremental;
pub mod listener_set;
mod listeners;
mod narrowing;
pub mod outcome;
pub mod overlay;
pub mod policy;
pub mod precedence;
pub mod provision;
pub mod query;
mod reader;
mod update;

pub use assembly::fleet;
pub use gateway_api::route::conditions_at;
pub use outcome::{claims, delegation, finding, gateway, listener, route};
pub(crate) use update::Unit;
pub use update::{Changes, Translator};
