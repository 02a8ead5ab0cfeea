//! Data folder, locked by one process at a time.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
pub use holdfast_probe::folders::default_cache;
use holdfast_probe::folders::{below_home, create_private};

use super::arguments;
use super::failure::Failure;

/// The lock file, which marks the folder as used.
const LOCK: &str = "lock";

/// The data folder, locked.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Released by the operating system when the process ends, in whatever way.
    _lock: File,
}

impl DataDir {
    /// Creates the folder if it does not exist, and locks it.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock, or the file system does not allow it.
    pub fn open(path: &Path) -> Result<Self> {
        let flag = || format!("--data-dir {}", path.display());
        create_private(path).with_context(flag)?;
        let path = fs::canonicalize(path).with_context(flag)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut lock = options.open(path.join(LOCK)).with_context(flag)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message.
                let _ = lock.read_to_string(&mut holder);
                bail!(
                    "--data-dir {}: another Holdfast (process {}) uses this folder; end it, or choose another folder",
                    path.display(),
                    holder.trim()
                );
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(flag),
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).with_context(flag)?;
        Ok(Self { path, _lock: lock })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with its lock and `file`, which stay open: the operating system does not reuse the inode of an open
    /// file, but does so when the store closes its files after an error and creates new ones.
    pub fn opened(&self, file: &Path) -> OpenedFolder {
        let files = [Path::new(LOCK), file].map(|name| self.path.join(name));
        let files = files.into_iter().filter_map(|file| File::open(&file).ok().map(|open| (file, Arc::new(open))));
        OpenedFolder { path: self.path.clone(), files: files.collect() }
    }

    /// A path in the folder for a unix socket.
    ///
    /// # Errors
    /// Returns an error if the path is longer than operating systems accept.
    pub fn socket(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        arguments::socket_path(&path.to_string_lossy())
            .map_err(|why| Failure::usage(format!("--data-dir {}: {why} ({})", self.path.display(), path.display())))
    }
}

/// The data folder of this process, as it was opened. If its files are removed, writes still succeed, but no later run
/// finds the data.
#[derive(Clone, Debug)]
pub struct OpenedFolder {
    path: PathBuf,
    /// The open files.
    files: Vec<(PathBuf, Arc<File>)>,
}

impl OpenedFolder {
    /// The reason why a later run will not find the stored data; `None` if it will.
    pub fn problem(&self) -> Option<String> {
        let is_there = |(path, file): &&(PathBuf, Arc<File>)| {
            fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|opened| identity(&now) == identity(&opened)))
        };
        let gone = self.files.iter().find(|file| !is_there(file))?;
        let within = gone.0.strip_prefix(&self.path).ok().and_then(|file| file.iter().next());
        let what = match within {
            Some(name) if name != LOCK => format!("{} in the data folder {}", name.display(), self.path.display()),
            _ => format!("the data folder {}", self.path.display()),
        };
        Some(format!("{what} was removed or replaced: restart Holdfast"))
    }
}

/// Device and inode of a file; `None` on systems without these numbers.
fn identity(file: &Metadata) -> Option<(u64, u64)> {
    #[cfg(unix)]
    return {
        use std::os::unix::fs::MetadataExt;
        Some((file.dev(), file.ino()))
    };
    #[cfg(not(unix))]
    return None;
}

/// `$XDG_DATA_HOME/holdfast`, else `~/.local/share/holdfast`.
///
/// # Errors
/// Returns an error if neither variable is set.
pub fn default_path() -> Result<PathBuf, Failure> {
    below_home("XDG_DATA_HOME", ".local/share")
        .ok_or_else(|| Failure::usage("neither XDG_DATA_HOME nor HOME is set: set --data-dir DIR"))
}

/// Writes a file that only this user can read: completely, or not at all.
pub(super) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(&new, path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_replaces_a_closed_one_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let file = data.path().join("db");
        fs::write(&file, "one").unwrap();
        let opened = data.opened(Path::new("db"));
        assert_eq!(opened.problem(), None);
        for _ in 0..100 {
            fs::remove_file(&file).unwrap();
            fs::write(&file, "two").unwrap();
            assert!(opened.problem().is_some_and(|problem| problem.contains("db in the data folder")));
        }
    }

    #[test]
    fn only_one_process_uses_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let held = DataDir::open(&path).unwrap();
        let error = DataDir::open(&path).unwrap_err().to_string();
        assert!(error.contains("--data-dir") && error.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        // A process that another test is starting inherits the descriptor of the lock until it executes its own
        // program.
        while let Err(error) = DataDir::open(&path) {
            assert!(error.to_string().contains("another Holdfast"), "{error:#}");
            std::thread::yield_now();
        }
    }

    #[cfg(unix)]
    #[test]
    fn other_users_may_not_read_the_lock() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let _held = DataDir::open(&path).unwrap();
        assert_eq!(fs::metadata(path.join(LOCK)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
