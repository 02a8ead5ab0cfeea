//! Evidence: what Envoys acknowledged, and what that proves.
//!
//! The room knows forms of resources, proven contents, last valid versions and their promotion, and the changes that
//! are to be stored. It does not decide what is served, and attributes no refusal.

mod acknowledged;
pub mod forms;
pub mod last_valid;
pub(crate) mod listener_forms;
mod promotion;
pub mod proof;
mod records;
pub(crate) mod shares;
pub mod subject;
pub mod suspects;
