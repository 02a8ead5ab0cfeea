//! Identity of objects without a UID from an API server: the incarnation of each name, kept across restarts.
//!
//! A name that is deleted and created again is another object; a restart of Holdfast changes nothing. All objects that
//! one reading finds new take the next number of one counter. So deleted objects need not be stored, and the number
//! serves as the age of an object without a creation time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::object::Metadata;
use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};

use super::entry::ManifestEntry;

/// The name of the file in the data folder.
pub const FILE: &str = "incarnations.json";
/// The format version of the file.
const FORMAT: u32 = 1;

/// The stored identities of existing objects.
#[derive(Debug)]
pub struct Incarnations {
    file: Option<PathBuf>,
    kept: StoredIncarnations,
    changed: bool,
    /// The number for objects that the current reading finds new.
    reading: u64,
}

/// The identity of an object that has none itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// Unique for each incarnation of a name.
    pub uid: Arc<str>,
    /// The number of the reading that found the object new.
    pub incarnation: u64,
    /// Counts the changes of the content, from 1.
    pub generation: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredIncarnations {
    format: u32,
    /// The number for objects that the next reading finds new.
    next: u64,
    objects: BTreeMap<String, Life>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Life {
    incarnation: u64,
    generation: i64,
    content: String,
    /// The file that the object was read from; empty if an earlier version of Holdfast wrote the record.
    #[serde(default)]
    file: String,
}

impl Incarnations {
    /// Identities for a single reading, which are not stored.
    pub fn in_memory() -> Self {
        Self::of(None, StoredIncarnations::nothing())
    }

    fn of(file: Option<PathBuf>, kept: StoredIncarnations) -> Self {
        Self { file, reading: kept.next, kept, changed: false }
    }

    /// The identities of a data folder. A file that cannot be parsed is set aside with a warning.
    ///
    /// # Errors
    /// Returns an error if the file exists and cannot be read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join(FILE);
        let kept = match read(&file)? {
            None => StoredIncarnations::nothing(),
            Some(Ok(kept)) => kept,
            Some(Err(why)) => set_aside(&file, &why)?,
        };
        Ok(Self::of(Some(file), kept))
    }

    /// The identities of a data folder for a single reading, which writes nothing.
    ///
    /// # Errors
    /// Returns an error if the file exists and cannot be read or parsed.
    pub fn look(folder: &Path) -> io::Result<Self> {
        let kept = match read(&folder.join(FILE))? {
            None => StoredIncarnations::nothing(),
            Some(kept) => kept.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{FILE}: {why}")))?,
        };
        Ok(Self::of(None, kept))
    }

    /// Begins a reading: objects that are new from here on are younger than all others, and of equal age.
    pub fn begin(&mut self) {
        self.reading = self.kept.next;
    }

    /// The identity of an object that has none itself.
    pub fn meet(&mut self, entry: &ManifestEntry) -> ObjectIdentity {
        let name = entry.key.to_string();
        let content: String = entry.content.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = entry.source.file.to_string();
        let life = match self.kept.objects.get(&name) {
            Some(life) if life.content == content => Life { file, ..life.clone() },
            Some(life) => Life { incarnation: life.incarnation, generation: life.generation + 1, content, file },
            None => {
                let incarnation = self.reading;
                self.kept.next = incarnation + 1;
                Life { incarnation, generation: 1, content, file }
            }
        };
        let (incarnation, generation) = (life.incarnation, life.generation);
        if self.kept.objects.get(&name) != Some(&life) {
            self.kept.objects.insert(name, life);
            self.changed = true;
        }
        ObjectIdentity { uid: Metadata::own_uid(&entry.key, incarnation), incarnation, generation }
    }

    /// The objects that were last read from the matching files, each with its file.
    pub fn read_from<'a>(&'a self, is_meant: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = (ObjectKey, &'a str)> {
        let meant = self.kept.objects.iter().filter(move |(_, life)| !life.file.is_empty() && is_meant(&life.file));
        meant.filter_map(|(name, life)| Some((name.parse().ok()?, &*life.file)))
    }

    /// Removes objects that no longer exist: a later object of the same name is another one.
    pub fn keep_only(&mut self, exists: impl Fn(&str) -> bool) {
        let before = self.kept.objects.len();
        self.kept.objects.retain(|name, _| exists(name));
        self.changed |= self.kept.objects.len() != before;
    }

    /// Removes an object.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.changed |= self.kept.objects.remove(&key.to_string()).is_some();
    }

    /// Saves changes: writes another file first, and renames it.
    ///
    /// # Errors
    /// Returns an error of the file system; the previous file is intact then.
    pub fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.changed) else { return Ok(()) };
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(io::BufWriter::new(&mut new), &self.kept).map_err(io::Error::other)?;
        new.flush()?;
        new.as_file().sync_all()?;
        new.persist(file)?;
        self.changed = false;
        Ok(())
    }
}

impl StoredIncarnations {
    fn nothing() -> Self {
        Self { format: FORMAT, next: 1, objects: BTreeMap::new() }
    }
}

/// The content of the file; `None` if there is none, and a reason if it cannot be parsed.
fn read(file: &Path) -> io::Result<Option<Result<StoredIncarnations, String>>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let kept = serde_json::from_slice::<StoredIncarnations>(&bytes).map_err(|error| error.to_string());
    Ok(Some(kept.and_then(|kept| if kept.format == FORMAT { Ok(kept) } else { Err("unknown format version".into()) })))
}

/// Sets the file aside. The assigned numbers are lost with it, so the counter continues above all possible old ones.
fn set_aside(file: &Path, why: &str) -> io::Result<StoredIncarnations> {
    let aside = file.with_extension("json.unreadable");
    fs::rename(file, &aside)?;
    tracing::warn!(file = %file.display(), aside = %aside.display(), why, "renamed a file that cannot be parsed; \
                                                                           objects get new identities");
    let next = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    Ok(StoredIncarnations { format: FORMAT, next, objects: BTreeMap::new() })
}
