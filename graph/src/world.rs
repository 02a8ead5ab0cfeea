//! What derivation of a plan asks of the world, and what operators have switched on.

use crate::{Node, ObjectKey};

/// What operators have switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Broken objects are isolated; otherwise only what translation finds is closed, and nothing is backfilled.
    pub isolate: bool,
    /// With `isolate`: what is broken goes back to its last valid version before anything else.
    pub use_last_valid: bool,
    /// With `use_last_valid`: dependants go back together with what they depend on.
    pub backfill_dependants: bool,
    /// What is closed leaves an answer in its place, so that nothing broader catches its requests.
    pub replace: bool,
}

/// What derivation asks about objects. Answers must not change while a plan is derived.
pub trait World {
    /// Is the object in the desired snapshot? One that cannot be used is in it too.
    fn exists(&self, key: &ObjectKey) -> bool;

    /// Is there an admissible last valid version: of the same UID, not refused, not forbidden by annotation?
    fn last_valid(&self, key: &ObjectKey) -> bool;

    /// Is the node a part that a last valid version supplies? What claims and attaches is the desired version's always, so
    /// that going back to another version would not heal it.
    fn comes_from_versions(&self, _: &Node) -> bool {
        true
    }

    /// Would its last valid version name something deleted since, or lack a section that a policy targets? Then a
    /// dependant stays current.
    fn last_valid_is_worse(&self, key: &ObjectKey) -> bool;

    /// Is it something that others hang on, to which versions never travel?
    fn keeps_its_version(&self, key: &ObjectKey) -> bool;

    /// Is the desired version another than the last valid one? Where it is the same, a dependant needs no step.
    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool;

    /// Is it replaced even where replacement is off, because it carries a security policy?
    fn must_replace(&self, node: &Node) -> bool;

    /// Can an answer stand in its place? Not where even that was refused.
    fn can_replace(&self, node: &Node) -> bool;

    /// Is the object of a kind that is served itself? Others can only be left out.
    fn serves(&self, key: &ObjectKey) -> bool;
}
