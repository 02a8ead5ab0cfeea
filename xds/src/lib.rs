//! Speaks xDS: what each fleet of Envoys should have, what each Envoy was sent, and what it answered.
//!
//! The protocol is a state machine without I/O; `server.rs` and its siblings alone are tonic around it.
//! This crate names no Kubernetes kind and decides nothing about blame: it carries origins along and reports answers.
//!
//! The way through: [`Fleets::publish`] takes a [`Snapshot`]; each stream's [`connection::Connection`] compares it with
//! the one it saw last and hands out [`response::Response`]s; [`serve`] writes them and reports each [`Answer`].

mod ads;
mod answer;
mod blame;
pub mod connection;
mod counts;
mod csds;
mod cursor;
mod delta;
mod due;
mod endpoints;
mod fleets;
mod flight;
pub mod identity;
mod json;
pub mod limits;
mod lingering;
mod listen;
mod published;
mod reflection;
mod refusals;
pub mod resource;
pub mod response;
mod scrub;
mod server;
pub mod snapshot;
mod sotw;
mod stream;
mod verdict;
mod view;
mod wire;

pub use answer::{Answer, Outcome};
pub use counts::{PushCount, PushCounts};
pub use fleets::Fleets;
pub use json::to_json;
pub use listen::{Address, Listen, ServeError};
pub use resource::{Resource, ResourceType, Version};
pub use scrub::scrub;
pub use server::{Bound, bind, serve};
pub use snapshot::Snapshot;
pub use view::{EnvoyView, TypeView};
