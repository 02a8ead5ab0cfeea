//! Liveness and readiness: named checks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

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
    served: Mutex<Option<Arc<Health>>>,
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
    pub fn note(&self, mut health: Health) {
        // It grows all the time.
        health.inputs.sources.iter_mut().for_each(|source| source.seen_seconds_ago = None);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.as_deref() != Some(&health) {
            *served = Some(Arc::new(health));
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The last reported health, without settings, namespaces and the age of inputs; `None` before the first report.
    /// Health is reported after every change: computing it takes long with many objects.
    pub(crate) fn reported(&self) -> Option<Arc<Health>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The summary of the last reported health; `None` before the first report.
    pub fn served(&self) -> Option<Summary> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|health| health.summary())
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
