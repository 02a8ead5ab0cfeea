//! Who is told what happened to objects and Gateways: in standalone mode the log.

use crate::fallback::events::{FallbackEvent, Reason, Regarding};

/// Lines that are logged for one change; the rest is counted.
const LINES_MAX: usize = 50;

/// Takes events to people. Each change comes once.
pub trait EventRecorder: Send {
    /// These are new.
    fn record(&mut self, events: &[FallbackEvent]);
}

/// Writes events to the log: one line where an object enters a step, and one where it leaves.
#[derive(Debug, Default)]
pub struct LogRecorder;

impl EventRecorder for LogRecorder {
    fn record(&mut self, events: &[FallbackEvent]) {
        let (told, in_other_lines): (Vec<_>, Vec<_>) = events.iter().partition(|event| has_a_line(event));
        for event in told.iter().take(LINES_MAX) {
            log(event);
        }
        if let more @ 1.. = told.len().saturating_sub(LINES_MAX) {
            tracing::warn!("and {more} more events: see /debug/config/fallback");
        }
        for FallbackEvent { reason, regarding, note } in in_other_lines {
            tracing::debug!(%reason, ?regarding, "{note}");
        }
    }
}

/// What is at fault is in the log already, with its file and line, or with the step that follows from it; and what is
/// recorded of a Gateway is recorded of the controller too.
fn has_a_line(event: &FallbackEvent) -> bool {
    let of_object = !matches!(event.regarding, Regarding::Controller);
    let is_there_already = matches!(
        event.reason,
        Reason::ConfigurationTranslationFailed
            | Reason::ConfigurationApplyFailed
            | Reason::FallbackConfigurationApplyFailed
            | Reason::ConfigurationSucceeded
            | Reason::FallbackConfigurationSucceeded
    );
    !(of_object && is_there_already)
}

fn log(FallbackEvent { reason, regarding, note }: &FallbackEvent) {
    match (regarding, reason.is_warning()) {
        (Regarding::Controller, true) => tracing::warn!(%reason, "{note}"),
        (Regarding::Controller, false) => tracing::info!(%reason, "{note}"),
        (Regarding::Object(object) | Regarding::Deleted(object), true) => {
            tracing::warn!(object = %object.key(), %reason, "{note}");
        }
        (Regarding::Object(object) | Regarding::Deleted(object), false) => {
            tracing::info!(object = %object.key(), %reason, "{note}");
        }
    }
}
