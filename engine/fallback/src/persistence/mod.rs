//! Persistence: state that an earlier run stored, and its restoration into a scope.
//!
//! The room reads values that the caller has loaded. It does no I/O, and never trusts a stored verdict or version
//! without the current objects.

pub mod excerpt;
pub mod restore;
pub mod restored;
pub(crate) mod restored_version;
