//! Index of the definitions of all objects over all files: which one is used, and which others exist.
//!
//! A change of a file visits the objects of that file only. The index knows neither files nor what was reported before.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::entry::ManifestEntry;

/// The place of a file in the order of precedence of definitions: the index of its root, and its path.
pub type ManifestPlace = (usize, Arc<Path>);

/// A definition of an object in a file.
#[derive(Clone, Debug)]
struct ManifestDefinition {
    /// Whether the object is missing from the file and is kept for a time: it may be defined in another file.
    kept: bool,
    place: ManifestPlace,
    /// The index among the definitions of the file.
    index: usize,
    entry: Arc<ManifestEntry>,
}

impl ManifestDefinition {
    fn rank(&self) -> (bool, &ManifestPlace, usize) {
        (self.kept, &self.place, self.index)
    }
}

/// The definitions of all objects.
#[derive(Debug, Default)]
pub struct Definitions {
    /// The definitions of each object in the order of precedence; never empty.
    by_key: HashMap<ObjectKey, Vec<ManifestDefinition>>,
    /// The objects that each file defines.
    by_place: HashMap<ManifestPlace, Vec<ObjectKey>>,
    /// The objects that may have another definition than before.
    touched: BTreeSet<ObjectKey>,
}

impl Definitions {
    /// Replaces the definitions of a file: its objects, and objects that are missing from it and are kept for a time.
    pub fn replace<'a>(
        &mut self,
        place: &ManifestPlace,
        own: impl Iterator<Item = &'a Arc<ManifestEntry>>,
        missing: impl Iterator<Item = &'a Arc<ManifestEntry>>,
    ) {
        self.remove(place);
        let own = own.map(|entry| (false, entry));
        let all = own.chain(missing.map(|entry| (true, entry))).enumerate();
        let mut keys = Vec::new();
        for (index, (kept, entry)) in all {
            let definition = ManifestDefinition { kept, place: place.clone(), index, entry: entry.clone() };
            let definitions = self.by_key.entry(entry.key.clone()).or_default();
            let at = definitions.partition_point(|other| other.rank() < definition.rank());
            if definitions.is_empty() {
                // Nearly all objects have one definition.
                definitions.reserve_exact(1);
            }
            definitions.insert(at, definition);
            keys.push(entry.key.clone());
        }
        keys.shrink_to_fit();
        self.touched.extend(keys.iter().cloned());
        if !keys.is_empty() {
            self.by_place.insert(place.clone(), keys);
        }
    }

    /// Removes the definitions of a file.
    pub fn remove(&mut self, place: &ManifestPlace) {
        for key in self.by_place.remove(place).into_iter().flatten() {
            if let Some(definitions) = self.by_key.get_mut(&key) {
                definitions.retain(|definition| definition.place != *place);
                if definitions.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            self.touched.insert(key);
        }
    }

    /// Takes the objects that may have another definition than at the last call, in order.
    pub fn take_touched(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the definition of an object that is used, and the second one if there are several.
    pub fn of(&self, key: &ObjectKey) -> Option<(&Arc<ManifestEntry>, Option<&Arc<ManifestEntry>>)> {
        let definitions = self.by_key.get(key)?;
        let first = definitions.first()?;
        let second = definitions.get(1).filter(|second| !second.kept);
        Some((&first.entry, second.map(|second| &second.entry)))
    }

    /// Returns the objects beyond a number of objects, and the first definition beyond it, in the order of precedence.
    pub fn beyond(&self, limit: usize) -> (HashSet<ObjectKey>, Option<Arc<ManifestEntry>>) {
        if self.by_key.len() <= limit {
            return (HashSet::new(), None);
        }
        let mut first: Vec<&ManifestDefinition> =
            self.by_key.values().filter_map(|definitions| definitions.first()).collect();
        first.sort_unstable_by(|a, b| a.rank().cmp(&b.rank()));
        let beyond = &first[limit..];
        let keys = beyond.iter().map(|definition| definition.entry.key.clone()).collect();
        (keys, beyond.first().map(|definition| definition.entry.clone()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::object::Source;

    use super::*;

    fn entry(name: &str, line: u32) -> Arc<ManifestEntry> {
        let key = ObjectKey::new("", "Service", "a", name);
        let source = Source { file: "f".into(), line };
        Arc::new(ManifestEntry { key, object: None, faults: Vec::new(), content: [0; 16], source, marks: None })
    }

    fn place(path: &str) -> ManifestPlace {
        (0, Path::new(path).into())
    }

    fn used(definitions: &Definitions, name: &str) -> Option<(u32, Option<u32>)> {
        let (first, second) = definitions.of(&entry(name, 0).key)?;
        Some((first.source.line, second.map(|second| second.source.line)))
    }

    #[test]
    fn the_first_definition_by_path_is_used_and_one_of_another_file_replaces_it() {
        let mut definitions = Definitions::default();
        definitions.replace(&place("b"), [entry("x", 2), entry("y", 3)].iter(), [].iter());
        definitions.replace(&place("a"), [entry("x", 1)].iter(), [].iter());
        assert_eq!(used(&definitions, "x"), Some((1, Some(2))));
        assert_eq!(definitions.take_touched().len(), 2);
        // A file without the object keeps it for a time, after all files that have it.
        definitions.replace(&place("a"), [].iter(), [entry("x", 1)].iter());
        assert_eq!(used(&definitions, "x"), Some((2, None)));
        definitions.remove(&place("b"));
        assert_eq!(used(&definitions, "x"), Some((1, None)));
        assert_eq!(used(&definitions, "y"), None);
        assert_eq!(definitions.take_touched().len(), 2);
    }

    #[test]
    fn objects_beyond_a_number_are_the_last_in_the_order_of_files() {
        let mut definitions = Definitions::default();
        definitions.replace(&place("b"), [entry("x", 1), entry("y", 2)].iter(), [].iter());
        definitions.replace(&place("a"), [entry("z", 3), entry("y", 4)].iter(), [].iter());
        assert_eq!(definitions.beyond(3).1, None);
        let (beyond, first) = definitions.beyond(1);
        assert_eq!(beyond, [entry("x", 0).key.clone(), entry("y", 0).key.clone()].into());
        assert_eq!(first.unwrap().source.line, 4);
    }
}
