//! The folder of artefacts: written elsewhere, then moved to its place, with the checksums of all its files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::digest::sha256;

/// Checksums of all files, in the form of `sha256sum`.
const SUMS: &str = "SHA256SUMS";

/// A folder of artefacts that is being written.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    work: TempDir,
    target: PathBuf,
}

impl OutputFolder {
    /// Begins a folder. A folder that exists must be empty, or have artefacts of an earlier run.
    pub(crate) fn create(target: &Path) -> Result<Self> {
        let shown = target.display();
        let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        ensure!(
            !target.exists() || target.join(SUMS).is_file() || is_empty(target),
            "{shown} has other files than artefacts: name another folder with --out"
        );
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let work = TempDir::with_prefix_in(".dist-", parent).with_context(|| format!("cannot write beside {shown}"))?;
        Ok(Self { work, target: target.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.work.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        fs::write(self.path().join(name), bytes).with_context(|| format!("cannot write {name}"))
    }

    /// Writes the checksums, and moves everything to the place of the folder. Returns the names of all files.
    pub(crate) fn finish(self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        collect(self.path(), "", &mut names)?;
        names.sort();
        let mut sums = String::new();
        for name in &names {
            let bytes = fs::read(self.path().join(name)).with_context(|| format!("cannot read {name}"))?;
            sums.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        }
        self.write(SUMS, sums.as_bytes())?;
        names.push(SUMS.to_owned());
        let shown = self.target.display();
        if self.target.exists() {
            fs::remove_dir_all(&self.target).with_context(|| format!("cannot replace {shown}"))?;
        }
        let work = self.work.keep();
        open_to_readers(&work)?;
        fs::rename(&work, &self.target).with_context(|| format!("cannot move the artefacts to {shown}"))?;
        Ok(names)
    }
}

/// Temporary folders are closed to other users; artefacts are for everyone.
#[cfg(unix)]
fn open_to_readers(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).context("cannot change the mode of the artefacts")
}

#[cfg(not(unix))]
fn open_to_readers(_folder: &Path) -> Result<()> {
    Ok(())
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
