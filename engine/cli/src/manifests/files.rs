//! Search for manifest files below folders, in a deterministic order.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Problem;
use super::definitions::ManifestPlace;
use super::tree::FolderTree;
use crate::failure::Failure;

/// Maximum number of files that are read; further files, in the order of their paths, are not read.
pub const MANIFEST_FILES_MAX: usize = 20_000;
/// Maximum depth of nested folders.
pub const MANIFEST_FOLDER_DEPTH_MAX: usize = 32;
/// The extensions of manifest files.
pub const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The path that means standard input, for commands that read once.
pub const STDIN: &str = "-";
/// What follows a problem of a file, about its objects. A deletion may have come before: then none is in use.
pub(super) const KEPT: &str = "; objects from it that are in use stay in use";

/// How often the files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readings {
    /// Once: nothing was read before. Pipes and standard input can be read.
    Once,
    /// After each change.
    Repeated,
}

/// A file or folder of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The path as in the command line.
    pub path: PathBuf,
}

/// The roots that a flag names; each must exist.
///
/// # Errors
/// Returns an error that names the flag if a root cannot be found.
pub fn roots(flag: &str, paths: &[PathBuf], readings: Readings) -> Result<Vec<Root>, Failure> {
    let root = |path: &PathBuf| match fs::metadata(path) {
        _ if is_stdin(path, readings) => Ok(Root { path: path.clone() }),
        Ok(_) => Ok(Root { path: path.clone() }),
        Err(error) => Err(Failure::usage(format!("{flag} {}: {error}", path.display()))),
    };
    paths.iter().map(root).collect()
}

/// Returns whether a path means standard input.
fn is_stdin(path: &Path, readings: Readings) -> bool {
    readings == Readings::Once && path == Path::new(STDIN)
}

/// A file that was found.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// The index of its root on the command line: definitions in earlier roots take precedence.
    pub root: usize,
    /// Its path, which begins with the path of the root.
    pub path: Arc<Path>,
    /// The path in messages.
    pub name: Arc<str>,
    /// A signature that changes with the content.
    pub signature: Signature,
    /// Whether it can be read only once, as a pipe or standard input.
    pub is_stream: bool,
}

impl ManifestFile {
    /// Returns its place in the order of precedence.
    pub fn place(&self) -> ManifestPlace {
        (self.root, self.path.clone())
    }
}

/// The version of a file according to the file system, without reading the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of its content.
    pub modified: Option<SystemTime>,
    /// Device, inode and change time, on systems that have them: another file under the same name is another version.
    identity: (u64, u64, i64, i64),
}

impl Signature {
    /// The current signature of a file.
    pub fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), identity: identity(metadata) }
    }

    /// Returns whether it is the same file, possibly with other content, and not another file with the same name.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.identity.0, self.identity.1) == (other.identity.0, other.identity.1)
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

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The files, ordered by root and path.
    pub files: Vec<ManifestFile>,
    /// Paths that exist and cannot be read, in the order in which they were found.
    pub lost: Vec<Lost>,
    /// Other problems.
    pub problems: Vec<Problem>,
    /// The folders, if changed files can be found in them without a search.
    pub tree: Option<FolderTree>,
}

/// A path that exists but cannot be read as what it was before, or at all. The current objects of the path are unknown,
/// which does not mean that they are deleted: the objects read before stay for as long as the path exists.
#[derive(Clone, Debug)]
pub struct Lost {
    /// The path, which begins with the path of the root.
    pub path: PathBuf,
    reach: Reach,
    /// Whether the path is a problem even if nothing was read from it before.
    pub certain: bool,
    /// The problem.
    pub problem: Problem,
}

/// The files read before that are affected by a lost path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The file of this path.
    File,
    /// The files below it.
    Below,
    /// Both.
    All,
}

/// Lost paths, by path.
#[derive(Debug, Default)]
pub struct LostPaths(HashMap<PathBuf, (usize, Reach)>);

impl LostPaths {
    /// Indexes the lost paths.
    pub fn new(lost: &[Lost]) -> Self {
        Self(lost.iter().enumerate().map(|(index, lost)| (lost.path.clone(), (index, lost.reach))).collect())
    }

