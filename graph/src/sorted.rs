//! Sets of few elements in one list: a node of a B-tree has room for eleven elements, and most sets have one.

use std::slice::Iter;

/// Number of elements up to which the list has no spare room.
const TIGHT: usize = 8;

/// A sorted list without duplicates. A set of one element has the size of that element; adding an element to a large set
/// moves the ones after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortedSet<T>(Vec<T>);

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> SortedSet<T> {
    /// Returns whether the element is in the set.
    pub fn contains(&self, element: &T) -> bool {
        self.0.binary_search(element).is_ok()
    }

    /// Adds an element. Returns whether it is new.
    pub fn insert(&mut self, element: T) -> bool {
        let Err(at) = self.0.binary_search(&element) else { return false };
        if self.0.len() < TIGHT {
            self.0.reserve_exact(1);
        }
        self.0.insert(at, element);
        true
    }

    /// Returns the elements that are not in the other set, in order.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.0.iter().filter(|element| !other.contains(element))
    }
}

impl<T> SortedSet<T> {
    /// Returns the elements in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Ord> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements: Vec<T> = elements.into_iter().collect();
        elements.sort_unstable();
        elements.dedup();
        elements.shrink_to_fit();
        Self(elements)
    }
}

impl<T: Ord> Extend<T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        let mut elements = elements.into_iter();
        if elements.size_hint().0 < TIGHT {
            for element in elements {
                self.insert(element);
            }
        } else if let Some(first) = elements.next() {
            let own = std::mem::take(&mut self.0);
            *self = own.into_iter().chain([first]).chain(elements).collect();
        }
    }
}

impl<'a, T> IntoIterator for &'a SortedSet<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> IntoIterator for SortedSet<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_elements_are_those_of_a_b_tree() {
        let numbers = [5, 3, 9, 3, 1, 5, 7, 2, 8, 8, 4, 6, 0, 11, 10];
        let expected: BTreeSet<i32> = numbers.into_iter().collect();
        let collected: SortedSet<i32> = numbers.into_iter().collect();
        let mut inserted = SortedSet::default();
        let new = numbers.into_iter().filter(|number| inserted.insert(*number)).count();
        let mut extended: SortedSet<i32> = [7, 5].into_iter().collect();
        extended.extend([5]);
        extended.extend(numbers);
        for set in [&collected, &inserted, &extended] {
            assert!(set.iter().eq(&expected));
        }
        assert_eq!((new, collected.len(), collected.is_empty()), (expected.len(), expected.len(), false));
        assert!(collected.contains(&7) && !collected.contains(&12));
        let other: SortedSet<i32> = (2..=11).collect();
        assert!(collected.difference(&other).eq(&[0, 1]) && other.difference(&collected).next().is_none());
    }

    #[test]
    fn a_set_of_few_elements_has_no_spare_room() {
        let mut set: SortedSet<i32> = [1, 1, 1, 1, 1].into_iter().collect();
        assert_eq!(set.0.capacity(), 1);
        set.extend([2]);
        assert_eq!(set.0.capacity(), 2);
    }
}
