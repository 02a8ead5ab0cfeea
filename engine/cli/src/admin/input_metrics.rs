//! Metrics of input age: time since files were last read completely, and since the API server last answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::GaugeVec;

use super::register::Register;

/// The time at which an input was last current. Clones share the value.
#[derive(Clone, Debug)]
pub struct Pulse {
    started: Instant,
    /// Milliseconds after the start.
    last: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { started: Instant::now(), last: Arc::default() }
    }
}

impl Pulse {
    /// Records that the input is current now.
    pub fn beat(&self) {
        self.last.fetch_max(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The time since the last beat, or since the start if there was none.
    pub fn age(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_millis(self.last.load(Relaxed)))
    }
}

/// Metrics of input age.
#[derive(Debug)]
pub struct InputMetrics {
    age: GaugeVec,
    pulses: Mutex<BTreeMap<&'static str, Pulse>>,
}

impl InputMetrics {
    /// Registers the metrics without any input.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        let help = "Time since an input was last read whole (input=files) or last answered (input=api_server)";
        Ok(Self { age: all.fractions("input_age_seconds", help, &["input"])?, pulses: Mutex::default() })
    }

    /// The pulse of an input; from now on the age of this input is exported.
    pub fn pulse(&self, input: &'static str) -> Pulse {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner).entry(input).or_default().clone()
    }

    /// Updates the ages.
    pub fn refresh(&self) {
        for (input, pulse) in &*self.pulses.lock().unwrap_or_else(PoisonError::into_inner) {
            self.age.with_label_values(&[*input]).set(pulse.age().as_secs_f64());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn an_input_that_was_never_read_is_as_old_as_the_process() {
        let all = Registry::new();
        let metrics = InputMetrics::new(Register(&all)).unwrap();
        let pulse = metrics.pulse("files");
        std::thread::sleep(Duration::from_millis(30));
        assert!(pulse.age() >= Duration::from_millis(30));
        pulse.beat();
        assert!(metrics.pulse("files").age() < Duration::from_millis(30));
        metrics.refresh();
        let age = metrics.age.with_label_values(&["files"]).get();
        assert!((0.0..0.03).contains(&age), "{age}");
    }
}
