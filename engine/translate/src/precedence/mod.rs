//! Semantics of policies: attachment, precedence and merge.
//!
//! Pure functions: no object look-ups and no Envoy messages. `policy/` reads the fields of policies.

pub mod action;
pub mod attachment;
pub(crate) mod fill;
pub mod merge;
pub mod rank;
pub mod settings;

/// The reason of a fault for a unit that is closed because a policy cannot be enforced.
pub const NOT_ENFORCED: &str = "PolicyNotEnforced";
