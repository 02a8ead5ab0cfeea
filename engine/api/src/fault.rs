//! Findings of translation about objects: what is wrong, in which field, and what the owner can do about it.

use std::fmt;

use holdfast_graph::ObjectKey;
use serde::Serialize;

/// The class of a fault, which determines what happens to the affected unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A referenced object does not exist or may not be used; the fault ends when the target appears.
    Referential,
    /// The content itself cannot be served.
    Invalid,
    /// Two objects claim the same match; precedence decides, and the losing object gets the fault.
    Conflict,
    /// A field is not served; the unit that contains it is served without it.
    Ignored,
}

/// Reasons that concern backends in any field.
const OF_BACKENDS: [&str; 2] = ["BackendNotFound", "ServiceUnresolvedReference"];
/// Reasons that concern backends if the field is a reference to a backend.
const OF_REFERENCES: [&str; 3] = ["InvalidKind", "RefNotPermitted", "UnsupportedProtocol"];

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Fault {
    /// The object at fault.
    pub object: ObjectKey,
    /// The field, as in `spec.rules[2].matches[0].path.value`; empty for the object as a whole.
    pub field: String,
    /// The class.
    pub class: Class,
    /// One word in CamelCase, as in a condition's reason.
    pub reason: &'static str,
    /// A sentence that the object's owner can act on. Never contains a Secret's content.
    pub message: String,
    /// The object with the fault that this fault follows from; unset if the object itself must be edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<ObjectKey>,
}

impl Fault {
    /// Creates a fault.
    pub fn new(
        object: &ObjectKey,
        class: Class,
        field: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { object: object.clone(), field: field.into(), class, reason, message: message.into(), cause: None }
    }

    /// Returns the fault as a consequence of a fault of another object.
    pub fn caused_by(self, cause: Option<ObjectKey>) -> Self {
        Self { cause, ..self }
    }

    /// Returns the field and the message, as `spec.rules[0]: message`; only the message of a fault of the whole object.
    pub fn sentence(&self) -> String {
        if self.field.is_empty() { self.message.to_string() } else { format!("{}: {}", self.field, self.message) }
    }

    /// Returns whether the fault prevents something from being served as written.
    pub fn is_error(&self) -> bool {
        self.class != Class::Ignored
    }

    /// Returns whether the fault is a reference to a backend that does not exist or may not be used.
    pub fn is_missing_backend(&self) -> bool {
        let names_backend = self.field.contains("backendRefs[") || self.field.contains(".externalAuth.backendRef");
        let of_reference = OF_REFERENCES.contains(&self.reason) && names_backend;
        self.class == Class::Referential && (OF_BACKENDS.contains(&self.reason) || of_reference)
    }
}

/// Writes `gateway.networking.k8s.io/HTTPRoute:shop/cart: spec.rules[0]: message`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Returns the field path of an entry of a list: `field[index]`.
pub fn at(field: &str, index: usize) -> String {
    format!("{field}[{index}]")
}

/// Returns a message without the field that it begins with.
pub fn without_field<'a>(message: &'a str, field: &str) -> &'a str {
    if field.is_empty() {
        return message;
    }
    message.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
}
