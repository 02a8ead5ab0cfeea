//! The store's folder: opening what is in it, bringing it to the disk, setting it aside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::trouble::{Trouble, guarded};

/// Folders of damaged stores that are kept; the oldest makes room.
pub(super) const DAMAGED_MAX: usize = 3;
/// Stores of others that are kept. None of them is ever deleted: beyond, no store is opened.
pub(super) const STRANGERS_MAX: usize = 3;
/// How often the lock is tried: sled frees it some time after its last user is gone.
const LOCK_TRIES_MAX: u32 = 60;
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Bytes of memory in which sled keeps pages: everything is read once and written seldom.
const SLED_MEMORY_BYTES: u64 = 16 * 1024 * 1024;
const LOG: &str = "db";
/// Says beside sled's files which generation was committed: sled takes damage in its log for the end of it, and files
/// that have lost everything for new ones.
const MARK: &str = "committed";
/// Bytes that must be free besides what is written. sled has been seen to wait for ever on a disk that is full, so that
/// it is not asked there.
const ROOM_BYTES: u64 = 3 * 1024 * 1024;
/// How long sled may take to end; after that it is left to itself.
const CLOSE_PAUSES_MAX: u32 = 2000;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// sled over an open folder.
pub(super) struct Files {
    folder: PathBuf,
    db: ::sled::Db,
}

impl Files {
    /// Opens a folder that is there, or makes it.
    pub(super) fn open(folder: &Path) -> Result<Self, Trouble> {
        create_private(folder)?;
        room(folder, 0)?;
        remove_unfinished(folder);
        let config = ::sled::Config::new()
            .path(folder)
            .cache_capacity(SLED_MEMORY_BYTES)
            .mode(::sled::Mode::HighThroughput)
            // What is committed is brought to the disk by us, at once.
            .flush_every_ms(None);
        let mut tries = 0;
        loop {
            match guarded(|| config.open()) {
                Err(Trouble::InUse) if tries < LOCK_TRIES_MAX => {
                    tries += 1;
                    thread::sleep(LOCK_PAUSE);
                }
                Err(trouble) => return Err(trouble),
                Ok(db) => {
                    make_private(folder);
                    return Ok(Self { folder: folder.to_owned(), db });
                }
            }
        }
    }

    /// The one tree: what is committed together stands together.
    pub(super) fn tree(&self) -> &::sled::Tree {
        &self.db
    }

    /// Commits, and returns when it is on the disk: sled's own flush hands it to the system only.
    pub(super) fn commit(
        &self,
        puts: Vec<(Vec<u8>, Vec<u8>)>,
        removed: Vec<::sled::IVec>,
        generation: u64,
    ) -> Result<(), Trouble> {
        let bytes = puts.iter().map(|(name, bytes)| (name.len() + bytes.len()) as u64).sum();
        room(&self.folder, bytes)?;
        let mut batch = ::sled::Batch::default();
        removed.into_iter().for_each(|name| batch.remove(name));
        puts.into_iter().for_each(|(name, bytes)| batch.insert(name, bytes));
        guarded(|| self.db.apply_batch(batch))?;
        guarded(|| self.db.flush())?;
        File::open(self.folder.join(LOG))?.sync_all()?;
        // Without the mark a loss would be silent; it is no reason to refuse what is on the disk. It need not be there
        // after a power cut: an older one says less, and nothing wrong.
        let _ = fs::write(self.folder.join(MARK), mark(generation));
        // sled makes files (snapshots among them) as it likes.
        make_private(&self.folder);
        Ok(())
    }

    /// The generation that was committed to this folder, as far as is known; 0 for none.
    pub(super) fn marked(&self) -> u64 {
        let Ok(bytes) = fs::read(self.folder.join(MARK)) else { return 0 };
        let generation = bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if bytes == mark(generation) { generation } else { 0 }
    }

