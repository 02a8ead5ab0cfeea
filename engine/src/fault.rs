//! A finding of translation about an object: what is wrong, where, and what its owner can do about it.

use std::fmt;

use holdfast_graph::ObjectKey;
use serde::Serialize;

/// What sort of trouble a fault is; the class decides what happens to the unit it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Something that is named does not exist or may not be used; it heals when the target appears.
    Referential,
    /// The content itself cannot be served.
    Invalid,
    /// Two objects claim the same; precedence decides, and the loser is told.
    Conflict,
    /// A field is not served, and what it stands on goes on without it.
    Ignored,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Fault {
    /// The object at fault.
    pub object: ObjectKey,
    /// Where in the object, as in `spec.rules[2].matches[0].path.value`; empty where the object as a whole is meant.
    pub field: String,
    /// What sort of trouble it is.
    pub class: Class,
    /// One word in CamelCase, as in a condition's reason.
    pub reason: &'static str,
    /// A sentence that the object's owner can act on. Never holds a Secret's content.
    pub message: String,
}

impl Fault {
    /// A fault of one class.
    pub fn new(
        object: &ObjectKey,
        class: Class,
        field: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { object: object.clone(), field: field.into(), class, reason, message: message.into() }
    }

    /// Does the fault keep something from being served as written?
    pub fn is_error(&self) -> bool {
        self.class != Class::Ignored
    }
}

/// `gateway.networking.k8s.io/HTTPRoute:shop/cart: spec.rules[0]: reason: message`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// The field path of an entry of a list: `field[index]`.
pub fn at(field: &str, index: usize) -> String {
    format!("{field}[{index}]")
}
