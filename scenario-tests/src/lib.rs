//! Environment of the stories: a folder of manifests, the real `holdfast` binary, a real Envoy, echo backends, and an
//! HTTP client that sends requests exactly as written.
//!
//! Nothing in this crate is part of the product. Each story has its own folder, ports and processes, ends only
//! processes that it started, and waits by polling until a generous deadline, never by sleeping.

pub mod artefacts;
pub mod binary;
pub mod browser;
pub mod candidates;
pub mod connect;
pub mod datagrams;
pub mod echo;
pub mod envoy;
pub mod fleet;
pub mod grpc;
pub mod hammer;
pub mod holdfast;
pub mod image_root;
pub mod impostor;
pub mod kubernetes;
pub mod manifests;
pub mod marks;
pub mod mistakes;
pub mod names;
pub mod ports;
pub mod probe;
pub mod process;
pub mod request;
pub mod runner;
pub mod secured;
pub mod services;
pub mod story;
pub mod surroundings;
pub mod tls;
pub mod wait;
pub mod world;
pub mod xds_client;

pub use hammer::Hammer;
pub use holdfast::{Holdfast, HoldfastOptions};
pub use request::{HttpRequest, Reply};
pub use runner::Story;
pub use wait::until;
pub use world::World;