    /// Ends sled, which writes what it has; there it has been seen to panic, and to wait for ever.
    pub(super) fn close(self) {
        let db = self.db;
        let ending = thread::Builder::new().name("store-close".into()).spawn(move || {
            let _ = guarded(|| {
                drop(db);
                Ok::<(), Trouble>(())
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

/// A generation, with a digest of itself.
fn mark(generation: u64) -> Vec<u8> {
    let generation = generation.to_le_bytes();
    [&generation[..], &blake3::hash(&generation).as_bytes()[..8]].concat()
}

/// Is there room for so many bytes more?
fn room(folder: &Path, bytes: u64) -> Result<(), Trouble> {
    let system = rustix::fs::statvfs(folder).map_err(std::io::Error::from)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free < bytes.saturating_mul(2).saturating_add(ROOM_BYTES) {
        return Err(Trouble::Full(format!("{free} bytes are free")));
    }
    Ok(())
}

/// Takes away sled's snapshot of its own tables, which it can make anew.
pub(super) fn remove_snapshots(folder: &Path) -> Result<(), Trouble> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Takes away snapshots that sled was killed over: sled 0.34 reads a `snap.….generating` as if it were whole, and writes
/// a shorter one over it without cutting it. While somebody else uses the folder nothing is touched.
fn remove_unfinished(folder: &Path) {
    let Ok(log) = File::open(folder.join(LOG)) else { return };
    // sled locks this very file; the lock goes with `log`.
    if rustix::fs::flock(&log, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            // One that stays is found by sled, and healed as any damaged snapshot is.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Is there something in the folder that sled did not make?
pub(super) fn is_strange(folder: &Path) -> Result<bool, Trouble> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some() && !is_sled(folder)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Does it look like one of sled's folders?
pub(super) fn is_sled(folder: &Path) -> bool {
    [LOG, "conf", "blobs"].iter().any(|name| folder.join(name).exists())
}

/// Moves a folder out of the way. Says where it is now, and which one had to go for it.
pub(super) fn set_aside(folder: &Path, why: Aside) -> Result<(PathBuf, Option<PathBuf>), Trouble> {
    let named = |number: usize| {
        let mut name = folder.as_os_str().to_owned();
        name.push(format!(".{}-{number}", why.word()));
        PathBuf::from(name)
    };
    let places: Vec<PathBuf> = (1..=why.max()).map(named).collect();
    let free = places.iter().find(|place| !place.exists());
    let (place, gone) = match (free, why) {
        (Some(place), _) => (place.clone(), None),
        (None, Aside::Damaged) => {
            let age = |place: &&PathBuf| fs::metadata(place).and_then(|it| it.modified()).ok();
            let Some(oldest) = places.iter().min_by_key(age) else {
                return Err(Trouble::Other("nothing can be set aside".into()));
            };
            remove(oldest)?;
            (oldest.clone(), Some(oldest.clone()))
        }
        (None, _) => {
            return Err(Trouble::Other(format!(
                "it is not to be used, and {} others like it stand beside it already: look at them, and remove those \
                 that nobody needs",
                places.len()
            )));
        }
    };
    fs::rename(folder, &place)?;
    if let Some(parent) = folder.parent() {
        let _ = File::open(parent).and_then(|parent| parent.sync_all());
    }
    // Renaming leaves times as they are: this is what tells the oldest.
    let _ = File::open(&place).and_then(|place| place.set_modified(std::time::SystemTime::now()));
    Ok((place, gone))
}

fn remove(path: &Path) -> Result<(), Trouble> {
    if path.is_dir() { Ok(fs::remove_dir_all(path)?) } else { Ok(fs::remove_file(path)?) }
}

/// Why a folder is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    Damaged,
    Newer,
    Other,
}

impl Aside {
    fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Newer => "newer",
            Self::Other => "other",
        }
    }

    fn max(self) -> usize {
        if self == Self::Damaged { DAMAGED_MAX } else { STRANGERS_MAX }
    }
}

/// Bytes of all files of a folder.
pub(super) fn bytes_on_disk(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(it) if it.is_dir() => bytes_on_disk(&entry.path()),
        Ok(it) => it.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// Lets only this user read the files of a folder: sled makes them with the mode that the process' umask leaves. The
/// folder itself is private, so that a file which is new since is not readable for others either.
fn make_private(folder: &Path) {
    #[cfg(unix)]
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        use std::os::unix::fs::PermissionsExt;
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            // A file that is gone, or another user's, keeps its mode.
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600));
        }
    }
}

/// Makes a folder that only this user may look into.
fn create_private(folder: &Path) -> Result<(), Trouble> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.create(folder)?)
}