    /// Returns whether no path is lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of the lost path that affects a file read before.
    pub fn of(&self, file: &Path) -> Option<usize> {
        let excluded = |path: &Path| if path == file { Reach::Below } else { Reach::File };
        let found = |path: &Path| self.0.get(path).filter(|(_, reach)| *reach != excluded(path));
        file.ancestors().find_map(found).map(|(index, _)| *index)
    }
}

/// Finds all manifest files below the roots. Follows symbolic links, and skips names that begin with a dot (a mounted
/// ConfigMap keeps its versions under such names and links to the current one).
pub fn find(roots: &[Root], readings: Readings) -> Findings {
    let mut search = FileSearch {
        findings: Findings { tree: Some(FolderTree::default()), ..Findings::default() },
        readings,
        seen: HashSet::new(),
        truncated: false,
    };
    for (index, root) in roots.iter().enumerate() {
        match fs::metadata(&root.path) {
            _ if is_stdin(&root.path, readings) => search.stream(index, &root.path),
            Ok(metadata) if metadata.is_dir() => {
                search.no_file(&root.path);
                let real = fs::canonicalize(&root.path);
                if let Err(error) = real.and_then(|real| search.folder(index, &root.path, real, 0)) {
                    search.unreadable(&root.path, &error, true);
                }
            }
            Ok(metadata) if readings == Readings::Once && !metadata.is_file() => search.stream(index, &root.path),
            Ok(metadata) => {
                // A file that is named is read whatever its name is.
                search.findings.tree = None;
                search.no_folder(&root.path);
                search.file(index, &root.path, fs::canonicalize(&root.path).ok(), &metadata);
            }
            Err(error) => search.unreadable(&root.path, &error, true),
        }
    }
    search.findings
}

struct FileSearch {
    findings: Findings,
    readings: Readings,
    /// Real paths of visited files and folders: nothing is read twice, and cycles of links end.
    seen: HashSet<PathBuf>,
    truncated: bool,
}

impl FileSearch {
    /// Processes a folder with this real path.
    fn folder(&mut self, root: usize, folder: &Path, real: PathBuf, depth: usize) -> io::Result<()> {
        if depth > MANIFEST_FOLDER_DEPTH_MAX {
            let message = format!(
                "folders are nested deeper than {MANIFEST_FOLDER_DEPTH_MAX} levels; deeper folders are not read"
            );
            self.problem(folder, message);
            return Ok(());
        }
        if !self.seen.insert(real.clone()) {
            self.findings.tree = None;
            return Ok(());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            entries.push((entry.file_name(), entry.file_type().is_ok_and(|kind| !kind.is_symlink())));
        }
        entries.sort_unstable();
        if let Some(tree) = &mut self.findings.tree {
            tree.add(root, folder);
        }
        for (name, is_plain) in entries {
            if !name.as_encoded_bytes().starts_with(b".") {
                let real = is_plain.then(|| real.join(&name));
                self.entry(root, &folder.join(&name), real, depth);
            }
        }
        Ok(())
    }

