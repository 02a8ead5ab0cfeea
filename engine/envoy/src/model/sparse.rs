//! Settings that most owners do not have: they take the room of a pointer until something is set.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Settings with a value in which nothing is set.
pub trait Blank: Default + PartialEq + 'static {
    /// Returns the settings in which nothing is set.
    fn blank() -> &'static Self;
}

/// Settings that are stored only where something is set. They are read and changed as if they were stored here.
#[derive(Clone)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Blank> From<T> for Sparse<T> {
    fn from(settings: T) -> Self {
        Self((settings != *T::blank()).then(|| Box::new(settings)))
    }
}

impl<T: Blank> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::blank())
    }
}

impl<T: Blank> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Blank> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Blank + fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::features::headers::HeaderEdits;

    use super::*;

    #[test]
    fn settings_are_stored_where_something_is_set() {
        let edits = HeaderEdits { remove: vec!["x-a".into()], ..HeaderEdits::default() };
        let (mut nothing, something) = (Sparse::from(HeaderEdits::default()), Sparse::from(edits.clone()));
        assert!(nothing.0.is_none() && nothing == Sparse::default() && nothing != something);
        assert_eq!((&*something, size_of_val(&something)), (&edits, size_of::<usize>()));
        nothing.remove.push("x-a".into());
        assert_eq!(nothing, something);
        nothing.remove.clear();
        assert_eq!(nothing, Sparse::default(), "an empty value is equal to none");
    }
}
