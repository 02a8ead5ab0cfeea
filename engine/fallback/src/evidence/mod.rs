//! Evidence: what Envoys acknowledged, and what that proves.
//!
//! The room knows forms of resources, proven contents, last valid versions and their promotion, and the changes that
//! are to be stored. It does not decide what is served, and attributes no refusal.

mod acknowledged;
pub mod forms;
pub mod last_valid;
pub(crate) mod listener_forms;
pub(crate) mod promotion;
pub mod proof;
pub(crate) mod records;
pub(crate) mod shares;
pub mod subject;
pub mod suspects;

use std::collections::HashSet;

use holdfast_xds::Version;

use self::forms::RouteForms;
use self::last_valid::LastValid;
use self::listener_forms::ListenerForms;
use self::promotion::Promotion;
use self::proof::Proof;

/// What the Envoys of a scope acknowledged, and what that proves.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The contents that Envoys acknowledged.
    pub proof: Proof,
    /// The last valid versions.
    pub last_valid: LastValid,
    /// The forms of route configurations.
    pub forms: RouteForms,
    /// The forms of listeners.
    pub(crate) listener_forms: ListenerForms,
    /// The objects with a newest version that is not proven yet.
    pub(crate) promotion: Promotion,
    /// Resources that an Envoy left without an answer while it answered other resources: no answer of another Envoy
    /// about them is awaited either.
    pub(crate) unanswered: HashSet<Version>,
}
