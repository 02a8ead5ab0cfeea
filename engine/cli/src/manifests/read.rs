//! Reading of all files, and the changes since the last reading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{
    fs,
    io::{self, Read as _},
};

use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Source;
use holdfast_engine::engine::Event;
use holdfast_engine::watching::DeletionGuard;
use holdfast_graph::ObjectKey;

use super::entry::{KeptOfManifest, ManifestContents, ManifestDocument, ManifestEntry, contents};
use super::files::{self, Lost, LostPaths, ManifestFile, Readings, Root, STDIN, Signature};
use super::held::DelayedDeletion;
use super::{Incarnations, Problem};

/// Maximum size of a file that is read, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of objects that are used; further objects, in the order of files, are not used.
pub const MANIFEST_OBJECTS_MAX: usize = 200_000;
/// How long a file must be unchanged before it is read, since a younger file may still be being written.
pub const REST: Duration = Duration::from_millis(40);
/// After this time a file that keeps changing is read in any case.
pub const MANIFEST_REST_MAX: Duration = Duration::from_millis(500);
/// How long missing objects are kept if more than half of all objects (and more than 10) are missing at once: a tool
/// may be rewriting the files.
pub const MISSING_HELD: Duration = Duration::from_secs(10);

/// The manifests below the roots, as they were last read.
#[derive(Debug)]
pub struct Manifests {
    roots: Vec<Root>,
    /// Reports, which read once, need the positions of all fields.
    readings: Readings,
    kept: KeptOfManifest,
    guard: DeletionGuard,
    incarnations: Incarnations,
    /// By root index and path, which is the order of precedence of definitions.
    files: BTreeMap<(usize, PathBuf), File>,
    reported: HashMap<ObjectKey, ReportedObject>,
    /// Objects of an earlier run from files that could not be read since, with the file.
    unread: BTreeMap<ObjectKey, Arc<str>>,
    /// Since when too many objects are missing for an immediate deletion.
    pub(super) missing_since: Option<Instant>,
    first: bool,
}

#[derive(Debug)]
struct File {
    name: Arc<str>,
    signature: Signature,
    hash: blake3::Hash,
    contents: ManifestContents,
    /// The objects missing since an in-place change of the file.
    held: Option<DelayedDeletion>,
    restless_since: Option<Instant>,
}

/// The last reported state of an object.
#[derive(Debug)]
struct ReportedObject {
    entry: Arc<ManifestEntry>,
    duplicate: Option<Source>,
}

impl ReportedObject {
    /// Compares two states; entries of files that were not read again are the same, so that contents are not compared.
    fn is_like(&self, other: &Self) -> bool {
        self.duplicate == other.duplicate && (Arc::ptr_eq(&self.entry, &other.entry) || self.entry == other.entry)
    }
}

/// The result of a reading.
#[derive(Debug, Default)]
pub struct ManifestReading {
    /// The changes, deletions first.
    pub events: Vec<Event>,
    /// The current positions of the objects in the events; `None` for deleted objects.
    pub places: Vec<(ObjectKey, Option<Source>)>,
    /// Problems of files and documents, in order.
    pub problems: Vec<Problem>,
    /// Objects of kinds that are not read.
    pub foreign: Vec<Problem>,
    /// The roots, as they were named.
    pub roots: String,
    /// The number of files.
    pub files: usize,
    /// The number of objects that are used.
    pub objects: usize,
    /// True if a file is still being written: another reading should follow soon.
    pub restless: bool,
    /// True if a file has to stay unchanged for longer: another reading should follow, though less soon.
    pub waiting: bool,
    /// True if a file was read again, or problems may have changed.
    pub changed: bool,
}

impl Manifests {
    /// Creates the manifests without reading them. If they are read once, the positions of all fields are kept, for
    /// reports.
    pub fn new(roots: Vec<Root>, incarnations: Incarnations, readings: Readings) -> Self {
        let (files, reported, unread) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        let (guard, missing_since) = (DeletionGuard::new(true), None);
        let kept = if readings == Readings::Once { KeptOfManifest::Marks } else { KeptOfManifest::Objects };
        Self { roots, readings, kept, guard, incarnations, files, reported, unread, missing_since, first: true }
    }

