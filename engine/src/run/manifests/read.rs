//! Reads all files and says what changed since the last time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use holdfast_graph::ObjectKey;

use super::entry::{Contents, Entry, contents};
use super::files::{self, Found, Root, Signature};
use super::{Incarnations, Problem};
use crate::engine::Event;
use crate::fault::{Class, Fault};
use crate::object::Source;

/// The size of a file above which it is not read (bytes).
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many objects are used; those beyond, in the order of files, are not.
pub const OBJECTS_MAX: usize = 200_000;
/// A file that changed less than this ago may still be being written: what it last held stays until it has rested.
pub const REST: Duration = Duration::from_millis(40);
/// A file that never rests is read after this time all the same.
pub const REST_MAX: Duration = Duration::from_millis(500);

/// The manifests below some roots, as they were last read.
#[derive(Debug)]
pub struct Manifests {
    roots: Vec<Root>,
    keep_marks: bool,
    incarnations: Incarnations,
    /// By place of the root and path: the order in which definitions take precedence.
    files: BTreeMap<(usize, PathBuf), File>,
    told: HashMap<ObjectKey, Told>,
    /// Objects that an earlier run had from files that could not be read since, with the file.
    unread: BTreeMap<ObjectKey, Arc<str>>,
    first: bool,
}

#[derive(Debug)]
struct File {
    name: Arc<str>,
    signature: Signature,
    hash: blake3::Hash,
    contents: Contents,
    restless_since: Option<Instant>,
}

/// What was last said about an object.
#[derive(Debug, PartialEq)]
struct Told {
    entry: Arc<Entry>,
    duplicate: Option<Source>,
}

/// What a reading found.
#[derive(Debug, Default)]
pub struct Reading {
    /// What changed, deletions first.
    pub events: Vec<Event>,
    /// Where the objects of the events stand now; `None` for those that are deleted.
    pub places: Vec<(ObjectKey, Option<Source>)>,
    /// What is wrong with files and documents, in order.
    pub problems: Vec<Problem>,
    /// Objects of kinds that are not read.
    pub foreign: Vec<Problem>,
    /// The roots, as they were named.
    pub roots: String,
    /// How many files there are.
    pub files: usize,
    /// How many objects are used.
    pub objects: usize,
    /// True where some file is still being written: another reading should follow soon.
    pub restless: bool,
    /// True where something was read anew, or problems may be others than before.
    pub changed: bool,
}

impl Manifests {
    /// Nothing is read yet. `keep_marks` keeps the places of all fields, for reports.
    pub fn new(roots: Vec<Root>, incarnations: Incarnations, keep_marks: bool) -> Self {
        let (files, told, unread) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        Self { roots, keep_marks, incarnations, files, told, unread, first: true }
    }

    /// The roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The entry that is used for an object.
    pub fn entry(&self, key: &ObjectKey) -> Option<&Arc<Entry>> {
        self.told.get(key).map(|told| &told.entry)
    }

    /// Reads what changed in the file system.
    pub fn read(&mut self) -> Reading {
        let findings = files::find(&self.roots);
        let mut reading = Reading { problems: findings.problems, changed: self.first, ..Reading::default() };
        let mut before = std::mem::take(&mut self.files);
        for found in findings.files {
            let place = (found.root, found.path.clone());
            let last = before.remove(&place);
            if let Some(file) = self.file(&found, last, &mut reading) {
                self.files.insert(place, file);
            }
        }
        for (place, file) in before {
            if findings.lost_roots.contains(&place.0) {
                self.files.insert(place, file);
            } else {
                reading.changed = true;
            }
        }
        self.compare(&findings.lost_roots, &mut reading);
        self.first = false;
        reading
    }

