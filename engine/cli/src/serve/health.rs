//! Liveness and readiness: named checks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use holdfast_engine::health::Summary;

use super::heartbeat::Heartbeat;

/// The checks of `/readyz`.
#[derive(Debug, Default)]
pub struct Readiness {
    /// All objects were read once.
    pub objects: AtomicBool,
    /// All objects were translated once, and the result is published.
    pub translation: AtomicBool,
    /// The xDS server listens.
    pub xds: AtomicBool,
    /// The product is ending.
    pub ending: AtomicBool,
    /// The heartbeat of the main loop.
    pub heartbeat: Heartbeat,
    /// The last reported summary of health.
    served: Mutex<Option<Summary>>,
}

impl Readiness {
    /// Every check by name, and whether it passes.
    pub fn checks(&self) -> [(&'static str, bool); 4] {
        [
            ("objects", self.objects.load(Relaxed)),
            ("translation", self.translation.load(Relaxed)),
            ("xds", self.xds.load(Relaxed)),
            ("not-ending", !self.ending.load(Relaxed)),
        ]
    }

    /// Stores the summary of health.
    pub fn note(&self, summary: Summary) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
    }

    /// The last reported summary of health; `None` before the first report.
    pub fn served(&self) -> Option<Summary> {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a check as passed.
    pub fn pass(check: &AtomicBool) {
        check.store(true, Relaxed);
    }
}
