//! Missing backends: references of routes that are answered with an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::fault::Fault;

/// Returns the number of references to missing or forbidden backends, by namespace of the referencing objects.
pub fn missing_backends(faults: &[Fault]) -> BTreeMap<Arc<str>, usize> {
    let mut missing = BTreeMap::new();
    for fault in faults.iter().filter(|fault| fault.is_missing_backend()) {
        *missing.entry(fault.object.namespace.clone()).or_default() += 1;
    }
    missing
}
