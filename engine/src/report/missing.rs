//! Missing backends: references of routes that are answered with an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::fault::{Class, Fault};

/// Reasons that concern backends in any field.
const OF_BACKENDS: [&str; 2] = ["BackendNotFound", "ServiceUnresolvedReference"];
/// Reasons that concern backends if the field is a reference to a backend.
const OF_REFERENCES: [&str; 3] = ["InvalidKind", "RefNotPermitted", "UnsupportedProtocol"];

/// Checks whether the fault is a reference to a missing or forbidden backend.
pub(super) fn is_missing_backend(fault: &Fault) -> bool {
    let of_reference = OF_REFERENCES.contains(&fault.reason) && fault.field.contains("backendRefs[");
    fault.class == Class::Referential && (OF_BACKENDS.contains(&fault.reason) || of_reference)
}

/// Returns the number of references to missing or forbidden backends, by namespace of the referencing objects.
pub fn missing_backends(faults: &[Fault]) -> BTreeMap<Arc<str>, usize> {
    let mut missing = BTreeMap::new();
    for fault in faults.iter().filter(|fault| is_missing_backend(fault)) {
        *missing.entry(fault.object.namespace.clone()).or_default() += 1;
    }
    missing
}