    /// The new state of a file; `None` where there is nothing to say about it yet.
    fn file(&self, found: &Found, last: Option<File>, reading: &mut Reading) -> Option<File> {
        let restless_since = last.as_ref().and_then(|last| last.restless_since);
        let changed = last.as_ref().is_none_or(|last| last.signature != found.signature);
        if !changed && restless_since.is_none() {
            return last;
        }
        let young = SystemTime::now()
            .duration_since(found.signature.modified.unwrap_or(SystemTime::UNIX_EPOCH))
            .is_ok_and(|age| age < REST);
        if young && !self.first {
            let since = restless_since.unwrap_or_else(Instant::now);
            if since.elapsed() < REST_MAX {
                reading.restless = true;
                let file = last.unwrap_or_else(|| File::empty(found));
                return Some(File { restless_since: Some(since), ..file });
            }
        }
        reading.restless |= young;
        reading.changed = true;
        match load(found) {
            Ok((_, hash)) if last.as_ref().is_some_and(|last| last.hash == hash && last.contents.certain()) => {
                last.map(|last| File { signature: found.signature.clone(), restless_since: None, ..last })
            }
            Ok((bytes, hash)) => {
                let new = contents(&found.name, &bytes, self.keep_marks);
                Some(File {
                    name: found.name.clone(),
                    signature: found.signature.clone(),
                    hash,
                    contents: merge(last, new),
                    restless_since: young.then(Instant::now),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let mut file = last.unwrap_or_else(|| File::empty(found));
                let message = format!("cannot be read: {error}; what it last held stays");
                file.contents.problems = vec![Problem::of_file(found.name.clone(), message)];
                file.contents.complete = false;
                file.signature = found.signature.clone();
                file.restless_since = None;
                Some(file)
            }
        }
    }

    /// Compares all objects with those of the last reading.
    fn compare(&mut self, lost_roots: &[usize], reading: &mut Reading) {
        reading.files = self.files.len();
        let roots: Vec<_> = self.roots.iter().map(|root| root.path.to_string_lossy()).collect();
        reading.roots = roots.join(", ");
        for file in self.files.values() {
            reading.problems.extend(file.contents.problems.iter().cloned());
            reading.foreign.extend(file.contents.foreign.iter().cloned());
        }
        if !reading.changed {
            reading.objects = self.told.len();
            return;
        }
        let now = self.objects(&mut reading.problems);
        let mut gone: Vec<_> = self.told.keys().filter(|key| !now.contains_key(*key)).cloned().collect();
        gone.sort_unstable();
        for key in gone {
            self.incarnations.forget(&key);
            self.told.remove(&key);
            reading.places.push((key.clone(), None));
            reading.events.push(Event::Deleted(key));
        }
        reading.objects = now.len();
        self.note_unread(&now, lost_roots, reading);
        for (key, told) in now {
            if self.told.get(&key) != Some(&told) {
                reading.places.push((key.clone(), Some(told.entry.source.clone())));
                reading.events.push(self.event(&told));
                self.told.insert(key, told);
            }
        }
        if self.first {
            let names: HashSet<_> = self.told.keys().map(ToString::to_string).collect();
            // A file that does not parse says nothing about which objects are gone.
            if lost_roots.is_empty() && self.files.values().all(|file| file.contents.certain()) {
                self.incarnations.keep_only(|name| names.contains(name));
            }
        }
    }

    /// A file that cannot be read at the start is no deletion of what an earlier run had from it.
    fn note_unread(&mut self, now: &BTreeMap<ObjectKey, Told>, lost_roots: &[usize], reading: &mut Reading) {
        let uncertain: HashSet<&str> =
            self.files.values().filter(|file| !file.contents.certain()).map(|file| &*file.name).collect();
        let lost: Vec<&Path> =
            lost_roots.iter().filter_map(|root| self.roots.get(*root)).map(|root| &*root.path).collect();
        let is_uncertain =
            |file: &str| uncertain.contains(file) || lost.iter().any(|root| Path::new(file).starts_with(root));
        if self.first {
            let unread = self.incarnations.read_from(&is_uncertain).filter(|(key, _)| !now.contains_key(key));
            self.unread = unread.map(|(key, file)| (key, file.into())).collect();
            for (key, file) in &self.unread {
                let message = format!("{file} cannot be read; what an earlier run stored of the object stays");
                let fault = Fault::new(key, Class::Invalid, "", "Unread", message);
                reading.places.push((key.clone(), Some(Source { file: file.clone(), line: 1 })));
                reading.events.push(Event::Unread(key.clone(), vec![fault]));
            }
            return;
        }
        self.unread.retain(|key, _| !now.contains_key(key));
        let settled: Vec<ObjectKey> =
            self.unread.iter().filter(|(_, file)| !is_uncertain(file)).map(|(key, _)| key.clone()).collect();
        for key in settled {
            self.unread.remove(&key);
            self.incarnations.forget(&key);
            reading.places.push((key.clone(), None));
            reading.events.push(Event::Deleted(key));
        }
    }

    /// Writes down which objects exist. To be called when what was read has been passed on: whatever is not written
    /// down when the process ends is found out again by the next reading.
    pub fn save(&mut self) {
        if let Err(error) = self.incarnations.save() {
            tracing::warn!(%error, "cannot write down which objects exist; after a restart some may count as new");
        }
    }

    /// The objects of all files; of several definitions of one object the first.
    fn objects(&self, problems: &mut Vec<Problem>) -> BTreeMap<ObjectKey, Told> {
        let mut objects: BTreeMap<ObjectKey, Told> = BTreeMap::new();
        for entry in self.files.values().flat_map(|file| &file.contents.entries) {
            if let Some(told) = objects.get_mut(&entry.key) {
                told.duplicate.get_or_insert_with(|| entry.source.clone());
            } else if objects.len() < OBJECTS_MAX {
                objects.insert(entry.key.clone(), Told { entry: entry.clone(), duplicate: None });
            } else {
                let Source { file, line } = entry.source.clone();
                let message = format!("more than {OBJECTS_MAX} objects; this one and those after it are not used");
                problems.push(Problem { file, line, column: 1, message });
                break;
            }
        }
        objects
    }

    fn event(&mut self, told: &Told) -> Event {
        let entry = &told.entry;
        let mut faults = entry.faults.clone();
        if let Some(other) = &told.duplicate {
            let here = &entry.source;
            let message = format!(
                "defined in {}:{} and again in {}:{}; the first one is used",
                here.file, here.line, other.file, other.line
            );
            faults.push(Fault::new(&entry.key, Class::Ignored, "", "DuplicateDefinition", message));
        }
        let (uid, generation) = self.incarnations.meet(entry);
        match &entry.object {
            Some(object) => {
                let mut object = object.clone();
                if object.metadata.uid.is_empty() {
                    object.metadata.uid = uid.into();
                }
                if object.metadata.generation == 0 {
                    object.metadata.generation = generation;
                }
                Event::Applied(Box::new(object), faults)
            }
            None => Event::Unusable(entry.key.clone(), faults),
        }
    }
}

impl File {
    /// A file of which nothing is known yet.
    fn empty(found: &Found) -> Self {
        Self {
            name: found.name.clone(),
            signature: found.signature.clone(),
            hash: blake3::hash(b""),
            contents: Contents::default(),
            restless_since: None,
        }
    }
}

/// A file that does not parse keeps what it last held; one that never parsed has what can be read of it. Where only a
/// document has lost its name, the objects that were there before stay beside the others: one of them is meant.
fn merge(last: Option<File>, new: Contents) -> Contents {
    let Some(last) = last.map(|last| last.contents.entries).filter(|entries| !entries.is_empty()) else { return new };
    if !new.complete {
        return Contents { entries: last, ..new };
    }
    if !new.nameless {
        return new;
    }
    let named: HashSet<_> = new.entries.iter().map(|entry| entry.key.clone()).collect();
    let missing = last.into_iter().filter(|entry| !named.contains(&entry.key));
    Contents { entries: new.entries.iter().cloned().chain(missing).collect(), ..new }
}

/// Reads a file.
fn load(found: &Found) -> io::Result<(Vec<u8>, blake3::Hash)> {
    if found.signature.bytes > FILE_BYTES_MAX {
        let message = format!("{} bytes are more than {FILE_BYTES_MAX}; split the file", found.signature.bytes);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let bytes = fs::read(&found.path)?;
    let hash = blake3::hash(&bytes);
    Ok((bytes, hash))
}
