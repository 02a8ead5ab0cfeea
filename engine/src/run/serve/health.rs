//! Is the product alive, and is it ready? Each check has a name and a line.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::health::Summary;

/// The checks of `/readyz`.
#[derive(Debug, Default)]
pub struct Health {
    /// All objects were read once.
    pub objects: AtomicBool,
    /// They were translated once, and what came of it is published.
    pub translation: AtomicBool,
    /// The xDS server listens.
    pub xds: AtomicBool,
    /// The product is about to end.
    pub ending: AtomicBool,
    /// What of everything is served as it is desired, as it was known last.
    served: Mutex<Option<Summary>>,
}

impl Health {
    /// Every check by name, and whether it is passed.
    pub fn checks(&self) -> [(&'static str, bool); 4] {
        [
            ("objects", self.objects.load(Relaxed)),
            ("translation", self.translation.load(Relaxed)),
            ("xds", self.xds.load(Relaxed)),
            ("not-ending", !self.ending.load(Relaxed)),
        ]
    }

    /// Takes in what is served as it is desired.
    pub fn note(&self, summary: Summary) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
    }

    /// What is served as it is desired, as it was reported last; unset before the first report.
    pub fn served(&self) -> Option<Summary> {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a check as passed.
    pub fn pass(check: &AtomicBool) {
        check.store(true, Relaxed);
    }
}
