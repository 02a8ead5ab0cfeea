//! Files for an archive or a layer, in memory, sorted by their path. Owners and times are no part of them.

use std::collections::BTreeMap;

/// An entry of an archive.
#[derive(Clone, Debug)]
pub(crate) enum FileEntry {
    Folder { mode: u32 },
    File { bytes: Vec<u8>, mode: u32 },
}

/// Files by their relative path, without a slash at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, FileEntry>);

impl Files {
    /// Adds a file that everyone can read, and its folders.
    pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add_with_mode(path, bytes.into(), 0o644);
    }

    /// Adds a file that everyone can run, and its folders.
    pub(crate) fn add_program(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add_with_mode(path, bytes.into(), 0o755);
    }

    fn add_with_mode(&mut self, path: &str, bytes: Vec<u8>, mode: u32) {
        self.add_parents(path);
        self.0.insert(path.to_owned(), FileEntry::File { bytes, mode });
    }

    /// Adds a folder, and the folders above it.
    pub(crate) fn add_folder(&mut self, path: &str, mode: u32) {
        self.add_parents(path);
        self.0.insert(path.to_owned(), FileEntry::Folder { mode });
    }

    fn add_parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            self.0.entry(path[..end].to_owned()).or_insert(FileEntry::Folder { mode: 0o755 });
        }
    }
}
