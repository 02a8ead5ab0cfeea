//! Findings about an HTTPProxy: a sub-condition of its status and a fault in one.

use holdfast_api::fault::{Class, Fault};
use holdfast_graph::ObjectKey;
use serde::Serialize;

/// A sub-condition of the condition `Valid`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct SubCondition {
    /// For example `RouteError`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Always `True`.
    pub status: &'static str,
    /// For example `DuplicateMatchConditions`.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
}

/// Reason of findings that decoding has reported as faults already.
pub(crate) const NOT_READABLE: &str = "NotReadable";

/// Level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The finding makes the HTTPProxy invalid.
    Error,
    /// The HTTPProxy stays valid.
    Warning,
}

/// A finding about an HTTPProxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The HTTPProxy.
    pub object: ObjectKey,
    /// Level of the finding.
    pub level: Level,
    /// Field in the HTTPProxy.
    pub field: String,
    /// Class of the fault.
    pub class: Class,
    /// Type of the sub-condition.
    pub kind: &'static str,
    /// Reason of the sub-condition.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
    /// The object with the fault that this finding follows from; unset if the HTTPProxy itself must be edited.
    pub cause: Option<ObjectKey>,
}

impl Finding {
    /// Creates an error of class `Invalid`.
    pub fn error(
        object: &ObjectKey,
        field: impl Into<String>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let (field, message) = (field.into(), message.into());
        let (object, level, class) = (object.clone(), Level::Error, Class::Invalid);
        Self { object, level, field, class, kind, reason, message, cause: None }
    }

    /// Creates a warning, which does not make the HTTPProxy invalid.
    pub fn warning(
        object: &ObjectKey,
        field: impl Into<String>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::error(object, field, kind, reason, message).into_warning()
    }

    /// Returns the finding as a warning, which does not make the HTTPProxy invalid.
    pub(crate) fn into_warning(self) -> Self {
        Self { level: Level::Warning, class: Class::Ignored, ..self }
    }

    /// Returns the finding with another class.
    pub(crate) fn of_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// Returns the finding as a consequence of a fault of another object.
    pub(crate) fn caused_by(self, cause: Option<ObjectKey>) -> Self {
        Self { cause, ..self }
    }

    /// Converts the finding to a fault.
    pub fn fault(&self) -> Fault {
        let fault = Fault::new(&self.object, self.class, &self.field, self.reason, &self.message);
        fault.caused_by(self.cause.clone())
    }

    /// Converts the finding to a sub-condition.
    pub(crate) fn sub_condition(&self) -> SubCondition {
        SubCondition { kind: self.kind, status: "True", reason: self.reason, message: self.message.clone() }
    }
}
