//! Identity of objects without a UID from an API server: the incarnation of each name, kept across restarts.
//!
//! A name that is deleted and created again is another object; a restart of Holdfast changes nothing. All objects that
//! one reading finds new take the next number of one counter. So deleted objects need not be stored, and the number
//! serves as the age of an object without a creation time.
//!
//! The first line of the file has the identities of all objects, and each further line one change. A save appends the
//! changes, so that its cost does not depend on the number of objects; when the changes are as long as the first line, the
//! file is written again.

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
/// Size of the appended changes, in bytes, up to which the file is not written again.
const APPENDED_BYTES: u64 = 64 * 1024;

/// The stored identities of existing objects.
#[derive(Debug)]
pub struct Incarnations {
    file: Option<PathBuf>,
    kept: StoredIncarnations,
    /// The changes since the last save; `None` if the file has to be written as a whole.
    unsaved: Option<Vec<ChangedLife>>,
    /// The sizes of the first line and of the changes after it, in bytes.
    written: (u64, u64),
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
    /// Hash of the content, in hexadecimal digits.
    #[serde(with = "hexadecimal")]
    content: [u8; 16],
    /// The file that the object was read from; empty if an earlier version of Holdfast wrote the record.
    #[serde(default)]
    file: Arc<str>,
}

/// The form of a hash in the file. A text that is none is no content that an object has.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(*hash)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(u128::from_str_radix(&text, 16).unwrap_or_default().to_be_bytes())
    }
}

/// A further line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct ChangedLife {
    name: String,
    /// Unset if the object is gone.
    life: Option<Life>,
    next: u64,
}

/// The content of the file.
struct ReadIncarnations {
    kept: StoredIncarnations,
    /// The sizes of the first line and of the changes, in bytes; `None` if the last change is cut off.
    written: Option<(u64, u64)>,
}

impl Incarnations {
    /// Identities for a single reading, which are not stored.
    pub fn in_memory() -> Self {
        Self::of(None, ReadIncarnations::nothing())
    }

    fn of(file: Option<PathBuf>, read: ReadIncarnations) -> Self {
        let ReadIncarnations { kept, written } = read;
        let unsaved = written.map(|_| Vec::new());
        Self { file, reading: kept.next, kept, unsaved, written: written.unwrap_or_default() }
    }

    /// The identities of a data folder. A file that cannot be parsed is set aside with a warning.
    ///
    /// # Errors
    /// Returns an error if the file exists and cannot be read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join(FILE);
        let kept = match read(&file)? {
            None => ReadIncarnations::nothing(),
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
            None => ReadIncarnations::nothing(),
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
        let (content, file) = (entry.content, entry.source.file.clone());
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
            self.note(&name, Some(&life));
            self.kept.objects.insert(name, life);
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
        if self.kept.objects.len() != before {
            self.unsaved = None;
        }
    }

    /// Removes an object.
    pub fn forget(&mut self, key: &ObjectKey) {
        let name = key.to_string();
        if self.kept.objects.remove(&name).is_some() {
            self.note(&name, None);
        }
    }

    /// Notes a change for the next save.
    fn note(&mut self, name: &str, life: Option<&Life>) {
        let change = || ChangedLife { name: name.to_owned(), life: life.cloned(), next: self.kept.next };
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.push(change());
        }
    }

    /// Saves changes: appends them, or writes another file and renames it.
    ///
    /// # Errors
    /// Returns an error of the file system; the identities of the last save are intact then.
    pub fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let Some(changes) = &self.unsaved else { return self.write_all(&file) };
        if changes.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for change in changes {
            lines.push(b'\n');
            serde_json::to_writer(&mut lines, change).map_err(io::Error::other)?;
        }
        let (first, appended) = (self.written.0, self.written.1 + lines.len() as u64);
        if appended > first.max(APPENDED_BYTES) {
            return self.write_all(&file);
        }
        // A part of the lines may be written: what follows them would not be read.
        self.unsaved = None;
        let mut file = fs::File::options().append(true).open(file)?;
        file.write_all(&lines)?;
        file.sync_data()?;
        (self.unsaved, self.written) = (Some(Vec::new()), (first, appended));
        Ok(())
    }

    fn write_all(&mut self, file: &Path) -> io::Result<()> {
        self.unsaved = None;
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(io::BufWriter::new(&mut new), &self.kept).map_err(io::Error::other)?;
        new.flush()?;
        new.as_file().sync_all()?;
        let bytes = new.as_file().metadata()?.len();
        new.persist(file)?;
        (self.unsaved, self.written) = (Some(Vec::new()), (bytes, 0));
        Ok(())
    }
}

