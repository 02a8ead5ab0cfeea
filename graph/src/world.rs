//! Inputs of deriving a plan: queries about objects, and the gates that operators have enabled.

use crate::{Node, ObjectKey};

/// Gates that operators have enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Broken objects are isolated; otherwise only faults that translation finds close objects, and nothing is
    /// backfilled.
    pub isolate: bool,
    /// With `isolate`: a broken object goes back to its last valid version before any other step.
    pub use_last_valid: bool,
    /// With `use_last_valid`: dependants go back together with their dependencies.
    pub backfill_dependants: bool,
    /// A closed node is replaced by a direct response, so that no broader route matches its requests.
    pub replace: bool,
}

/// Queries about objects while a plan is derived. The answers must not change meanwhile.
pub trait World {
    /// Returns whether the object is in the desired snapshot. An object that cannot be used is in it too.
    fn exists(&self, key: &ObjectKey) -> bool;

    /// Returns whether there is an admissible last valid version: of the same UID, not refused, not forbidden by
    /// annotation.
    fn last_valid(&self, key: &ObjectKey) -> bool;

    /// Returns whether a last valid version supplies this node. Claims and attachments always come from the desired
    /// version, so that another version would not repair them.
    fn comes_from_versions(&self, _: &Node) -> bool {
        true
    }

    /// Returns whether the last valid version names something that was deleted since, or lacks a section that a policy
    /// targets. In this case a dependant stays current.
    fn last_valid_is_worse(&self, key: &ObjectKey) -> bool;

    /// Returns whether other objects are attached to the object, so that versions never propagate to it.
    fn keeps_its_version(&self, key: &ObjectKey) -> bool;

    /// Returns whether the desired version differs from the last valid one. Where they are equal, a dependant needs no
    /// step.
    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool;

    /// Returns whether the node is replaced even where replacement is off, because it carries a security policy.
    fn must_replace(&self, node: &Node) -> bool;

    /// Returns whether a direct response can be served instead. It cannot where even the response was refused.
    fn can_replace(&self, node: &Node) -> bool;

    /// Returns whether the object is of a kind that is served itself. Objects of other kinds can only be left out.
    fn serves(&self, key: &ObjectKey) -> bool;
}
