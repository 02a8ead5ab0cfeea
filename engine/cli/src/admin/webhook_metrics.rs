//! Metrics of the admission webhook.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec};

use super::metrics::SECONDS;
use super::register::Register;

/// The answer to a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewResult {
    /// The object is allowed without a warning.
    Allowed,
    /// The object is allowed with warnings about its content.
    Warned,
    /// The object is refused.
    Denied,
    /// The object is allowed with the warning that it was not checked.
    NotChecked,
}

impl ReviewResult {
    const ALL: [Self; 4] = [Self::Allowed, Self::Warned, Self::Denied, Self::NotChecked];

    const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Warned => "warned",
            Self::Denied => "denied",
            Self::NotChecked => "not_checked",
        }
    }
}

/// Metrics of the admission webhook. Clones share their values.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    reviews: IntCounterVec,
    seconds: Histogram,
}

impl WebhookMetrics {
    /// Registers all metrics with the value zero.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        let help = "Objects that the admission webhook answered (result=allowed, warned, denied or not_checked)";
        let reviews = all.counters("webhook_reviews_total", help, &["result"])?;
        for result in ReviewResult::ALL {
            reviews.with_label_values(&[result.name()]).inc_by(0);
        }
        let seconds =
            all.histogram("webhook_review_duration_seconds", "Duration of reviews, with their wait", &SECONDS)?;
        Ok(Self { reviews, seconds })
    }

    /// Records an answer.
    pub fn answered(&self, result: ReviewResult, took: Duration) {
        self.reviews.with_label_values(&[result.name()]).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
