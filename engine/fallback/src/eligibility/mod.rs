//! Eligibility: whether an earlier version of an object may be served, and in which form.
//!
//! `served_now.rs` has the conditions, and each form of earlier content answers them where it is known. The other
//! functions compare two versions of one object. They know nothing about scopes, Envoys or plans.

pub(crate) mod annotation;
pub(crate) mod hybrid;
pub mod protection;
mod proxy_protection;
pub(crate) mod served_now;
pub(crate) mod tls_options;
