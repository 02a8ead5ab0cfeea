//! Semantics of policies: attachment, precedence and merge.
//!
//! Pure functions: no object look-ups and no Envoy messages. `translate/policy/` reads the fields of policies.

pub(crate) mod action;
pub(crate) mod attachment;
pub(crate) mod merge;
pub(crate) mod rank;
pub(crate) mod settings;
