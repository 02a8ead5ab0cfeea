//! Texts that many keys have in common: groups, kinds, namespaces, and sections of objects.
//!
//! Each thread has a table of the texts that it met first. The table only saves memory: a text that is not in it is as
//! good as one that is.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Number of texts that a thread shares. Objects are written by anyone: further texts are not shared.
const SHARED_TEXTS: usize = 1024;
/// Length of the longest text that is shared, in bytes.
const SHARED_TEXT_BYTES: usize = 64;

thread_local! {
    static TEXTS: RefCell<HashSet<Arc<str>>> = RefCell::default();
}

/// Returns an equal text, in the allocation that other owners of this text have, if any.
pub(crate) fn shared(text: Arc<str>) -> Arc<str> {
    if text.is_empty() {
        return Arc::default();
    }
    if text.len() > SHARED_TEXT_BYTES {
        return text;
    }
    let look_up = |texts: &RefCell<HashSet<Arc<str>>>| {
        // The table is in use only within this function, which does not call itself.
        let mut texts = texts.try_borrow_mut().ok()?;
        let known = texts.get(&text).cloned();
        if known.is_none() && texts.len() < SHARED_TEXTS {
            texts.insert(text.clone());
        }
        known
    };
    // A thread that ends has no table any more.
    TEXTS.try_with(look_up).ok().flatten().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_up_to_the_bounds() {
        let twice = |text: &str| [Arc::from(text), Arc::from(text)].map(shared);
        let is_one = |[one, other]: [Arc<str>; 2]| Arc::ptr_eq(&one, &other);
        assert!(is_one(twice("shop")) && is_one(twice("")));
        assert!(!is_one(twice(&"a".repeat(SHARED_TEXT_BYTES + 1))));
        for index in 0..SHARED_TEXTS {
            shared(format!("text-{index}").into());
        }
        assert!(!is_one(twice("one too many")) && is_one(twice("shop")));
    }
}
