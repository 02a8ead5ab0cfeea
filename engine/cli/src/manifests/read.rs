//! Reading of all files, and the changes since the last reading.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::{Object, Source};
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use holdfast_kubernetes::watching::DeletionGuard;

use super::definitions::{Definitions, ManifestPlace};
use super::entry::{KeptOfManifest, ManifestContents, ManifestDocument, ManifestEntry, UnservedObject};
use super::file::{File, merge, restless};
use super::files::{self, Lost, LostPaths, MANIFEST_FILES_MAX, ManifestFile, Readings, Root};
use super::held::DelayedDeletion;
use super::load::{LoadedFile, is_unchanged, load, load_all};
use super::tree::{ChangedFiles, FolderTree, FoundChange};
use super::{Incarnations, Problem};

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
    files: BTreeMap<ManifestPlace, File>,
    /// The files that each reading has to report or to consider.
    notable: BTreeSet<ManifestPlace>,
    /// The folders of the last search, if changed files can be found without a search.
    tree: Option<FolderTree>,
    definitions: Definitions,
    /// The objects beyond the limit, with the problem to report.
    beyond: (HashSet<ObjectKey>, Option<Problem>),
    reported: HashMap<ObjectKey, ReportedObject>,
    /// Reported objects that no file defines.
    gone: BTreeSet<ObjectKey>,
    /// Objects of an earlier run from files that could not be read since, with the file.
    unread: BTreeMap<ObjectKey, Arc<str>>,
    /// Since when too many objects are missing for an immediate deletion.
    pub(super) missing_since: Option<Instant>,
    first: bool,
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
    /// Objects without effect: of kinds of a gateway that are not read.
    pub unserved: Vec<UnservedObject>,
    /// The roots, as they were named.
    pub roots: String,
    /// The number of files.
    pub files: usize,
    /// The number of objects that are used.
    pub objects: usize,
    /// True if a file is still being written: another reading should follow soon.
    pub restless: bool,
    /// True if a file has to stay unchanged for longer, or missing objects are kept: another reading should follow,
    /// though less soon.
    pub waiting: bool,
    /// The duration of the search of all folders, if there was one.
    pub searched: Option<Duration>,
}

impl Manifests {
    /// Creates the manifests without reading them. If they are read once, the positions of all fields are kept, for
    /// reports.
    pub fn new(roots: Vec<Root>, incarnations: Incarnations, readings: Readings) -> Self {
        Self {
            roots,
            readings,
            kept: if readings == Readings::Once { KeptOfManifest::Marks } else { KeptOfManifest::Objects },
            guard: DeletionGuard::new(true),
            incarnations,
            files: BTreeMap::new(),
            notable: BTreeSet::new(),
            tree: None,
            definitions: Definitions::default(),
            beyond: (HashSet::new(), None),
            reported: HashMap::new(),
            gone: BTreeSet::new(),
            unread: BTreeMap::new(),
            missing_since: None,
            first: true,
        }
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
        self.read_with(&ChangedFiles::default())
    }

    /// As [`Self::read`]; with known changes only these files are looked at, if the last search allows it.
    pub(super) fn read_with(&mut self, changes: &ChangedFiles) -> ManifestReading {
        self.incarnations.begin();
        match self.found_changes(changes) {
            Some(found) => self.read_changed(found, &changes.complete),
            None => self.read_all(&changes.complete),
        }
    }

    /// Returns the current state of the changed files and of those that may still change; `None` if only a search shows
    /// it.
    fn found_changes(&self, changes: &ChangedFiles) -> Option<Vec<FoundChange>> {
        let tree = self.tree.as_ref()?;
        let unsettled = self.notable.iter().filter(|place| self.files.get(*place).is_some_and(File::is_unsettled));
        let mut paths: BTreeSet<&Path> = unsettled.map(|(_, path)| &**path).collect();
        paths.extend(changes.paths.as_ref()?.iter().map(PathBuf::as_path));
        // The search would report files beyond the limit.
        if self.files.len() + paths.len() > MANIFEST_FILES_MAX {
            return None;
        }
        paths.into_iter().filter_map(|path| tree.look(path).transpose()).collect::<Result<_, _>>().ok()
    }

