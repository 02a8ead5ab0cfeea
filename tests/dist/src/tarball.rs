//! Archives with the same bytes for the same files: sorted entries, one time, root as owner, no name of a machine.

use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::files::{FileEntry, Files};

/// Returns the archive of these files.
pub(crate) fn tar(files: &Files, epoch: u64) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in &files.0 {
        let mut header = Header::new_ustar();
        header.set_mtime(epoch);
        header.set_uid(0);
        header.set_gid(0);
        match entry {
            FileEntry::Folder { mode } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                header.set_size(0);
                builder.append_data(&mut header, format!("{path}/"), std::io::empty())
            }
            FileEntry::File { bytes, mode } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes.as_slice())
            }
        }
        .with_context(|| format!("cannot archive {path}"))?;
    }
    Ok(builder.into_inner()?)
}

/// Returns the compressed bytes; their header has neither a name nor a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
