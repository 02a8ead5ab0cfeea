//! The set of objects from which a thing was made.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

use crate::{ObjectKey, visits};

/// Maximum number of objects in a union that is stored as a list; a larger union refers to its parts.
const WRITTEN_OUT_MAX: usize = 16;
/// Number of the first objects of a union that are gathered once.
const FIRST_KEPT: usize = 64;

/// The objects from which a resource, a route or a part of one was made: sorted, without duplicates.
///
/// The set is shared and immutable, so that many parts can use the same set. The origins of a large resource refer to
/// those of its parts, so that the cost of a union is the number of parts, not the number of objects.
#[derive(Clone, Debug)]
pub struct Origins(Arc<OriginsForm>);

#[derive(Debug)]
enum OriginsForm {
    /// Sorted, without duplicates.
    WrittenOut(Box<[ObjectKey]>),
    /// The union of other sets.
    Union(Box<Union>),
}

#[derive(Debug)]
struct Union {
    parts: Box<[Origins]>,
    /// The first objects in order.
    first: OnceLock<Box<[ObjectKey]>>,
}

impl Origins {
    /// Returns the origins of a thing that was made from one object.
    pub fn one(key: ObjectKey) -> Self {
        Self(Arc::new(OriginsForm::WrittenOut(Box::new([key]))))
    }

    /// Returns the union of several sets.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a Origins>) -> Self {
        let mut parts: Vec<Origins> = Vec::new();
        for set in sets {
            if parts.last().is_none_or(|last| !Arc::ptr_eq(&last.0, &set.0)) {
                parts.push(set.clone());
            }
        }
        if parts.len() == 1 {
            return parts.pop().unwrap_or_default();
        }
        let short = |part: &Origins| match &*part.0 {
            OriginsForm::WrittenOut(keys) => Some(keys.len()),
            OriginsForm::Union(_) => None,
        };
        match parts.iter().map(short).sum::<Option<usize>>() {
            Some(total) if total <= WRITTEN_OUT_MAX => parts.iter().flat_map(|part| part.iter()).cloned().collect(),
            _ => Self(Arc::new(OriginsForm::Union(Box::new(Union { parts: parts.into(), first: OnceLock::new() })))),
        }
    }

    /// Returns this set with one more object.
    pub fn with(&self, key: ObjectKey) -> Self {
        Self::union([self, &Self::one(key)])
    }

    /// Returns whether the object is among the origins.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        match &*self.0 {
            OriginsForm::WrittenOut(keys) => keys.binary_search(key).is_ok(),
            OriginsForm::Union(union) => union.parts.iter().any(|part| part.contains(key)),
        }
    }

    /// Returns the objects, in order, each once.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectKey> {
        let mut keys = BTreeSet::new();
        self.gather(&mut keys);
        keys.into_iter()
    }

    /// Returns the first objects in order, at most 64. For a union they are gathered once: a union of unions, of which most
    /// are known from before, costs the number of its parts.
    pub fn first(&self) -> &[ObjectKey] {
        match &*self.0 {
            OriginsForm::WrittenOut(keys) => keys.get(..FIRST_KEPT).unwrap_or(keys),
            OriginsForm::Union(union) => union.first.get_or_init(|| first_of(&union.parts)),
        }
    }

    fn gather<'a>(&'a self, keys: &mut BTreeSet<&'a ObjectKey>) {
        match &*self.0 {
            OriginsForm::WrittenOut(own) => keys.extend(own),
            OriginsForm::Union(union) => union.parts.iter().for_each(|part| part.gather(keys)),
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        match &*self.0 {
            OriginsForm::WrittenOut(keys) => keys.len(),
            OriginsForm::Union(_) => self.iter().count(),
        }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn first_of(parts: &[Origins]) -> Box<[ObjectKey]> {
    let (mut first, mut seen) = (BTreeSet::new(), 0);
    for part in parts {
        for key in part.first() {
            seen += 1;
            if first.len() == FIRST_KEPT && first.last().is_some_and(|last| key >= *last) {
                break;
            }
            first.insert(key);
            if first.len() > FIRST_KEPT {
                first.pop_last();
            }
        }
    }
    visits::objects(seen);
    first.into_iter().cloned().collect()
}

/// The empty set.
impl Default for Origins {
    fn default() -> Self {
        Self(Arc::new(OriginsForm::WrittenOut(Box::default())))
    }
}

/// Sets are equal where their objects are equal, whatever their form is.
impl PartialEq for Origins {
    fn eq(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            _ if Arc::ptr_eq(&self.0, &other.0) => true,
            (OriginsForm::WrittenOut(own), OriginsForm::WrittenOut(others)) => own == others,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Origins {}

impl FromIterator<ObjectKey> for Origins {
    fn from_iter<I: IntoIterator<Item = ObjectKey>>(keys: I) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Self(Arc::new(OriginsForm::WrittenOut(keys.into())))
    }
}

/// Serializes the set as a list of objects.
impl Serialize for Origins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("g", "K", "ns", name)
    }

    #[test]
    fn union_is_sorted_and_has_no_repeats() {
        let left: Origins = [key("b"), key("a")].into_iter().collect();
        let right: Origins = [key("c"), key("a")].into_iter().collect();
        let names: Vec<_> = Origins::union([&left, &right]).iter().map(|k| k.name.to_string()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn a_large_union_is_equal_to_the_set_written_out() {
        let keys: Vec<ObjectKey> = (0..40).map(|index| key(&format!("k{index}"))).collect();
        let parts: Vec<Origins> = keys.chunks(3).map(|chunk| chunk.iter().cloned().collect()).collect();
        let union = Origins::union(&parts);
        assert_eq!(union, keys.iter().cloned().collect());
        assert_ne!(union, keys.iter().skip(1).cloned().collect());
        assert_eq!((union.len(), union.contains(&key("k17")), union.contains(&key("k40"))), (40, true, false));
    }

    #[test]
    fn the_first_objects_of_a_union_are_those_of_the_set_written_out() {
        let keys: Vec<ObjectKey> = (0..1_000).map(|index| key(&format!("k{}", index * 7 % 1_000))).collect();
        for count in [0, 1, 16, 63, 64, 65, 1_000] {
            let parts: Vec<Origins> = keys[..count].chunks(3).map(|chunk| chunk.iter().cloned().collect()).collect();
            let unions: Vec<Origins> = parts.chunks(30).map(Origins::union).collect();
            let union = Origins::union(unions.iter().chain(&parts[..parts.len().min(5)]));
            let expected: Vec<ObjectKey> = union.iter().take(64).cloned().collect();
            assert_eq!(union.first(), expected, "{count}");
        }
    }

    #[test]
    fn with_adds_only_what_is_missing() {
        let one = Origins::one(key("a"));
        assert_eq!(one.with(key("a")).len(), 1);
        assert!(one.with(key("b")).contains(&key("b")));
    }
}
