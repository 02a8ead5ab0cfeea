//! Missing permissions: each is reported once, until it is granted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::watching::{Trouble, Why};

/// Maximum number of missing permissions that are reported at a time.
const DENIALS_MAX: usize = 100;

/// The missing permissions; clones share one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denials(Arc<Mutex<BTreeMap<Arc<str>, String>>>);

impl Denials {
    /// Records a denied request: its subject, and a message that is equal each time.
    pub(super) fn denied(&self, of: &str, message: &str) {
        let mut denials = self.lock();
        if denials.len() < DENIALS_MAX || denials.contains_key(of) {
            denials.insert(of.into(), message.to_owned());
        }
    }

    /// Records an allowed request.
    pub(super) fn allowed(&self, of: &str) {
        self.lock().remove(of);
    }

    /// All missing permissions, in order.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let trouble = |(of, message): (&Arc<str>, &String)| Trouble {
            of: of.clone(),
            why: Why::Denied,
            message: message.clone(),
        };
        self.lock().iter().map(trouble).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_once_and_no_more_than_so_many() {
        let denials = Denials::default();
        for n in 0..DENIALS_MAX + 5 {
            denials.denied(&n.to_string(), "no");
            denials.denied("0", "no more");
        }
        let troubles = denials.troubles();
        assert_eq!((troubles.len(), &*troubles[0].message), (DENIALS_MAX, "no more"));
        denials.allowed("0");
        assert_eq!(denials.troubles().len(), DENIALS_MAX - 1);
    }
}
