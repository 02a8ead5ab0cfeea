//! The readers of one input. Most inputs have one or two, for which a table would be mostly empty.

use std::collections::HashSet;
use std::hash::Hash;

/// Number of readers up to which they are a list.
const FEW: usize = 8;

/// The units that read an input.
#[derive(Debug)]
pub(super) enum InputReaders<U> {
    /// In no particular order, without spare room.
    Few(Vec<U>),
    #[expect(
        clippy::box_collection,
        reason = "a table has twice the size of a list, and nearly all readers are a list"
    )]
    Many(Box<HashSet<U>>),
}

impl<U> Default for InputReaders<U> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<U: Hash + Eq> InputReaders<U> {
    /// Adds a reader.
    pub(super) fn insert(&mut self, unit: U) {
        match self {
            Self::Few(units) if units.contains(&unit) => {}
            Self::Few(units) if units.len() < FEW => {
                units.reserve_exact(1);
                units.push(unit);
            }
            Self::Few(units) => *self = Self::Many(Box::new(units.drain(..).chain([unit]).collect())),
            Self::Many(units) => drop(units.insert(unit)),
        }
    }

    /// Removes a reader. Returns whether any is left.
    pub(super) fn remove(&mut self, unit: &U) -> bool {
        match self {
            Self::Few(units) => {
                units.retain(|known| known != unit);
                !units.is_empty()
            }
            Self::Many(units) => {
                units.remove(unit);
                !units.is_empty()
            }
        }
    }

    /// Returns the readers, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &U> + Clone + use<'_, U> {
        let (few, many) = match self {
            Self::Few(units) => (units.as_slice(), None),
            Self::Many(units) => (&[][..], Some(units.iter())),
        };
        few.iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn readers_are_a_set_in_either_form() {
        for count in [1, FEW, FEW + 1, 3 * FEW] {
            let mut readers = InputReaders::default();
            for unit in (0..count).chain(0..count) {
                readers.insert(unit);
            }
            assert_eq!(matches!(readers, InputReaders::Few(_)), count <= FEW, "{count}");
            assert_eq!(readers.iter().count(), count);
            assert_eq!(readers.iter().copied().collect::<BTreeSet<_>>(), (0..count).collect());
            for unit in 0..count {
                assert_eq!(readers.remove(&unit), unit + 1 < count);
            }
            assert_eq!(readers.iter().count(), 0);
        }
    }
}