impl ReadIncarnations {
    /// No identities, and no file yet.
    fn nothing() -> Self {
        Self { kept: StoredIncarnations::nothing(), written: None }
    }

    /// Parses the content of the file. What follows a line that cannot be parsed is ignored: a save that was interrupted
    /// wrote it.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let mut kept = serde_json::from_slice::<StoredIncarnations>(first).map_err(|error| error.to_string())?;
        if kept.format != FORMAT {
            return Err("unknown format version".into());
        }
        let first = first.len() as u64;
        let mut written = Some((first, bytes.len() as u64 - first));
        for line in lines {
            let Ok(ChangedLife { name, life, next }) = serde_json::from_slice(line) else {
                written = None;
                break;
            };
            kept.next = next;
            match life {
                Some(life) => kept.objects.insert(name, life),
                None => kept.objects.remove(&name),
            };
        }
        Ok(Self { kept, written })
    }
}

impl StoredIncarnations {
    fn nothing() -> Self {
        Self { format: FORMAT, next: 1, objects: BTreeMap::new() }
    }
}

/// The content of the file; `None` if there is none, and a reason if it cannot be parsed.
fn read(file: &Path) -> io::Result<Option<Result<ReadIncarnations, String>>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(ReadIncarnations::parse(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the file aside. The assigned numbers are lost with it, so the counter continues above all possible old ones.
fn set_aside(file: &Path, why: &str) -> io::Result<ReadIncarnations> {
    let aside = file.with_extension("json.unreadable");
    fs::rename(file, &aside)?;
    tracing::warn!(file = %file.display(), aside = %aside.display(), why, "renamed a file that cannot be parsed; \
                                                                           objects get new identities");
    let next = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let kept = StoredIncarnations { format: FORMAT, next, objects: BTreeMap::new() };
    Ok(ReadIncarnations { kept, written: None })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::object::Source;

    use super::*;

    fn entry(name: &str, content: u8) -> ManifestEntry {
        let key = ObjectKey::new("", "Service", "a", name);
        let source = Source { file: "f".into(), line: 1 };
        ManifestEntry { key, object: None, faults: Vec::new(), content: [content; 16], source, marks: None }
    }

    /// A save that was interrupted costs its own changes only, and the next save writes all of them.
    #[test]
    fn changes_are_appended_and_a_cut_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let open = || Incarnations::open(folder.path()).unwrap();
        let mut first = open();
        first.begin();
        first.meet(&entry("x", 1));
        first.save().unwrap();
        let whole = fs::read(&path).unwrap();
        first.begin();
        first.meet(&entry("x", 2));
        let y = first.meet(&entry("y", 1));
        first.save().unwrap();
        first.forget(&entry("x", 2).key);
        first.save().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.starts_with(&whole) && bytes.len() > whole.len());

        let mut again = open();
        again.begin();
        assert_eq!(again.meet(&entry("y", 1)), y);
        assert_eq!(again.meet(&entry("x", 2)).incarnation, 3);

        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut cut = open();
        cut.begin();
        let x = cut.meet(&entry("x", 2));
        assert_eq!((x.incarnation, x.generation), (1, 2), "its deletion was not saved");
        cut.meet(&entry("x", 3));
        cut.save().unwrap();
        assert_eq!(fs::read(&path).unwrap().iter().filter(|byte| **byte == b'\n').count(), 0);
        assert_eq!(open().meet(&entry("x", 3)).generation, 3);
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "{\"format\": 9").unwrap();
        assert_eq!(Incarnations::open(folder.path()).unwrap().meet(&entry("x", 1)).generation, 1);
        assert!(folder.path().join("incarnations.json.unreadable").exists());
    }

    #[test]
    fn many_changes_are_written_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut incarnations = Incarnations::open(folder.path()).unwrap();
        let size = || fs::metadata(folder.path().join(FILE)).unwrap().len();
        for content in 0..=u8::MAX {
            for _ in 0..4 {
                incarnations.meet(&entry("x", content));
                incarnations.meet(&entry("x", content.wrapping_add(1)));
                incarnations.save().unwrap();
                assert!(size() <= 2 * APPENDED_BYTES);
            }
        }
        assert!(size() > 1_000);
        let generation = Incarnations::open(folder.path()).unwrap().meet(&entry("x", 0)).generation;
        assert!(generation > 1_000, "{generation}");
    }
}
