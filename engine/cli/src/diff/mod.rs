//! What is served instead of what was written, for the command `holdfast diff` and the page `/debug/diff`: the manifest
//! of an object against the version that is served, and the published configuration of Envoy against the one that the
//! desired objects alone would have.
//!
//! This room must not change anything, and knows no file and no socket. No value of a Secret and no credential appears.

mod configuration;
mod facts;
mod lines;
mod manifest;
mod report;
mod subset;
mod target;
mod text;

pub(crate) use facts::DiffFacts;
pub(crate) use lines::DiffLine;
pub(crate) use report::{DiffOutcome, DiffReport, ObjectDifference};
pub(crate) use target::DiffTarget;
pub(crate) use text::format;
