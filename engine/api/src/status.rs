//! Status of Kubernetes objects: conditions, and for each kind the object under `status`.
//!
//! No timestamps: only the writer of a status knows when a condition changed.

pub mod features;
mod written;

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use imbl::OrdMap;
use serde::Serialize;
use serde_json::Value;
pub use written::{withdrawn, written};

/// The condition of an object that is not served as written (prefix `holdfast.dev/`).
pub const FALLBACK_CONDITION: &str = "holdfast.dev/Fallback";
/// The condition of a route with matches that an older route already claims (prefix `holdfast.dev/`).
pub const CONFLICT_CONDITION: &str = "holdfast.dev/Conflicted";

/// Maximum number of characters of a condition's message; the API server accepts at most 32768.
pub const MESSAGE_CHARS_MAX: usize = 32_000;

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, for example `Accepted`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The observed generation.
    pub observed_generation: i64,
}

impl Condition {
    /// Creates a condition; the generation is set when the status is assembled.
    pub fn new(kind: &'static str, holds: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        let status = if holds { "True" } else { "False" };
        Self { kind, status, reason: reason.into(), message: cut(message.into()), observed_generation: 0 }
    }

    /// Creates a condition of unknown state.
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason: reason.into(), message: cut(message.into()), observed_generation: 0 }
    }

    /// Sets the observed generation.
    pub fn of_generation(mut self, generation: i64) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Truncates a message: the API server would reject the whole status for one message that is too long.
fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// The statuses of objects, in order. A clone takes constant time, and shares what does not change.
pub type StatusMap = OrdMap<ObjectKey, Arc<ObjectStatus>>;

/// The status of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectStatus {
    /// The object.
    pub object: ObjectKey,
    /// Its UID: an object that is deleted and created again has another one, and no status. Empty where it is not known.
    #[serde(skip)]
    pub uid: Arc<str>,
    /// The content of `status`.
    pub status: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_into_a_status() {
        let long = Condition::new("Accepted", true, "Accepted", "ä".repeat(MESSAGE_CHARS_MAX + 1));
        assert_eq!(long.message.chars().count(), MESSAGE_CHARS_MAX + 1);
        let fits = Condition::unknown("Accepted", "Pending", "ä".repeat(MESSAGE_CHARS_MAX));
        assert_eq!(fits.message.chars().count(), MESSAGE_CHARS_MAX);
    }
}
