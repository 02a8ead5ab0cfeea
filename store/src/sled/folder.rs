//! Folder of the store: opening, syncing to the disk, and setting aside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::error::{SledError, guarded};

/// Number of folders of damaged stores that are kept; the oldest is removed for a new one.
pub(super) const DAMAGED_MAX: usize = 3;
/// Number of foreign stores that are kept. A foreign store is never deleted: beyond this number, no store is opened.
pub(super) const FOREIGN_MAX: usize = 3;
/// Number of attempts to get the lock: sled releases the lock some time after its last user is gone.
const LOCK_TRIES_MAX: u32 = 60;
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Size of the memory in which sled keeps pages, in bytes: all data is read once and rarely written.
const SLED_MEMORY_BYTES: u64 = 16 * 1024 * 1024;
const LOG: &str = "db";
/// File beside those of sled with the committed generation. It is needed because sled takes damage in its log for the
/// end of the log, and files that have lost all data for new ones.
const MARK: &str = "committed";
/// Number of bytes that must be free in addition to the written ones. sled may wait forever on a full disk, so it is
/// not called in that case.
const ROOM_BYTES: u64 = 3 * 1024 * 1024;
/// Number of pauses while sled ends; after that, its thread is abandoned.
const CLOSE_PAUSES_MAX: u32 = 2000;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// An open sled database with its folder.
pub(super) struct StoreFiles {
    folder: PathBuf,
    db: ::sled::Db,
}

impl StoreFiles {
    /// Opens a folder, or creates it.
    pub(super) fn open(folder: &Path) -> Result<Self, SledError> {
        create_private(folder)?;
        room(folder, 0)?;
        remove_unfinished(folder);
        let config = ::sled::Config::new()
            .path(folder)
            .cache_capacity(SLED_MEMORY_BYTES)
            .mode(::sled::Mode::HighThroughput)
            // Commits are synced to the disk at once, by `commit`.
            .flush_every_ms(None);
        let mut tries = 0;
        loop {
            match guarded(|| config.open()) {
                Err(SledError::InUse) if tries < LOCK_TRIES_MAX => {
                    tries += 1;
                    thread::sleep(LOCK_PAUSE);
                }
                Err(error) => return Err(error),
                Ok(db) => {
                    make_private(folder);
                    return Ok(Self { folder: folder.to_owned(), db });
                }
            }
        }
    }

    /// Returns the only tree: data that is committed together is in one tree.
    pub(super) fn tree(&self) -> &::sled::Tree {
        &self.db
    }

    /// Commits, and returns when the data is on the disk: the flush of sled itself only hands the data to the operating
    /// system.
    pub(super) fn commit(
        &self,
        puts: Vec<(Vec<u8>, Vec<u8>)>,
        removed: Vec<::sled::IVec>,
        generation: u64,
    ) -> Result<(), SledError> {
        let bytes = puts.iter().map(|(name, bytes)| (name.len() + bytes.len()) as u64).sum();
        room(&self.folder, bytes)?;
        let mut batch = ::sled::Batch::default();
        removed.into_iter().for_each(|name| batch.remove(name));
        puts.into_iter().for_each(|(name, bytes)| batch.insert(name, bytes));
        guarded(|| self.db.apply_batch(batch))?;
        guarded(|| self.db.flush())?;
        File::open(self.folder.join(LOG))?.sync_all()?;
        // Without the mark, a loss of data would be silent; a failure to write the mark is no reason to refuse data
        // that is on the disk. After a power failure the mark may be missing or older; an older mark detects less, and
        // reports nothing wrong.
        let _ = fs::write(self.folder.join(MARK), mark(generation));
        // sled creates files (for example snapshots) at any time.
        make_private(&self.folder);
        Ok(())
    }

    /// Returns the generation that was committed to this folder, as far as it is known; 0 for none.
    pub(super) fn marked(&self) -> u64 {
        let Ok(bytes) = fs::read(self.folder.join(MARK)) else { return 0 };
        let generation = bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if bytes == mark(generation) { generation } else { 0 }
    }

    /// Closes sled, which writes its pending data; sled may panic or wait forever at this point.
    pub(super) fn close(self) {
        let db = self.db;
        let ending = thread::Builder::new().name("store-close".into()).spawn(move || {
            let _ = guarded(|| {
                drop(db);
                Ok::<(), SledError>(())
            });
        });
        let Ok(ending) = ending else { return };
        for _ in 0..CLOSE_PAUSES_MAX {
            if ending.is_finished() {
                return;
            }
            thread::sleep(CLOSE_PAUSE);
        }
    }
}

/// Encodes a generation, with a digest of it.
fn mark(generation: u64) -> Vec<u8> {
    let generation = generation.to_le_bytes();
    [&generation[..], &blake3::hash(&generation).as_bytes()[..8]].concat()
}

