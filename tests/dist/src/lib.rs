//! Makes what users install: static binaries, container images, lists of components, the chart and the changelog.
//!
//! Everything is computed from the repository and from the files that the command line names. Nothing depends on a
//! container runtime, on the network (beside cargo's) or on the clock: the same commit results in the same bytes.

mod archive;
mod arguments;
mod authorities;
mod changelog;
mod chart;
mod compile;
mod components;
mod digest;
mod elf;
mod files;
mod image;
mod krew;
mod layout;
mod libraries;
mod output;
mod packing;
mod platform;
mod release;
mod sbom;
mod source;
mod tarball;

pub use arguments::{DistArgs, PlatformPath};
pub use platform::Platform;
pub use release::{Made, run};
