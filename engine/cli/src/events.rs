//! Recording of events about objects and Gateways: to the log, and with an API server also there.

use holdfast_engine::report::events::{FallbackEvent, Reason, Regarding};
use holdfast_kubernetes::recorder::KubernetesRecorder;

/// Maximum number of log lines for one change; further events are only counted.
const LOGGED_EVENTS_MAX: usize = 50;

/// Recorder of events. Each change is recorded once.
pub trait EventRecorder: Send {
    /// Records new events.
    fn record(&mut self, events: &[FallbackEvent]);
}

/// Writes events to the log: one line when an object enters a step, and one when it leaves it.
#[derive(Debug, Default)]
pub struct LogRecorder;

impl EventRecorder for LogRecorder {
    fn record(&mut self, events: &[FallbackEvent]) {
        let (logged, in_other_lines): (Vec<_>, Vec<_>) = events.iter().partition(|event| has_a_line(event));
        for event in logged.iter().take(LOGGED_EVENTS_MAX) {
            log(event);
        }
        if let more @ 1.. = logged.len().saturating_sub(LOGGED_EVENTS_MAX) {
            tracing::warn!("and {more} more events: see /debug/config/fallback");
        }
        for FallbackEvent { reason, regarding, note } in in_other_lines {
            tracing::debug!(%reason, ?regarding, "{note}");
        }
    }
}

impl EventRecorder for KubernetesRecorder {
    fn record(&mut self, events: &[FallbackEvent]) {
        LogRecorder.record(events);
        self.write(events);
    }
}

/// Returns whether an event gets a line at its own level. Faults of objects are already in the log, with file and line,
/// or with the step that follows; events of a Gateway are also recorded for the controller.
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
