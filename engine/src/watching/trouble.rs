//! What is wrong with a watch, or with what may be asked of the API server, in the words in which people are told.

use std::sync::Arc;

/// Why something is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The kind is not installed.
    NotServed,
    /// It was not listed yet.
    Unlisted,
    /// It cannot be read now.
    Failing,
    /// A list is doubted.
    Doubted,
    /// A right is missing.
    Denied,
    /// The kind was there, and is gone or about to go.
    Removed,
    /// There are too many objects.
    TooMany,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 7] =
        [Why::NotServed, Why::Unlisted, Why::Failing, Why::Doubted, Why::Denied, Why::Removed, Why::TooMany];

    /// As conditions and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Why::NotServed => "NotServed",
            Why::Unlisted => "Unlisted",
            Why::Failing => "Failing",
            Why::Doubted => "Doubted",
            Why::Denied => "Denied",
            Why::Removed => "Removed",
            Why::TooMany => "TooMany",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// The kind, with its namespace where it is of one; or the resource that a right is missing for.
    pub of: Arc<str>,
    /// Why.
    pub why: Why,
    /// A sentence.
    pub message: String,
}