    /// Keeps the documents as they were written.
    pub(crate) fn keeping_documents(self) -> Self {
        Self { kept: KeptOfManifest::Documents, ..self }
    }

    /// The documents as they were written, if they are kept, in the order of files.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &ManifestDocument> {
        self.files.values().flat_map(|file| &file.contents.documents)
    }

    /// Replaces the guard against mass deletion.
    pub fn guarded(self, guard: DeletionGuard) -> Self {
        Self { guard, ..self }
    }

    /// The roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The roots without any object (not even of a kind that is not read) and without any other problem.
    pub fn empty_roots(&self) -> Vec<&Root> {
        let holds = |file: &File| !file.contents.is_empty();
        let full: HashSet<usize> =
            self.files.iter().filter(|(_, file)| holds(file)).map(|((root, _), _)| *root).collect();
        let empty = self.roots.iter().enumerate().filter(|(index, _)| !full.contains(index));
        empty.map(|(_, root)| root).collect()
    }

    /// The entry that is used for an object.
    pub fn entry(&self, key: &ObjectKey) -> Option<&Arc<ManifestEntry>> {
        self.reported.get(key).map(|object| &object.entry)
    }

    /// The entries of all objects that are used, in the order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        let mut entries: Vec<_> = self.reported.values().map(|object| &object.entry).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        entries.into_iter()
    }

    /// Reads the changes in the file system.
    pub fn read(&mut self) -> ManifestReading {
        self.read_with(&HashSet::new())
    }

    /// As [`Self::read`]. `complete`: files that are known not to be written any more, and need not rest.
    pub(super) fn read_with(&mut self, complete: &HashSet<PathBuf>) -> ManifestReading {
        self.incarnations.begin();
        let findings = files::find(&self.roots, self.readings);
        let mut reading =
            ManifestReading { problems: findings.problems, changed: self.first, ..ManifestReading::default() };
        let paths = LostPaths::new(&findings.lost);
        let mut keeping = self.earlier_at(&paths);
        let mut before = std::mem::take(&mut self.files);
        for found in findings.files {
            let place = (found.root, found.path.clone());
            let last = before.remove(&place);
            if let Some(file) = self.file(&found, last, complete, &mut reading) {
                self.files.insert(place, file);
            }
        }
        for (place, file) in before {
            if let Some(lost) = paths.of(&place.1) {
                keeping.insert(lost);
                self.files.insert(place, file);
            } else {
                reading.changed = true;
            }
        }
        let matters = |(index, lost): (usize, Lost)| (lost.certain || keeping.contains(&index)).then_some(lost.problem);
        reading.problems.extend(findings.lost.into_iter().enumerate().filter_map(matters));
        reading.changed |= self.missing_since.is_some() || !self.unread.is_empty();
        self.compare(&paths, &mut reading);
        self.first = false;
        reading
    }

    /// Simulates that a file has not changed for long.
    #[cfg(test)]
    pub(super) fn rest(&mut self, name: &str) {
        let files = self.files.iter_mut().filter(|((_, path), _)| path.ends_with(name));
        files.filter_map(|(_, file)| file.held.as_mut()).for_each(DelayedDeletion::rest);
    }

    /// The lost paths with objects of an earlier run that could not be read since.
    fn earlier_at(&self, lost: &LostPaths) -> HashSet<usize> {
        if lost.is_empty() {
            return HashSet::new();
        }
        let at = |file: &str| lost.of(Path::new(file));
        match self.first {
            true => {
                self.incarnations.read_from(move |file| at(file).is_some()).filter_map(|(_, file)| at(file)).collect()
            }
            false => self.unread.values().filter_map(|file| at(file)).collect(),
        }
    }

    /// The new state of a file; `None` if the state is still unknown.
    fn file(
        &self,
        found: &ManifestFile,
        last: Option<File>,
        complete: &HashSet<PathBuf>,
        reading: &mut ManifestReading,
    ) -> Option<File> {
        let restless_since = last.as_ref().and_then(|last| last.restless_since);
        let changed = last.as_ref().is_none_or(|last| last.signature != found.signature);
        if !changed && restless_since.is_none() {
            return last.map(|last| last.settle(reading));
        }
        let young = SystemTime::now()
            .duration_since(found.signature.modified.unwrap_or(SystemTime::UNIX_EPOCH))
            .is_ok_and(|age| age < REST)
            && !complete.contains(&found.path);
        if young && !self.first {
            let since = restless_since.unwrap_or_else(Instant::now);
            if since.elapsed() < MANIFEST_REST_MAX {
                reading.restless = true;
                let file = last.unwrap_or_else(|| File::empty(found));
                return Some(File { restless_since: Some(since), ..file });
            }
        }
        reading.restless |= young;
        reading.changed = true;
        match load(found) {
            // It was written at its path after all.
            Ok(_) if complete.contains(&found.path) && !is_unchanged(found) => Some(restless(found, last, reading)),
            Ok((_, hash)) if last.as_ref().is_some_and(|last| last.hash == hash && last.contents.certain()) => {
                last.map(|last| File { signature: found.signature.clone(), restless_since: None, ..last })
            }
            Ok((bytes, hash)) => {
                let new = contents(&found.name, &bytes, self.kept);
                let new = self.doubt_emptied(&found.name, last.as_ref(), new);
                let in_place = last.as_ref().is_some_and(|last| last.signature.is_same_file(&found.signature));
                let before = last.map(|last| last.everything().cloned().collect()).unwrap_or_default();
                let held = (in_place && self.guard.is_on())
                    .then(|| DelayedDeletion::of(Vec::clone(&before), &new, &found.signature))
                    .flatten();
                reading.waiting |= held.is_some();
                Some(File {
                    name: found.name.clone(),
                    signature: found.signature.clone(),
                    hash,
                    contents: merge(before, new),
                    held,
                    restless_since: young.then(Instant::now),
                })
            }
            // The next search shows whether the file was deleted, or is a link without a target.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reading.waiting = true;
                last
            }
            Err(error) => {
                let mut file = last.unwrap_or_else(|| File::empty(found));
                let kept = match self.readings {
                    Readings::Once => "",
                    Readings::Repeated => files::KEPT,
                };
                let message = format!("cannot be read: {error}{kept}");
                file.contents.problems = vec![Problem::of_file(found.name.clone(), message)];
                file.contents.complete = false;
                file.signature = found.signature.clone();
                file.restless_since = None;
                Some(file)
            }
        }
    }

    /// Treats an empty file that contained objects as incomplete: with a redirection a shell empties the file before
    /// the program that writes it starts. To delete the objects, users delete the file.
    fn doubt_emptied(&self, name: &Arc<str>, last: Option<&File>, new: ManifestContents) -> ManifestContents {
        if !new.is_empty() {
            return new;
        }
        let held = match last {
            Some(last) => last.everything().count(),
            None if self.first => self.incarnations.read_from(|file| file == &**name).count(),
            None => 0,
        };
        if held == 0 {
            return new;
        }
        let message = format!(
            "the file is empty and contained {held} object(s); they stay in use. Write the objects again, or delete \
             the file to delete them"
        );
        ManifestContents { problems: vec![Problem::of_file(name.clone(), message)], complete: false, ..new }
    }

    /// The deleted objects, in order. If too many objects are missing, they are kept for [`MISSING_HELD`], since a tool
    /// may be rewriting the files.
    fn deleted(&mut self, now: &BTreeMap<ObjectKey, ReportedObject>, reading: &mut ManifestReading) -> Vec<ObjectKey> {
        let mut gone: Vec<_> = self.reported.keys().filter(|key| !now.contains_key(*key)).cloned().collect();
        gone.sort_unstable();
        if !self.guard.doubts(gone.len(), self.reported.len(), false) {
            self.missing_since = None;
            return gone;
        }
        if self.missing_since.get_or_insert_with(Instant::now).elapsed() >= MISSING_HELD {
            self.missing_since = None;
            return gone;
        }
        let message = format!(
            "{} of {} objects are missing from the files; they stay in use for {} s, and are deleted then. Restore \
             the files to keep them",
            gone.len(),
            self.reported.len(),
            MISSING_HELD.as_secs()
        );
        reading.problems.push(Problem::of_file(reading.roots.clone(), message));
        Vec::new()
    }

    /// Compares all objects with those of the last reading.
    fn compare(&mut self, lost: &LostPaths, reading: &mut ManifestReading) {
        reading.files = self.files.len();
        let roots: Vec<_> = self.roots.iter().map(|root| root.path.to_string_lossy()).collect();
        reading.roots = roots.join(", ");
        for file in self.files.values() {
            reading.problems.extend(file.contents.problems.iter().cloned());
            reading.problems.extend(file.held.as_ref().map(|held| held.problem(&file.name)));
            reading.foreign.extend(file.contents.foreign.iter().cloned());
        }
        if !reading.changed {
            reading.objects = self.reported.len();
            return;
        }
        let now = self.objects(&mut reading.problems);
        for key in self.deleted(&now, reading) {
            self.incarnations.forget(&key);
            self.reported.remove(&key);
            reading.places.push((key.clone(), None));
            reading.events.push(Event::Deleted(key));
        }
        reading.objects = now.len();
        self.note_unread(&now, lost, reading);
        for (key, object) in now {
            if !self.reported.get(&key).is_some_and(|last| last.is_like(&object)) {
                reading.places.push((key.clone(), Some(object.entry.source.clone())));
                reading.events.push(self.event(&object));
                self.reported.insert(key, object);
            }
        }
        if self.first {
            let names: HashSet<_> = self.reported.keys().map(ToString::to_string).collect();
            // A file that does not parse gives no information about deleted objects.
            if self.unread.is_empty() && self.files.values().all(|file| file.contents.certain()) {
                self.incarnations.keep_only(|name| names.contains(name));
            }
        }
    }

    /// Keeps the objects that an earlier run read from a file that is unreadable at the start; they are not deleted.
    fn note_unread(
        &mut self,
        now: &BTreeMap<ObjectKey, ReportedObject>,
        lost: &LostPaths,
        reading: &mut ManifestReading,
    ) {
        let uncertain: HashSet<&str> =
            self.files.values().filter(|file| !file.contents.certain()).map(|file| &*file.name).collect();
        let is_uncertain = |file: &str| uncertain.contains(file) || lost.of(Path::new(file)).is_some();
        if self.first {
            let unread = self.incarnations.read_from(&is_uncertain).filter(|(key, _)| !now.contains_key(key));
            self.unread = unread.map(|(key, file)| (key, file.into())).collect();
            for (key, file) in &self.unread {
                reading.places.push((key.clone(), Some(Source { file: file.clone(), line: 1 })));
                reading.events.push(Event::Unread(key.clone(), format!("{file} cannot be read")));
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

    /// Saves which objects exist. To be called after the reading was forwarded: changes that are not saved when the
    /// process ends are found again by the next reading.
    pub fn save(&mut self) {
        if let Err(error) = self.incarnations.save() {
            tracing::warn!(%error, "cannot save the identities of objects; after a restart some objects may count as \
                                    new");
        }
    }

    /// The objects of all files; of several definitions of one object the first.
    fn objects(&self, problems: &mut Vec<Problem>) -> BTreeMap<ObjectKey, ReportedObject> {
        let mut objects: BTreeMap<ObjectKey, ReportedObject> = BTreeMap::new();
        for entry in self.files.values().flat_map(File::own) {
            if let Some(object) = objects.get_mut(&entry.key) {
                object.duplicate.get_or_insert_with(|| entry.source.clone());
            } else if objects.len() < MANIFEST_OBJECTS_MAX {
                objects.insert(entry.key.clone(), ReportedObject { entry: entry.clone(), duplicate: None });
            } else {
                let Source { file, line } = entry.source.clone();
                let message =
                    format!("more than {MANIFEST_OBJECTS_MAX} objects; this object and later objects are ignored");
                problems.push(Problem { file, line, column: 1, message });
                break;
            }
        }
        // An object that is missing from one file may be defined in another.
        for entry in self.files.values().flat_map(File::missing) {
            if objects.len() < MANIFEST_OBJECTS_MAX {
                let object = || ReportedObject { entry: entry.clone(), duplicate: None };
                objects.entry(entry.key.clone()).or_insert_with(object);
            }
        }
        objects
    }

    fn event(&mut self, reported: &ReportedObject) -> Event {
        let entry = &reported.entry;
        let mut faults = entry.faults.clone();
        if let Some(other) = &reported.duplicate {
            let here = &entry.source;
            let message = format!(
                "defined in {}:{} and again in {}:{}; the first one is used",
                here.file, here.line, other.file, other.line
            );
            faults.push(Fault::new(&entry.key, Class::Ignored, "", "DuplicateDefinition", message));
        }
        let identity = self.incarnations.meet(entry);
        match &entry.object {
            Some(object) => {
                let mut object = object.clone();
                if object.metadata.uid.is_empty() {
                    object.metadata.uid = identity.uid;
                }
                if object.metadata.generation == 0 {
                    object.metadata.generation = identity.generation;
                }
                object.metadata.incarnation = identity.incarnation;
                Event::Applied(Box::new(object), faults)
            }
            None => Event::Unusable(entry.key.clone(), faults),
        }
    }
}

impl File {
    /// A file with unknown content.
    fn empty(found: &ManifestFile) -> Self {
        Self {
            name: found.name.clone(),
            signature: found.signature.clone(),
            hash: blake3::hash(b""),
            contents: ManifestContents::default(),
            held: None,
            restless_since: None,
        }
    }

    /// The objects in the file, in the version to use.
    fn own(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        let used = |entry| self.held.as_ref().map_or(entry, |held| held.instead(entry));
        self.contents.entries.iter().map(used)
    }

    /// The objects that are missing from the file and are kept for a time.
    fn missing(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        self.held.iter().flat_map(DelayedDeletion::missing)
    }

    /// All objects of the file that are used.
    fn everything(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        self.own().chain(self.missing())
    }

    /// The state of an unchanged file: missing objects are dropped when their hold is over.
    fn settle(self, reading: &mut ManifestReading) -> Self {
        let Some(held) = &self.held else { return self };
        if held.is_over() && self.contents.certain() {
            reading.changed = true;
            return Self { held: None, ..self };
        }
        reading.waiting = true;
        self
    }
}

/// Merges the previous and the new objects of a file. A file that does not parse keeps its previous objects; a file
/// that never parsed has its readable objects. If only a document has lost its name, the previous objects are kept with
/// the new ones, since the document is probably one of them.
fn merge(last: Vec<Arc<ManifestEntry>>, new: ManifestContents) -> ManifestContents {
    if last.is_empty() || new.certain() {
        return new;
    }
    if !new.complete {
        return ManifestContents { entries: last, ..new };
    }
    let named: HashSet<_> = new.entries.iter().map(|entry| entry.key.clone()).collect();
    let missing = last.into_iter().filter(|entry| !named.contains(&entry.key));
    ManifestContents { entries: new.entries.iter().cloned().chain(missing).collect(), ..new }
}

/// Returns the state of a file that is still being written: it is read again soon.
fn restless(found: &ManifestFile, last: Option<File>, reading: &mut ManifestReading) -> File {
    reading.restless = true;
    File { restless_since: Some(Instant::now()), ..last.unwrap_or_else(|| File::empty(found)) }
}

/// Checks whether a file still has the signature with which it was found.
fn is_unchanged(found: &ManifestFile) -> bool {
    fs::metadata(&found.path).is_ok_and(|metadata| Signature::of(&metadata) == found.signature)
}

/// Reads a file.
fn load(found: &ManifestFile) -> io::Result<(Vec<u8>, blake3::Hash)> {
    if found.is_stream {
        let bytes = match found.path == Path::new(STDIN) {
            true => read_stream(io::stdin().lock()),
            false => fs::File::open(&found.path).and_then(read_stream),
        }?;
        let hash = blake3::hash(&bytes);
        return Ok((bytes, hash));
    }
    if found.signature.bytes > MANIFEST_BYTES_MAX {
        let message =
            format!("{} bytes exceed the limit of {MANIFEST_BYTES_MAX}; split the file", found.signature.bytes);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut file = open(&found.path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let hash = blake3::hash(&bytes);
    Ok((bytes, hash))
}

/// Reads a stream to its end; its size is not known before.
fn read_stream(stream: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        let message = format!("more bytes than the limit of {MANIFEST_BYTES_MAX}; split the input");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a file without blocking, since it may have become a pipe after it was found.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path)
}
