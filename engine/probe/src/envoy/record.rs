//! Record of a running Envoy on disk, by which the next start of Holdfast recognizes it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::process::ProcessIdentity;

/// The name of the file in the Envoy's folder.
const FILE: &str = "process.json";

/// A running Envoy, and the inputs of its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyRecord {
    /// The process.
    pub process: ProcessIdentity,
    /// The inputs of its start.
    pub start: EnvoyStart,
}

/// All inputs that affect a started Envoy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyStart {
    /// The binary.
    pub binary: PathBuf,
    /// Size and modification time of the binary, which may have been replaced.
    pub binary_signature: (u64, u64),
    /// The arguments.
    pub arguments: Vec<String>,
    /// BLAKE3 of the bootstrap.
    pub bootstrap: String,
}

impl EnvoyStart {
    /// The inputs of a start.
    ///
    /// # Errors
    /// Returns an error if the binary cannot be read.
    pub fn new(binary: &Path, arguments: Vec<String>, bootstrap: &str) -> io::Result<Self> {
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

impl EnvoyRecord {
    /// The record in an Envoy's folder, if it is readable and its process still runs.
    pub fn of_running(folder: &Path) -> Option<Self> {
        let record: Self = serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()?;
        let names =
            |folder: &Path| record.start.arguments.iter().any(|argument| Path::new(argument).starts_with(folder));
        (names(folder) && record.process.is_running()).then_some(record)
    }

    /// Writes the record.
    ///
    /// # Errors
    /// Returns an error if the folder is not writable.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        new.as_file().sync_all()?;
        new.persist(folder.join(FILE))?;
        Ok(())
    }

    /// Removes the record.
    pub fn remove(folder: &Path) {
        // A leftover record of a process that is gone is harmless.
        let _ = fs::remove_file(folder.join(FILE));
    }
}
