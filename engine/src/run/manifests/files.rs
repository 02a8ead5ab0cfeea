//! Finds the manifest files below folders, in an order that is always the same.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Problem;

/// How many files are read; those beyond, in the order of their paths, are not.
pub const FILES_MAX: usize = 20_000;
/// How deep folders may nest.
pub const FOLDER_DEPTH_MAX: usize = 32;
/// What the names of manifest files end with.
pub const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A file or folder that was named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// As it was named.
    pub path: PathBuf,
}

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The place of its root on the command line: definitions in earlier roots win.
    pub root: usize,
    /// Its path, beginning as the root was named.
    pub path: PathBuf,
    /// The path as messages show it.
    pub name: Arc<str>,
    /// What changes when its content does.
    pub signature: Signature,
}

/// What the file system tells of a file's version without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of its content.
    pub modified: Option<SystemTime>,
    /// Device, inode and change time, where there are such: another file under the same name is another version.
    identity: (u64, u64, i64, i64),
}

impl Signature {
    /// The signature of a file now.
    pub fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), identity: identity(metadata) }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

/// What was found below the roots.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The files, roots in their order, paths in theirs.
    pub files: Vec<Found>,
    /// Roots that could not be looked into: nothing is known of their files now, which is not the same as none.
    pub lost_roots: Vec<usize>,
    /// What went wrong.
    pub problems: Vec<Problem>,
}

/// Finds all manifest files below the roots. Symbolic links are followed, names that begin with a dot are not (a mounted
/// ConfigMap keeps its versions under such names and links to the current one).
pub fn find(roots: &[Root]) -> Findings {
    let mut search = Search { findings: Findings::default(), seen: HashSet::new(), truncated: false };
    for (index, root) in roots.iter().enumerate() {
        match fs::metadata(&root.path) {
            Ok(metadata) if metadata.is_dir() => {
                if let Err(error) = search.folder(index, &root.path, 0) {
                    search.lose(index, &root.path, &error);
                }
            }
            Ok(metadata) => search.file(index, &root.path, &metadata),
            Err(error) => search.lose(index, &root.path, &error),
        }
    }
    search.findings
}

struct Search {
    findings: Findings,
    /// Real paths of what was visited: nothing is read twice, and circles of links end.
    seen: HashSet<PathBuf>,
    truncated: bool,
}

impl Search {
    fn folder(&mut self, root: usize, folder: &Path, depth: usize) -> io::Result<()> {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders nest deeper than {FOLDER_DEPTH_MAX} levels; what is below is not read");
            self.problem(folder, message);
            return Ok(());
        }
        if !self.seen.insert(fs::canonicalize(folder)?) {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name());
        }
        names.sort_unstable();
        for name in names {
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = folder.join(&name);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    if let Err(error) = self.folder(root, &path, depth + 1) {
                        self.lose(root, &path, &error);
                    }
                }
                Ok(metadata) if is_manifest(&path) => self.file(root, &path, &metadata),
                Ok(_) => {}
                // Deleted in this moment, or a link to nowhere: not there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_manifest(&path) => self.lose(root, &path, &error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, root: usize, path: &Path, metadata: &Metadata) {
        if self.findings.files.len() >= FILES_MAX {
            if !std::mem::replace(&mut self.truncated, true) {
                let message = format!("more than {FILES_MAX} files; this one and those after it are not read");
                self.problem(path, message);
            }
            return;
        }
        if !metadata.is_file() {
            self.problem(path, "not a regular file".into());
            return;
        }
        if fs::canonicalize(path).is_ok_and(|real| !self.seen.insert(real)) {
            return;
        }
        self.findings.files.push(Found {
            root,
            path: path.to_owned(),
            name: path.to_string_lossy().into(),
            signature: Signature::of(metadata),
        });
    }

    fn lose(&mut self, root: usize, path: &Path, error: &io::Error) {
        self.findings.lost_roots.push(root);
        self.problem(path, format!("cannot be read: {error}; what was read from it before stays"));
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.findings.problems.push(Problem::of_file(path.to_string_lossy(), message));
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}