    /// Processes an entry of a folder. `real`: its real path, unless it is a link.
    fn entry(&mut self, root: usize, path: &Path, real: Option<PathBuf>, depth: usize) {
        if real.is_none() {
            self.findings.tree = None;
        }
        let real = real.map_or_else(|| fs::canonicalize(path), Ok);
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                self.no_file(path);
                if let Err(error) = real.and_then(|real| self.folder(root, path, real, depth + 1))
                    && !is_deleted(path, &error)
                {
                    self.unreadable(path, &error, true);
                }
            }
            Ok(metadata) if is_manifest(path) => self.file(root, path, real.ok(), &metadata),
            Ok(_) => self.no_folder(path),
            // The entry was deleted after the folder was listed.
            Err(error) if is_deleted(path, &error) => {}
            // A name with another extension is probably not a folder, unless something was read there before.
            Err(error) => self.unreadable(path, &error, is_manifest(path) || path.extension().is_none()),
        }
    }

    /// Processes a folder: a file may have been read under its name before.
    fn no_file(&mut self, path: &Path) {
        if is_manifest(path) {
            let message = "the file was replaced by a folder; the objects that were read from the file stay in use";
            self.lose(path, Reach::File, false, message.into());
        }
    }

    fn file(&mut self, root: usize, path: &Path, real: Option<PathBuf>, metadata: &Metadata) {
        if self.findings.files.len() >= MANIFEST_FILES_MAX {
            if !std::mem::replace(&mut self.truncated, true) {
                let message = format!("more than {MANIFEST_FILES_MAX} files; this file and later files are not read");
                self.problem(path, message);
            }
            return;
        }
        if !metadata.is_file() {
            let message = match self.readings {
                Readings::Once => "not a regular file".to_owned(),
                Readings::Repeated => {
                    format!("not a regular file{KEPT}. Write the file again, or delete it to delete its objects")
                }
            };
            return self.lose(path, Reach::All, true, message);
        }
        if real.is_some_and(|real| !self.seen.insert(real)) {
            self.findings.tree = None;
            return;
        }
        self.findings.files.push(ManifestFile {
            root,
            path: path.into(),
            name: path.to_string_lossy().into(),
            signature: Signature::of(metadata),
            is_stream: false,
        });
    }

    /// Adds a pipe or standard input, which a command names and reads once.
    fn stream(&mut self, root: usize, path: &Path) {
        if self.seen.insert(path.to_owned()) {
            let (name, signature) = (path.to_string_lossy().into(), Signature::default());
            self.findings.files.push(ManifestFile { root, path: path.into(), name, signature, is_stream: true });
        }
    }

    /// Records a path that is neither a folder nor a manifest. If it was a folder before, its files are unreadable now.
    fn no_folder(&mut self, path: &Path) {
        let message = "no longer a folder; the objects that were read from files in it stay in use. Restore the \
                       folder, or delete this path to delete the objects";
        self.lose(path, Reach::Below, false, message.into());
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error, certain: bool) {
        let link = fs::read_link(path).ok().filter(|_| error.kind() == io::ErrorKind::NotFound);
        let cause = match &link {
            Some(target) => format!("it is a symbolic link to {}, which does not exist", target.display()),
            None => error.to_string(),
        };
        let message = match (self.readings, link) {
            (Readings::Once, _) => format!("cannot be read: {cause}"),
            (Readings::Repeated, None) => format!("cannot be read: {cause}{KEPT}"),
            (Readings::Repeated, Some(_)) => {
                format!("cannot be read: {cause}{KEPT}. Restore the target, or delete the link to delete its objects")
            }
        };
        self.lose(path, Reach::All, certain, message);
    }

    fn lose(&mut self, path: &Path, reach: Reach, certain: bool, message: String) {
        let problem = Problem::of_file(path.to_string_lossy(), message);
        self.findings.lost.push(Lost { path: path.to_owned(), reach, certain, problem });
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.findings.problems.push(Problem::of_file(path.to_string_lossy(), message));
    }
}

/// Returns whether the name itself is gone. A broken symbolic link still exists.
fn is_deleted(path: &Path, error: &io::Error) -> bool {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    gone(error) && fs::symlink_metadata(path).is_err_and(|error| gone(&error))
}

/// Returns whether a file of this path is read.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// The name of a file of the command line does not matter, so that changed files in its folder are not found by name.
    #[test]
    fn a_named_file_requires_searches() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("extra.txt");
        fs::write(&named, "").unwrap();
        let tree = |paths: &[&Path]| {
            let roots: Vec<Root> = paths.iter().map(|path| Root { path: (*path).into() }).collect();
            find(&roots, Readings::Repeated).tree
        };
        assert!(tree(&[folder.path()]).is_some());
        assert!(tree(&[folder.path(), &named]).is_none());
    }

    /// A file of the command line that becomes a folder is lost, as one below a folder is: its objects stay.
    #[test]
    fn a_root_that_becomes_a_folder_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.yaml");
        let lost = |path: &Path| LostPaths::new(&find(&[Root { path: path.into() }], Readings::Repeated).lost).of(path);
        fs::write(&path, "").unwrap();
        assert_eq!(lost(&path), None);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("b.yaml"), "").unwrap();
        assert_eq!(lost(&path), Some(0));
        assert_eq!(lost(folder.path()), None);
    }
}
