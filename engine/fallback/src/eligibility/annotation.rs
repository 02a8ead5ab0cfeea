//! The annotation of an object that controls its fallback.

use holdfast_api::object::Object;

/// Annotation of an object that controls its fallback. `never` prevents its backfill.
pub(crate) const FALLBACK_ANNOTATION: &str = "holdfast.dev/fallback";

/// Checks whether the annotation of an object allows another version to be served instead.
pub(crate) fn may_stand_in(object: &Object) -> bool {
    object.metadata.annotations.get(FALLBACK_ANNOTATION).is_none_or(|value| value != "never")
}
