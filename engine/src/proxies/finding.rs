//! What is told of a proxy: a sub-condition of its status and a fault, in one.

use holdfast_graph::ObjectKey;
use serde::Serialize;

use crate::fault::{Class, Fault};

/// A sub-condition of `Valid`, as it stands in a status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct SubCondition {
    /// For example `RouteError`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Always `True`.
    pub(crate) status: &'static str,
    /// For example `DuplicateMatchConditions`.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
}

/// The reason of what decoding has told as a fault already.
pub(crate) const NOT_READABLE: &str = "NotReadable";

/// Does a finding make its proxy invalid?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Yes.
    Error,
    /// No.
    Warning,
}

/// Something found out about a proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The proxy.
    pub(crate) object: ObjectKey,
    /// Does it make the proxy invalid?
    pub(crate) level: Level,
    /// Where in the proxy.
    pub(crate) field: String,
    /// What sort of trouble it is.
    pub(crate) class: Class,
    /// Type of the sub-condition.
    pub(crate) kind: &'static str,
    /// Reason of the sub-condition.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
}

impl Finding {
    /// An error of content.
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

    /// Something that does not make the proxy invalid.
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

    /// The same of another class.
    pub(crate) fn of_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// As a fault.
    pub(crate) fn fault(&self) -> Fault {
        Fault::new(&self.object, self.class, &self.field, self.reason, &self.message)
    }

    /// As a sub-condition.
    pub(crate) fn sub_condition(&self) -> SubCondition {
        SubCondition { kind: self.kind, status: "True", reason: self.reason, message: self.message.clone() }
    }
}
