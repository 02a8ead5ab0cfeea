//! The folders of a search, in which changed files are found again without another search.
//!
//! Only plain folders allow it: a symbolic link, an unreadable path or a limit makes the state of a file depend on other
//! paths, which only a search visits.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::definitions::ManifestPlace;
use super::files::{ManifestFile, Signature, is_manifest};

/// The changes since the last reading, as far as they are known.
#[derive(Debug, Default)]
pub struct ChangedFiles {
    /// The paths of all changes, which begin with the path of a root; `None` if there may be others.
    pub paths: Option<HashSet<PathBuf>>,
    /// Files that are known not to be written any more, and need not rest.
    pub complete: HashSet<PathBuf>,
}

/// The current state of a changed file.
#[derive(Debug)]
pub enum FoundChange {
    /// The file exists.
    File(ManifestFile),
    /// There is no file at this place.
    Gone(ManifestPlace),
}

/// The folders of a search, each with the index of its root.
#[derive(Clone, Debug, Default)]
pub struct FolderTree(HashMap<PathBuf, usize>);

impl FolderTree {
    /// Adds a folder that was listed.
    pub fn add(&mut self, root: usize, folder: &Path) {
        self.0.insert(folder.to_owned(), root);
    }

    /// Returns the state of a path; `Ok(None)` if no file of this path is a manifest.
    ///
    /// # Errors
    /// Returns an error if only a search shows the state: a folder, a link, or a path that cannot be read.
    pub fn look(&self, path: &Path) -> Result<Option<FoundChange>, NeedsSearch> {
        let is_known = self.0.contains_key(path);
        let folder = path.parent().and_then(|folder| self.0.get(folder));
        let (Some(&root), Some(name), false) = (folder, path.file_name(), is_known) else { return Err(NeedsSearch) };
        if name.as_encoded_bytes().starts_with(b".") {
            return Ok(None);
        }
        let shared: Arc<Path> = path.into();
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() && is_manifest(path) => Ok(Some(FoundChange::File(ManifestFile {
                root,
                path: shared,
                name: path.to_string_lossy().into(),
                signature: Signature::of(&metadata),
                is_stream: false,
            }))),
            Ok(metadata) if metadata.is_file() => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(FoundChange::Gone((root, shared)))),
            Ok(_) | Err(_) => Err(NeedsSearch),
        }
    }
}

/// Only a search shows the state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only a search of all folders shows the state of the path")]
pub struct NeedsSearch;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_files_in_known_folders_are_found_without_a_search() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut tree = FolderTree::default();
        tree.add(0, folder.path());
        tree.add(0, &path("known"));
        fs::write(path("a.yaml"), "").unwrap();
        fs::write(path("a.txt"), "").unwrap();
        fs::write(path(".a.yaml"), "").unwrap();
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink(path("a.yaml"), path("link.yaml")).unwrap();
        assert!(matches!(tree.look(&path("a.yaml")), Ok(Some(FoundChange::File(_)))));
        assert!(matches!(tree.look(&path("b.yaml")), Ok(Some(FoundChange::Gone(_)))));
        for nothing in ["a.txt", ".a.yaml"] {
            assert!(matches!(tree.look(&path(nothing)), Ok(None)), "{nothing}");
        }
        // A folder that was deleted took its files with it.
        for unclear in ["folder", "link.yaml", "known", "folder/a.yaml", ""] {
            assert_eq!(tree.look(&path(unclear)).unwrap_err(), NeedsSearch, "{unclear}");
        }
    }
}
