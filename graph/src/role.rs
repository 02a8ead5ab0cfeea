//! What an edge between two objects means for a failure.

use serde::{Deserialize, Serialize};

/// The role of an edge from a dependant to what it depends on.
///
/// The role decides what travels back along the edge when the far end breaks:
/// closing (replacement, exclusion) and versions (backfill) travel by different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The dependant cannot work without it: a route and its back end, a listener and its certificate.
    Requires,
    /// It changes how the dependant behaves, and the dependant must not be served without it: a route and its policy.
    Modifies,
    /// The dependant hangs on it: a route and its Gateway.
    Attaches,
    /// The dependant names it and can do without it: an access log's back end.
    Mentions,
}

impl Role {
    /// Does closing of the far end (replacement or exclusion) reach the dependant?
    pub fn closing_travels(self) -> bool {
        !matches!(self, Role::Mentions)
    }

    /// Does the version of the far end (backfill) reach the dependant, so that it goes back together with it?
    pub fn version_travels(self) -> bool {
        matches!(self, Role::Requires | Role::Modifies)
    }
}
