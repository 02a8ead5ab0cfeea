//! Objections of the audit: data of a plan. The checker makes them, and closes what they name.

use std::fmt;
use std::sync::Arc;

use holdfast_graph::{Node, ObjectKey};
use serde::Serialize;

/// The subject of an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// An object that no longer exists, or another object of the same name.
    Existence,
    /// A version that may not be served instead: never proven, excluded by the annotation of its object, too old, or
    /// with claims of its own.
    Version,
    /// A Secret that is not a server certificate usable now.
    Credential,
    /// A place (table and host) that the current object does not claim.
    Reach,
    /// A backend that does not exist, or that no grant allows now.
    #[serde(rename = "backEnd")]
    Backend,
    /// A filter that protects requests, and that the desired version names.
    Security,
    /// A listener that does not keep its port and hosts.
    Listener,
    /// The audit itself failed.
    Unchecked,
}

/// The form in messages.
impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            About::Existence => "existence",
            About::Version => "version",
            About::Credential => "credential",
            About::Reach => "reach",
            About::Backend => "backend",
            About::Security => "security",
            About::Listener => "listener",
            About::Unchecked => "unchecked",
        })
    }
}

/// Something that must not be served in this form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Objection {
    /// The unit, or the object as a whole.
    pub node: Node,
    /// The subject of the objection.
    pub about: About,
    /// The reason, as a sentence.
    pub why: Arc<str>,
    /// The broken object that this follows from; unset if it is the object itself.
    pub cause: Option<ObjectKey>,
}

impl Objection {
    pub(crate) fn new(node: Node, about: About, why: impl Into<Arc<str>>) -> Self {
        Self { node, about, why: why.into(), cause: None }
    }

    pub(crate) fn because_of(self, cause: Option<ObjectKey>) -> Self {
        Self { cause, ..self }
    }

    pub(crate) fn whole(key: &ObjectKey, about: About, why: impl Into<Arc<str>>) -> Self {
        Self::new(Node::whole(key.clone()), about, why)
    }
}

/// The message for operators: what was closed, and why.
impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}): {}", self.node.key, self.node.section, self.about, self.why)
    }
}
