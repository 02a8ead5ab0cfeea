//! Role of an edge: its meaning for a failure.

use serde::{Deserialize, Serialize};

/// The role of an edge from a dependant to its dependency.
///
/// The role decides what propagates to the dependant when the dependency breaks: closing (replacement, exclusion) and
/// versions (backfill) propagate by different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The dependant cannot work without the dependency: a route and its backend, a listener and its certificate.
    Requires,
    /// The dependency changes the behaviour of the dependant, which must not be served without it: a route and its
    /// policy.
    Modifies,
    /// The dependency changes the behaviour of the dependant by way of another object above it: a route and the policy of
    /// a route that delegates to it. The dependant must not be served without it, but versions of it were not written
    /// together with those of the dependant.
    Inherits,
    /// The dependant is attached to the dependency: a route and its Gateway.
    Attaches,
    /// The dependant names the dependency and works without it: the backend of an access log.
    Mentions,
}

impl Role {
    /// Returns whether closing of the dependency (replacement or exclusion) reaches the dependant.
    pub fn closing_travels(self) -> bool {
        !matches!(self, Role::Mentions)
    }

    /// Returns whether the version of the dependency (backfill) reaches the dependant, so that both go back together.
    pub fn version_travels(self) -> bool {
        matches!(self, Role::Requires | Role::Modifies)
    }
}
