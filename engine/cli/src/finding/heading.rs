//! The heading of a finding: its first object, and the number of the others.

use std::collections::BTreeSet;

use holdfast_engine::health::HealthFinding;
use holdfast_fallback::view::Identity;

use super::name;

/// The heading of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FindingHeading {
    /// Kind, namespace and name of the first object.
    pub(crate) object: String,
    /// Its generation, and the number of other objects with the same cause.
    pub(crate) rest: String,
}

/// Returns the heading of a finding.
pub(crate) fn heading(finding: &HealthFinding) -> FindingHeading {
    let Some((first, others)) = finding.objects.split_first() else { return FindingHeading::default() };
    let generation = first.generation.map(|generation| format!(", generation {generation}")).unwrap_or_default();
    let others: BTreeSet<&Identity> = others.iter().map(|subject| &subject.object).collect();
    let more = match others.iter().filter(|object| ***object != first.object).count() {
        0 => String::new(),
        more => format!(", and {more} more with the same cause"),
    };
    FindingHeading { object: name(&first.object), rest: format!("{generation}{more}") }
}
