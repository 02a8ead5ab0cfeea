//! Containment of panics in translation: only the affected object is closed and reported.
//!
//! Translation must not panic on any input. If it does, one object must not keep other objects from being served.

use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_api::fault::{Class, Fault};
use holdfast_graph::ObjectKey;

/// The message about an object after failed translation.
const MESSAGE: &str = "internal error: Holdfast failed to translate this version of the object and does not serve it; \
                       please report this bug";

/// Runs a piece of translation; returns `None` if it panics. Reads that the piece recorded before the panic stay.
pub(crate) fn guarded<T>(piece: impl FnOnce() -> T) -> Option<T> {
    // The piece only reads, and its output is dropped if it panics.
    catch_unwind(AssertUnwindSafe(piece)).ok()
}

/// Returns the fault of an object after failed translation.
pub(crate) fn fault(key: &ObjectKey) -> Fault {
    Fault::new(key, Class::Invalid, "", "InternalError", MESSAGE)
}

/// Panics on objects that a test has marked.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn poison(object: Option<&holdfast_api::object::Object>) {
    assert!(
        !object.is_some_and(|object| object.metadata.annotations.contains_key("holdfast.dev/testing-poison")),
        "a test requests this panic"
    );
}
