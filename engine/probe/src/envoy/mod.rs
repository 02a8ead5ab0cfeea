//! Processes of Envoy: the binary, the identity of a process, its record on disk, and its log.
//!
//! Nothing here starts a process; the probe and the managed Envoys of `holdfast run` do, each in its own way.

mod fetch;
pub mod find;
pub mod log_lines;
pub mod process;
pub mod record;

pub use find::EnvoyBinary;

/// The release of Envoy that is downloaded if none is found, and that everything is tested with.
pub const RELEASE: &str = fetch::VERSION;
/// The oldest supported release of Envoy.
pub const OLDEST: &str = "1.36";
