//! What policies mean together: where each is attached, which comes first, and what is left when they are merged.
//!
//! Pure: no objects are looked up here, and nothing here knows Envoy's messages. How a policy's fields are read is in
//! `translate/policy/`.

pub(crate) mod action;
pub(crate) mod attachment;
pub(crate) mod merge;
pub(crate) mod rank;
pub(crate) mod settings;
