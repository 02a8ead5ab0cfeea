//! The xDS server: the resources that each fleet of Envoys should have, the responses that were sent to each Envoy, and
//! its answers.
//!
//! The protocol is a state machine without I/O; only `server.rs` and related modules use tonic. This crate names no
//! Kubernetes kind and does not attribute blame: it passes origins along and reports answers.
//!
//! The data flow: [`Fleets::publish`] takes [`Offers`], with a [`Snapshot`] for each audience; the
//! [`connection::Connection`] of each stream compares its current offer with the previous one and returns
//! [`response::Response`]s; [`serve`] writes them, and reports the start and end of streams and each [`Answer`] as
//! [`Notice`]s.

mod accepted;
mod admission;
mod ads;
mod answer;
mod audiences;
mod blame;
pub mod connection;
mod counts;
pub mod credentials;
mod csds;
mod cursor;
mod delta;
mod door;
mod due;
mod endpoints;
mod event_sender;
mod fleets;
mod flight;
mod gate;
mod history;
pub mod identity;
mod json;
pub mod limits;
mod lingering;
mod listen;
mod lost;
mod managed;
mod notice;
mod offers;
mod peer;
mod published;
mod reflection;
mod refusals;
pub mod resource;
pub mod response;
mod rooms;
mod scrub;
mod server;
mod silence;
pub mod snapshot;
mod sotw;
mod split;
mod stream;
#[cfg(test)]
mod testing;
pub mod tls;
mod verdict;
mod view;
mod virtual_hosts;
mod wire;

pub use admission::{Admitted, Authenticator, NotAdmitted, PresentedCredentials};
pub use answer::{Answer, Outcome};
pub use counts::{PushCount, PushCounts};
pub use door::TlsSource;
pub use fleets::{Fleets, Unanswered};
pub use history::{LastRefusal, StreamHistory};
pub use identity::EnvoyId;
pub use json::{SECRET_SETTINGS, to_json};
pub use listen::{Address, Listen, ServeError};
pub use lost::Reachable;
pub use managed::{UNMANAGED_BUILD, managed_node_id};
pub use notice::Notice;
pub use offers::{Again, AgainByName, Offers, Waiting};
pub use resource::{BodyPart, Resource, ResourceType, Version};
pub use scrub::scrub;
pub use server::{Bound, bind, serve};
pub use silence::SilentEnvoy;
pub use snapshot::Snapshot;
pub use view::{EnvoyResource, EnvoyView, ResourceStatus, TypeView};
