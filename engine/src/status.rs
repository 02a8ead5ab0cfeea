//! Status as the API has it: conditions, and for each kind the object that goes under `status`.
//!
//! No times: when a condition changed is known to who writes it.

use holdfast_graph::ObjectKey;
use serde::Serialize;
use serde_json::Value;

/// The condition that tells of an object that is not served as written (prefix `holdfast.dev/`).
pub const FALLBACK_CONDITION: &str = "holdfast.dev/Fallback";

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type, for example `Accepted`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Reason in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The generation it speaks of.
    pub observed_generation: i64,
}

impl Condition {
    /// A condition; the generation is set where the status is put together.
    pub fn new(kind: &'static str, holds: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        let status = if holds { "True" } else { "False" };
        Self { kind, status, reason: reason.into(), message: message.into(), observed_generation: 0 }
    }

    /// A condition of which nothing is known yet.
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason: reason.into(), message: message.into(), observed_generation: 0 }
    }

    /// The same for a generation.
    pub fn of_generation(mut self, generation: i64) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// The status of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectStatus {
    /// The object.
    pub object: ObjectKey,
    /// What goes under `status`.
    pub status: Value,
}
