//! Metrics of the state that replicas share.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounter, IntGauge};

use super::register::Register;

/// Metrics of the state that replicas share. Clones share their values.
#[derive(Clone, Debug)]
pub struct SharedMetrics {
    read_at: IntGauge,
    written_at: IntGauge,
    errors: IntCounter,
    bytes: IntGauge,
    generation: IntGauge,
}

impl SharedMetrics {
    /// Registers all metrics with the value zero.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        let read_at = "Time when this replica last read or wrote the shared store (seconds since 1970)";
        let written_at = "Time when this replica last wrote the shared store (seconds since 1970)";
        Ok(Self {
            read_at: all.gauge("shared_store_last_read_timestamp_seconds", read_at)?,
            written_at: all.gauge("shared_store_last_write_timestamp_seconds", written_at)?,
            errors: all.counter("shared_store_errors_total", "Failed requests to the shared store")?,
            bytes: all
                .gauge("shared_store_size_bytes", "Size of the shared store in bytes, as this replica last read it")?,
            generation: all
                .gauge("shared_store_generation", "Generation of the shared store that this replica last read")?,
        })
    }

    /// Records that the shared store was reached, up to `generation`; `written` if this replica wrote that generation.
    pub fn reached(&self, generation: u64, bytes: u64, written: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.read_at.set(signed(now));
        if written {
            self.written_at.set(signed(now));
        }
        self.bytes.set(signed(bytes));
        self.generation.set(signed(generation));
    }

    /// Records that the shared store could not be reached.
    pub fn failed(&self) {
        self.errors.inc();
    }
}
