//! The set of objects that a thing came from.

use std::sync::Arc;

use serde::Serialize;

use crate::ObjectKey;

/// The objects a resource, a route or a part of one was made from: sorted, without repeats.
///
/// Shared and immutable, so that the same set can stand on many parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Origins(Arc<[ObjectKey]>);

impl Origins {
    /// The origins of a thing made from one object.
    pub fn one(key: ObjectKey) -> Self {
        Self(Arc::from([key]))
    }

    /// All objects of several sets together.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a Origins>) -> Self {
        let mut sets = sets.into_iter();
        let Some(first) = sets.next() else { return Self::default() };
        let mut rest = sets.filter(|set| *set != first).peekable();
        if rest.peek().is_none() {
            return first.clone();
        }
        first.iter().cloned().chain(rest.flat_map(|set| set.iter().cloned())).collect()
    }

    /// This set and one object more.
    pub fn with(&self, key: ObjectKey) -> Self {
        if self.contains(&key) {
            return self.clone();
        }
        self.iter().cloned().chain([key]).collect()
    }

    /// Is the object among the origins?
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.0.binary_search(key).is_ok()
    }

    /// The objects, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, ObjectKey> {
        self.0.iter()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where nothing is known to have made the thing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<ObjectKey> for Origins {
    fn from_iter<I: IntoIterator<Item = ObjectKey>>(keys: I) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Self(keys.into())
    }
}

impl<'a> IntoIterator for &'a Origins {
    type Item = &'a ObjectKey;
    type IntoIter = std::slice::Iter<'a, ObjectKey>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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
    fn with_adds_only_what_is_missing() {
        let one = Origins::one(key("a"));
        assert_eq!(one.with(key("a")).len(), 1);
        assert!(one.with(key("b")).contains(&key("b")));
    }
}