    fn read_changed(&mut self, found: Vec<FoundChange>, complete: &HashSet<PathBuf>) -> ManifestReading {
        let mut reading = ManifestReading::default();
        for change in found {
            match change {
                FoundChange::File(found) => self.read_file(&found, None, complete, &mut reading),
                FoundChange::Gone(place) => self.remove_file(&place),
            }
        }
        self.compare(&LostPaths::default(), &mut reading);
        reading
    }

    fn read_all(&mut self, complete: &HashSet<PathBuf>) -> ManifestReading {
        let began = Instant::now();
        let findings = files::find(&self.roots, self.readings);
        let searched = Some(began.elapsed());
        let mut reading = ManifestReading { problems: findings.problems, searched, ..ManifestReading::default() };
        let paths = LostPaths::new(&findings.lost);
        let mut keeping = self.earlier_at(&paths);
        let mut before: BTreeSet<ManifestPlace> = self.files.keys().cloned().collect();
        // At the first reading, all files are new.
        let mut loaded = if self.first { load_all(&findings.files, self.kept) } else { Vec::new() }.into_iter();
        for found in findings.files {
            before.remove(&found.place());
            self.read_file(&found, loaded.next().flatten(), complete, &mut reading);
        }
        for place in before {
            match paths.of(&place.1) {
                Some(lost) => drop(keeping.insert(lost)),
                None => self.remove_file(&place),
            }
        }
        // The state of a file depends on these paths, too.
        let is_plain =
            reading.problems.is_empty() && keeping.is_empty() && findings.lost.iter().all(|lost| !lost.certain);
        self.tree = findings.tree.filter(|_| is_plain);
        let matters = |(index, lost): (usize, Lost)| (lost.certain || keeping.contains(&index)).then_some(lost.problem);
        reading.problems.extend(findings.lost.into_iter().enumerate().filter_map(matters));
        self.compare(&paths, &mut reading);
        self.first = false;
        reading
    }

    /// Reads a file that was found, if it changed and is not loaded yet.
    fn read_file(
        &mut self,
        found: &ManifestFile,
        loaded: Option<io::Result<LoadedFile>>,
        complete: &HashSet<PathBuf>,
        reading: &mut ManifestReading,
    ) {
        let place = found.place();
        let last = self.files.remove(&place);
        let Some(mut file) = self.file(found, loaded, last, complete, reading) else {
            return self.remove_file(&place);
        };
        if !file.is_indexed {
            self.definitions.replace(&place, file.own(), file.missing());
            file.is_indexed = true;
        }
        match file.is_notable() {
            true => self.notable.insert(place.clone()),
            false => self.notable.remove(&place),
        };
        self.files.insert(place, file);
    }

    fn remove_file(&mut self, place: &ManifestPlace) {
        self.files.remove(place);
        self.notable.remove(place);
        self.definitions.remove(place);
    }

