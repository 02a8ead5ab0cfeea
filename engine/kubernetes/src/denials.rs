//! Missing permissions: each is reported once, until it is granted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::watch_problem::{WatchProblem, Why};

/// Maximum number of missing permissions that are reported at a time.
const DENIALS_MAX: usize = 100;

/// The missing permissions; clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<Mutex<BTreeMap<Arc<str>, String>>>);

impl Denials {
    /// Records a denied request: its subject, and a message that is equal each time.
    pub(crate) fn denied(&self, of: &str, message: &str) {
        let mut denials = self.lock();
        if denials.len() < DENIALS_MAX || denials.contains_key(of) {
            denials.insert(of.into(), message.to_owned());
        }
    }

    /// Records an allowed request.
    pub(crate) fn allowed(&self, of: &str) {
        self.lock().remove(of);
    }

    /// All missing permissions, in order.
    pub(crate) fn problems(&self) -> Vec<WatchProblem> {
        let problem = |(of, message): (&Arc<str>, &String)| WatchProblem {
            of: of.clone(),
            why: Why::Denied,
            message: message.clone(),
        };
        self.lock().iter().map(problem).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_denial_is_listed_once_up_to_the_limit() {
        let denials = Denials::default();
        for n in 0..DENIALS_MAX + 5 {
            denials.denied(&n.to_string(), "no");
            denials.denied("0", "no more");
        }
        let problems = denials.problems();
        assert_eq!((problems.len(), &*problems[0].message), (DENIALS_MAX, "no more"));
        denials.allowed("0");
        assert_eq!(denials.problems().len(), DENIALS_MAX - 1);
    }
}
