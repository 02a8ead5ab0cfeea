//! Verdicts of a scope, with the state that their records depend on.

use std::collections::{BTreeMap, VecDeque};

use holdfast_graph::{ObjectKey, Quarantine};
use holdfast_xds::Version;

/// The verdicts, and the objects at fault.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The contents that Envoys refused.
    pub quarantine: Quarantine,
    /// The time since which each broken object is at fault.
    pub since: BTreeMap<ObjectKey, i64>,
    /// Objects with a counted refusal since their last edit, with the refused generation.
    pub(crate) counted: BTreeMap<ObjectKey, i64>,
    /// Refused resources that are stored, the oldest first.
    pub(crate) remembered: VecDeque<Version>,
}