/// Checks that there is space for a number of further bytes.
pub(super) fn room(folder: &Path, bytes: u64) -> Result<(), SledError> {
    let system = rustix::fs::statvfs(folder).map_err(std::io::Error::from)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let needed = bytes.saturating_mul(2).saturating_add(ROOM_BYTES);
    if free < needed {
        return Err(SledError::Full(format!("{free} bytes are free, {needed} bytes are needed")));
    }
    Ok(())
}

/// Removes the snapshot of sled's own tables, which sled can create again.
pub(super) fn remove_snapshots(folder: &Path) -> Result<(), SledError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes snapshots that are incomplete because sled was killed: sled 0.34 reads a `snap.….generating` as if it were
/// complete, and writes a shorter one over it without truncating it. While another process uses the folder, nothing is
/// removed.
fn remove_unfinished(folder: &Path) {
    let Ok(log) = File::open(folder.join(LOG)) else { return };
    // sled locks this same file; the lock is released with `log`.
    if rustix::fs::flock(&log, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            // A file that remains is found by sled, and repaired like any damaged snapshot.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether the folder has content that sled did not create.
pub(super) fn is_strange(folder: &Path) -> Result<bool, SledError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some() && !is_sled(folder)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the folder looks like a sled folder.
pub(super) fn is_sled(folder: &Path) -> bool {
    [LOG, "conf", "blobs"].iter().any(|name| folder.join(name).exists())
}

/// Moves a folder out of the way. Returns its new path, and the path of a folder that was removed for it.
pub(super) fn set_aside(folder: &Path, why: Aside) -> Result<(PathBuf, Option<PathBuf>), SledError> {
    let named = |number: usize| beside(folder, &format!("{}-{number}", why.label()));
    let places: Vec<PathBuf> = (1..=why.max()).map(named).collect();
    let free = places.iter().find(|place| !place.exists());
    let (place, gone) = match (free, why) {
        (Some(place), _) => (place.clone(), None),
        (None, Aside::Damaged) => {
            let age = |place: &&PathBuf| fs::metadata(place).and_then(|it| it.modified()).ok();
            let Some(oldest) = places.iter().min_by_key(age) else {
                return Err(SledError::Other("nothing can be set aside".into()));
            };
            remove(oldest)?;
            (oldest.clone(), Some(oldest.clone()))
        }
        (None, _) => {
            return Err(SledError::Other(format!(
                "it cannot be used, and {} others like it are beside it already: inspect them, and remove those that are not needed",
                places.len()
            )));
        }
    };
    fs::rename(folder, &place)?;
    let _ = sync_parent(folder);
    // Renaming does not change times: this time identifies the oldest folder. Opening a pipe would wait for a writer.
    if place.is_dir() || place.is_file() {
        let _ = File::open(&place).and_then(|place| place.set_modified(std::time::SystemTime::now()));
    }
    Ok((place, gone))
}

/// Returns the path of a folder beside this one, with this end of its name.
pub(super) fn beside(folder: &Path, end: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// Writes renamed entries beside a folder to the disk.
pub(super) fn sync_parent(folder: &Path) -> Result<(), SledError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref());
    Ok(File::open(parent)?.sync_all()?)
}

/// Removes a file, or a folder with its content.
pub(super) fn remove(path: &Path) -> Result<(), SledError> {
    if path.is_dir() { Ok(fs::remove_dir_all(path)?) } else { Ok(fs::remove_file(path)?) }
}

/// Reason why a folder is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    Damaged,
    Newer,
    Other,
}

impl Aside {
    fn label(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Newer => "newer",
            Self::Other => "other",
        }
    }

    fn max(self) -> usize {
        if self == Self::Damaged { DAMAGED_MAX } else { FOREIGN_MAX }
    }
}

/// Returns the size of all files of a folder, in bytes.
pub(super) fn bytes_on_disk(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(it) if it.is_dir() => bytes_on_disk(&entry.path()),
        Ok(it) => it.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// Removes permissions of other users from the files and folders in a folder: sled creates them with the mode that the
/// umask of the process allows. The folder itself is private, so that other users cannot read newer files either.
fn make_private(folder: &Path) {
    #[cfg(unix)]
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        use std::os::unix::fs::PermissionsExt;
        let Ok(metadata) = entry.metadata() else { continue };
        let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
        if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
            // A file that was removed or belongs to another user keeps its mode.
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode));
        }
        if metadata.is_dir() {
            make_private(&entry.path());
        }
    }
}

/// Creates a folder that only this user may read.
pub(super) fn create_private(folder: &Path) -> Result<(), SledError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.create(folder)?)
}
