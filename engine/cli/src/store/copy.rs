//! Copy of a store's folder for inspection while its owner runs: the original is neither locked nor changed.
//!
//! The copy is equal to what a crash at that moment would have left, from which the store can be opened.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// Maximum number of files that are copied; a folder with more of them is no store.
const STORE_FILES_MAX: usize = 100_000;
/// Maximum depth of nested folders.
const STORE_DEPTH_MAX: usize = 4;
/// Maximum number of attempts to copy without a concurrent write.
const STORE_COPY_TRIES_MAX: u32 = 500;
/// A file that changed less than this ago may change again without a visible change of its time stamp.
const REST: Duration = Duration::from_millis(30);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// By path in the folder: inode, size, and time of the last change, in nanoseconds of Unix time.
type FolderSignature = BTreeMap<PathBuf, (u64, u64, i128)>;

/// The copy, which is removed when this is dropped.
#[derive(Debug)]
pub struct Copy {
    folder: TempDir,
}

impl Copy {
    /// Copies a folder at a moment without writes.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read or copied, or is written to without a pause.
    pub fn of(folder: &Path) -> io::Result<Self> {
        for _ in 0..STORE_COPY_TRIES_MAX {
            match attempt(folder) {
                Ok(Some(copy)) => return Ok(copy),
                Ok(None) => {}
                // A file was removed meanwhile; only the folder itself must exist.
                Err(error) if error.kind() == ErrorKind::NotFound && folder.is_dir() => {}
                Err(error) => return Err(error),
            }
            thread::sleep(PAUSE);
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "a running Holdfast writes to it without a pause: try again"))
    }

    /// The path of the copy.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(super::FOLDER)
    }
}

fn attempt(folder: &Path) -> io::Result<Option<Copy>> {
    let before = signature(folder)?;
    if !is_at_rest(&before) {
        return Ok(None);
    }
    // Only this user can read the copy, as the original.
    let copy = Copy { folder: tempfile::Builder::new().prefix("holdfast-check-").tempdir()? };
    fs::create_dir(copy.path())?;
    for path in before.keys() {
        let to = copy.path().join(path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(folder.join(path), to)?;
    }
    Ok((signature(folder)? == before).then_some(copy))
}

fn is_at_rest(signature: &FolderSignature) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().cast_signed();
    // A time stamp in the future comes from the clock of another host, and gives no information.
    signature.values().all(|(_, _, changed)| *changed > now || now - changed >= REST.as_nanos().cast_signed())
}

fn signature(folder: &Path) -> io::Result<FolderSignature> {
    let mut signature = FolderSignature::new();
    let mut waiting = vec![(PathBuf::new(), 0)];
    while let Some((path, depth)) = waiting.pop() {
        for entry in fs::read_dir(folder.join(&path))? {
            let entry = entry?;
            let (path, metadata) = (path.join(entry.file_name()), entry.metadata()?);
            if metadata.is_dir() && depth < STORE_DEPTH_MAX {
                waiting.push((path, depth + 1));
            } else if metadata.is_file() {
                let changed = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
                signature.insert(path, (metadata.ino(), metadata.len(), changed));
            }
            if signature.len() + waiting.len() > STORE_FILES_MAX {
                return Err(io::Error::other(format!(
                    "more than {STORE_FILES_MAX} files: this is not a store of Holdfast"
                )));
            }
        }
    }
    Ok(signature)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_what_the_folder_held_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("blobs")).unwrap();
        fs::write(folder.path().join("db"), "records").unwrap();
        fs::write(folder.path().join("blobs/7"), "a long one").unwrap();
        let copy = Copy::of(folder.path()).unwrap();
        let place = copy.path();
        assert_eq!(fs::read(place.join("db")).unwrap(), b"records");
        assert_eq!(fs::read(place.join("blobs/7")).unwrap(), b"a long one");
        drop(copy);
        assert!(!place.exists());
        assert_eq!(Copy::of(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_was_written_just_now_is_not_at_rest() {
        let folder = tempfile::tempdir().unwrap();
        let written = |ago: Duration| {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - ago;
            FolderSignature::from([(PathBuf::from("db"), (1, 1, at.as_nanos().cast_signed()))])
        };
        assert!(is_at_rest(&written(Duration::from_secs(1))) && !is_at_rest(&written(Duration::ZERO)));
        assert!(is_at_rest(&signature(folder.path()).unwrap()), "nothing is at rest");

        let file = folder.path().join("db");
        fs::write(&file, "one").unwrap();
        let before = signature(folder.path()).unwrap();
        while signature(folder.path()).unwrap() == before {
            // The operating system's clock for files advances in steps.
            thread::sleep(Duration::from_millis(1));
            fs::write(&file, "two").unwrap();
        }
    }
}
