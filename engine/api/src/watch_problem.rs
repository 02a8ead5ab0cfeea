//! Problems of a watch or of access rights, as they are reported to users.

use std::sync::Arc;

/// Reason of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The kind is not installed.
    NotServed,
    /// The kind has not been listed yet.
    Unlisted,
    /// The kind cannot be read at the moment.
    Failing,
    /// The last list is doubted.
    Doubted,
    /// A permission is missing.
    Denied,
    /// The definition of the kind was removed or is being removed.
    Removed,
    /// The number of objects exceeds the limit.
    TooMany,
}

impl Why {
    /// All reasons.
    pub const ALL: [Why; 7] =
        [Why::NotServed, Why::Unlisted, Why::Failing, Why::Doubted, Why::Denied, Why::Removed, Why::TooMany];

    /// Name of the reason in conditions and metrics.
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

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchProblem {
    /// The kind, with its namespace if the watch is limited to one; or the resource that a permission is missing for.
    pub of: Arc<str>,
    /// The reason.
    pub why: Why,
    /// A sentence for users.
    pub message: String,
}
