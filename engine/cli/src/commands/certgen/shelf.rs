//! Shelf of certificates: named contents that belong together.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use holdfast_envoy::bootstrap::credentials::KEY;
use holdfast_probe::folders;

/// The contents of a shelf, by name.
pub(super) type ShelfContents = BTreeMap<String, Vec<u8>>;

/// Maximum number of files of a folder that are read.
const CERTIFICATE_FILES_MAX: usize = 64;
/// Maximum size of a file that is read, in bytes.
const CERTIFICATE_FILE_BYTES_MAX: u64 = 1 << 20;

/// A place for contents that belong together.
pub(super) trait Shelf {
    /// Reads all contents; empty if the place does not exist yet.
    fn read(&self) -> Result<ShelfContents>;

    /// Replaces the contents; entries that are already equal are not written.
    fn write(&self, contents: &ShelfContents) -> Result<()>;
}

/// A folder that only this user can read.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Shelf for Folder {
    fn read(&self) -> Result<ShelfContents> {
        let named = || format!("{}", self.0.display());
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ShelfContents::new()),
            entries => entries.with_context(named)?,
        };
        let mut contents = ShelfContents::new();
        for entry in entries.take(CERTIFICATE_FILES_MAX) {
            let entry = entry.with_context(named)?;
            let about = entry.metadata().with_context(named)?;
            if about.is_file() && about.len() <= CERTIFICATE_FILE_BYTES_MAX {
                let bytes = fs::read(entry.path()).with_context(named)?;
                contents.insert(entry.file_name().to_string_lossy().into_owned(), bytes);
            }
        }
        Ok(contents)
    }

    fn write(&self, contents: &ShelfContents) -> Result<()> {
        let before = self.read()?;
        folders::create_private(&self.0).with_context(|| format!("{}", self.0.display()))?;
        // Keys are written first: a reader in between finds the old certificate, and later both new files.
        let (keys, others): (Vec<_>, Vec<_>) = contents.iter().partition(|(name, _)| name.ends_with(".key"));
        for (name, bytes) in keys.into_iter().chain(others) {
            if before.get(name) == Some(bytes) {
                continue;
            }
            let path = self.0.join(name);
            let written = || format!("cannot write {}", path.display());
            let mut file = tempfile::NamedTempFile::new_in(&self.0).with_context(written)?;
            let mode = if name == KEY || name.ends_with(".key") { 0o600 } else { 0o644 };
            file.as_file().set_permissions(fs::Permissions::from_mode(mode)).with_context(written)?;
            file.write_all(bytes).with_context(written)?;
            file.as_file().sync_all().with_context(written)?;
            file.persist(&path).with_context(written)?;
        }
        for name in before.keys().filter(|name| !contents.contains_key(*name)) {
            fs::remove_file(self.0.join(name)).with_context(|| format!("cannot remove {name}"))?;
        }
        Ok(())
    }
}
