//! Values for the tests of several checks.

pub(crate) mod addresses;
