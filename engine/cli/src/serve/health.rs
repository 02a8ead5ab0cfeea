//! Liveness and readiness: named checks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use holdfast_engine::health::view::Inputs;
use holdfast_engine::health::{Health, Summary};
use tokio::sync::watch;

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
    /// The last reported health.
    served: Mutex<Option<Health>>,
    /// The number of changes of the reported health.
    changes: watch::Sender<u64>,
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

    /// Stores the reported health.
    pub fn note(&self, health: Health) {
        // The age of the last answer of the API server grows all the time.
        let inputs = Inputs { sources: Vec::new(), ..health.inputs.clone() };
        let health = Some(Health { inputs, ..health });
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if *served != health {
            *served = health;
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The summary of the last reported health; `None` before the first report.
    pub fn served(&self) -> Option<Summary> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Health::summary)
    }

    /// The number of changes of the reported health, and each new number.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Marks a check as passed.
    pub fn pass(check: &AtomicBool) {
        check.store(true, Relaxed);
    }
}
