//! Findings about an HTTPProxy: a sub-condition of its status and a fault in one.

use holdfast_graph::ObjectKey;
use serde::Serialize;

use crate::fault::{Class, Fault};

/// A sub-condition of the condition `Valid`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct SubCondition {
    /// For example `RouteError`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Always `True`.
    pub(crate) status: &'static str,
    /// For example `DuplicateMatchConditions`.
    pub(crate) reason: &'static str,
    /// A sentence for users.
    pub(crate) message: String,
}

/// Reason of findings that decoding has reported as faults already.
pub(crate) const NOT_READABLE: &str = "NotReadable";

/// Level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The finding makes the HTTPProxy invalid.
    Error,
    /// The HTTPProxy stays valid.
    Warning,
}

/// A finding about an HTTPProxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The HTTPProxy.
    pub(crate) object: ObjectKey,
    /// Level of the finding.
    pub(crate) level: Level,
    /// Field in the HTTPProxy.
    pub(crate) field: String,
    /// Class of the fault.
    pub(crate) class: Class,
    /// Type of the sub-condition.
    pub(crate) kind: &'static str,
    /// Reason of the sub-condition.
    pub(crate) reason: &'static str,
    /// A sentence for users.
    pub(crate) message: String,
}

impl Finding {
    /// Creates an error of class `Invalid`.
    pub(crate) fn error(
        object: &ObjectKey,
        field: impl Into<String>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let (field, message) = (field.into(), message.into());
        Self { object: object.clone(), level: Level::Error, field, class: Class::Invalid, kind, reason, message }
    }

    /// Creates a warning, which does not make the HTTPProxy invalid.
    pub(crate) fn warning(
        object: &ObjectKey,
        field: impl Into<String>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let found = Self::error(object, field, kind, reason, message);
        Self { level: Level::Warning, class: Class::Ignored, ..found }
    }

    /// Returns the finding with another class.
    pub(crate) fn of_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// Converts the finding to a fault.
    pub(crate) fn fault(&self) -> Fault {
        Fault::new(&self.object, self.class, &self.field, self.reason, &self.message)
    }

    /// Converts the finding to a sub-condition.
    pub(crate) fn sub_condition(&self) -> SubCondition {
        SubCondition { kind: self.kind, status: "True", reason: self.reason, message: self.message.clone() }
    }
}
