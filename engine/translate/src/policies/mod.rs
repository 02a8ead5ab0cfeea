//! Semantics of policies: attachment, precedence and merge.
//!
//! Pure functions: no object look-ups and no Envoy messages. `translate/policy/` reads the fields of policies.

pub mod action;
pub mod attachment;
pub mod merge;
pub mod rank;
pub mod settings;