    /// Returns whether a reading looks at the changed files only.
    #[cfg(test)]
    pub(super) fn looks_at_changes(&self, changes: &ChangedFiles) -> bool {
        self.found_changes(changes).is_some()
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
        loaded: Option<io::Result<LoadedFile>>,
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
            && !complete.contains(&*found.path);
        if young && !self.first {
            let since = restless_since.unwrap_or_else(Instant::now);
            if since.elapsed() < MANIFEST_REST_MAX {
                reading.restless = true;
                let file = last.unwrap_or_else(|| File::empty(found));
                return Some(File { restless_since: Some(since), ..file });
            }
        }
        reading.restless |= young;
        match loaded.unwrap_or_else(|| load(found)) {
            // It was written at its path after all.
            Ok(_) if complete.contains(&*found.path) && !is_unchanged(found) => Some(restless(found, last, reading)),
            Ok(LoadedFile { hash, .. })
                if last.as_ref().is_some_and(|last| last.hash == hash && last.contents.certain()) =>
            {
                last.map(|last| File { signature: found.signature.clone(), restless_since: None, ..last })
            }
            Ok(loaded) => {
                let hash = loaded.hash;
                let new = loaded.contents(&found.name, self.kept);
                let new = self.doubt_emptied(&found.name, last.as_ref(), new);
                let (new, set_aside) = self.set_aside(&found.name, last.as_ref(), new);
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
                    set_aside,
                    held,
                    restless_since: young.then(Instant::now),
                    is_indexed: false,
                })
            }
            // The next search shows whether the file was deleted, or is a link without a target.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reading.waiting = true;
                last
            }
            Err(error) => Some(self.unreadable(found, last, &error)),
        }
    }

    /// Returns the new state of a file that cannot be read: it keeps its objects.
    fn unreadable(&self, found: &ManifestFile, last: Option<File>, error: &io::Error) -> File {
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
        file
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

    /// Sets the objects of a file aside that does not parse and was read by an earlier run: the stored versions stay in
    /// use until it parses, as the versions that were read last do without a restart.
    fn set_aside(
        &self,
        name: &Arc<str>,
        last: Option<&File>,
        new: ManifestContents,
    ) -> (ManifestContents, Option<Vec<Arc<ManifestEntry>>>) {
        let is_known = || self.incarnations.read_from(|file| file == &**name).next().is_some();
        let is_first = self.first && self.readings == Readings::Repeated;
        let applies = last.map_or_else(|| is_first && is_known(), |last| last.set_aside.is_some());
        if new.complete || !applies {
            return (new, None);
        }
        let ManifestContents { entries, .. } = new;
        (ManifestContents { entries: Vec::new(), ..new }, Some(entries))
    }

    /// Takes the deleted objects, in order. If too many objects are missing, they are kept for [`MISSING_HELD`], since a
    /// tool may be rewriting the files.
    fn take_deleted(&mut self, reading: &mut ManifestReading) -> BTreeSet<ObjectKey> {
        let gone = self.gone.len();
        if !self.guard.doubts(gone, self.reported.len(), false) {
            self.missing_since = None;
            return std::mem::take(&mut self.gone);
        }
        if self.missing_since.get_or_insert_with(Instant::now).elapsed() >= MISSING_HELD {
            self.missing_since = None;
            return std::mem::take(&mut self.gone);
        }
        let message = format!(
            "{} of {} objects are missing from the files; they stay in use for {} s, and are deleted then. Restore \
             the files to keep them",
            gone,
            self.reported.len(),
            MISSING_HELD.as_secs()
        );
        reading.problems.push(Problem::of_file(reading.roots.clone(), message));
        reading.waiting = true;
        BTreeSet::new()
    }

    /// Compares the objects of changed files with those of the last reading.
    fn compare(&mut self, lost: &LostPaths, reading: &mut ManifestReading) {
        reading.files = self.files.len();
        let roots: Vec<_> = self.roots.iter().map(|root| root.path.to_string_lossy()).collect();
        reading.roots = roots.join(", ");
        for file in self.notable.iter().filter_map(|place| self.files.get(place)) {
            reading.problems.extend(file.contents.problems.iter().cloned());
            reading.problems.extend(file.held.as_ref().map(|held| held.problem(&file.name)));
            reading.foreign.extend(file.contents.foreign.iter().cloned());
            reading.unserved.extend(file.contents.unserved.iter().cloned());
        }
        let touched = self.touched();
        reading.problems.extend(self.beyond.1.clone());
        let mut changed = Vec::new();
        for key in touched {
            let Some(object) = self.defined(&key) else {
                let file = self.unread.get(&key);
                match file.filter(|_| self.reported.remove(&key).is_some()) {
                    // The file from which an earlier run read the object still does not parse.
                    Some(file) => reading.events.push(Event::Unread(key, format!("{file} cannot be read"))),
                    None if self.reported.contains_key(&key) => drop(self.gone.insert(key)),
                    None => {}
                }
                continue;
            };
            self.gone.remove(&key);
            if !self.reported.get(&key).is_some_and(|last| last.is_like(&object)) {
                changed.push((key, object));
            }
        }
        for key in self.take_deleted(reading) {
            self.incarnations.forget(&key);
            self.reported.remove(&key);
            reading.places.push((key.clone(), None));
            reading.events.push(Event::Deleted(key));
        }
        self.note_unread(lost, reading);
        for (key, object) in changed {
            reading.places.push((key.clone(), Some(object.entry.source.clone())));
            reading.events.push(self.event(&object));
            self.reported.insert(key, object);
        }
        reading.objects = self.reported.len() - self.gone.len();
        if self.first {
            let names: HashSet<_> = self.reported.keys().map(ToString::to_string).collect();
            // A file that does not parse gives no information about deleted objects.
            if self.unread.is_empty() && self.uncertain().next().is_none() {
                self.incarnations.keep_only(|name| names.contains(name));
            }
        }
    }

    /// Takes the objects that may have another definition than at the last reading, in order.
    fn touched(&mut self) -> BTreeSet<ObjectKey> {
        let mut touched = self.definitions.take_touched();
        if touched.is_empty() {
            return touched;
        }
        let (beyond, first) = self.definitions.beyond(MANIFEST_OBJECTS_MAX);
        touched.extend(beyond.symmetric_difference(&self.beyond.0).cloned());
        let problem = first.map(|entry| {
            let Source { file, line } = entry.source.clone();
            let message =
                format!("more than {MANIFEST_OBJECTS_MAX} objects; this object and later objects are ignored");
            Problem { file, line, column: 1, message }
        });
        self.beyond = (beyond, problem);
        touched
    }

    /// Returns the definition of an object that is used; of several definitions the first.
    fn defined(&self, key: &ObjectKey) -> Option<ReportedObject> {
        let (entry, second) = self.definitions.of(key).filter(|_| !self.beyond.0.contains(key))?;
        Some(ReportedObject { entry: entry.clone(), duplicate: second.map(|second| second.source.clone()) })
    }

    /// Returns the names of the files that may contain objects that cannot be read.
    fn uncertain(&self) -> impl Iterator<Item = &Arc<str>> {
        let files = self.notable.iter().filter_map(|place| self.files.get(place));
        files.filter(|file| !file.contents.certain()).map(|file| &file.name)
    }

    /// Keeps the objects that an earlier run read from a file that is unreadable at the start; they are not deleted.
    fn note_unread(&mut self, lost: &LostPaths, reading: &mut ManifestReading) {
        if !self.first && self.unread.is_empty() {
            return;
        }
        let uncertain: HashSet<Arc<str>> = self.uncertain().cloned().collect();
        let is_uncertain = |file: &str| uncertain.contains(file) || lost.of(Path::new(file)).is_some();
        if self.first {
            let unread = self.incarnations.read_from(&is_uncertain);
            self.unread = unread.map(|(key, file)| (key, file.into())).collect();
            let files = self.notable.iter().filter_map(|place| self.files.get(place));
            let set_aside: Vec<Arc<ManifestEntry>> =
                files.flat_map(|file| file.set_aside.iter().flatten()).cloned().collect();
            let set_aside: BTreeMap<&ObjectKey, &Arc<ManifestEntry>> =
                set_aside.iter().rev().map(|entry| (&entry.key, entry)).collect();
            let elsewhere: HashSet<ObjectKey> =
                self.unread.keys().filter(|key| self.defined(key).is_some()).cloned().collect();
            for (key, file) in self.unread.iter().filter(|(key, _)| !elsewhere.contains(*key)) {
                let here = set_aside.get(key).copied();
                let start = || Source { file: file.clone(), line: 1 };
                let why = format!("{file} cannot be read");
                reading.places.push((key.clone(), Some(here.map_or_else(start, |entry| entry.source.clone()))));
                let readable = here.and_then(|entry| Some((identified(entry, &mut self.incarnations)?, entry)));
                reading.events.push(match readable {
                    Some((object, entry)) => Event::Uncertain(object, entry.faults.clone(), why),
                    None => Event::Unread(key.clone(), why),
                });
            }
            return;
        }
        let settled: Vec<ObjectKey> =
            self.unread.iter().filter(|(_, file)| !is_uncertain(file)).map(|(key, _)| key.clone()).collect();
        for key in settled {
            self.unread.remove(&key);
            if self.defined(&key).is_some() {
                continue;
            }
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
        match identified(entry, &mut self.incarnations) {
            Some(object) => Event::Applied(object, faults),
            None => Event::Unusable(entry.key.clone(), faults),
        }
    }
}

/// Returns the object of an entry with its identity; `None` if it is unusable.
fn identified(entry: &ManifestEntry, incarnations: &mut Incarnations) -> Option<Box<Object>> {
    let identity = incarnations.meet(entry);
    let mut object = entry.object.clone()?;
    if object.metadata.uid.is_empty() {
        object.metadata.uid = identity.uid;
    }
    if object.metadata.generation == 0 {
        object.metadata.generation = identity.generation;
    }
    object.metadata.incarnation = identity.incarnation;
    Some(Box::new(object))
}
