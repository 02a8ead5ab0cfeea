//! What is written down of a running Envoy, so that the next start of Holdfast knows it again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::process::Identity;

/// The file's name in the Envoy's folder.
const FILE: &str = "process.json";

/// A running Envoy, and with what it was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Record {
    /// Which process.
    pub(in crate::run) process: Identity,
    /// With what it was started.
    pub(in crate::run) start: Start,
}

/// Everything that makes a difference to an Envoy that is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Start {
    /// The binary.
    pub(in crate::run) binary: PathBuf,
    /// Its size and time of change: another binary may have taken its place.
    pub(in crate::run) binary_signature: (u64, u64),
    /// Its arguments.
    pub(in crate::run) arguments: Vec<String>,
    /// BLAKE3 of the bootstrap.
    pub(in crate::run) bootstrap: String,
}

impl Start {
    /// What a binary is started with.
    pub(in crate::run) fn new(binary: &Path, arguments: Vec<String>, bootstrap: &str) -> io::Result<Self> {
        let metadata = fs::metadata(binary)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Ok(Self {
            binary: binary.to_owned(),
            binary_signature: (metadata.len(), modified),
            arguments,
            bootstrap: blake3::hash(bootstrap.as_bytes()).to_string(),
        })
    }
}

impl Record {
    /// The record in an Envoy's folder, where there is one that can be read and its process still runs.
    pub(in crate::run) fn of_running(folder: &Path) -> Option<Self> {
        let record: Self = serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()?;
        let names =
            |folder: &Path| record.start.arguments.iter().any(|argument| Path::new(argument).starts_with(folder));
        (names(folder) && record.process.is_running()).then_some(record)
    }

    /// Writes it down.
    pub(in crate::run) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        new.as_file().sync_all()?;
        new.persist(folder.join(FILE))?;
        Ok(())
    }

    /// Forgets it.
    pub(in crate::run) fn remove(folder: &Path) {
        // A record of a process that is gone does no harm.
        let _ = fs::remove_file(folder.join(FILE));
    }
}
