//! Trials of suspects and of convicted subjects on Envoys of the fleet.

use super::admission::TrialRun;
use super::readmission::Readmission;
use super::witnesses::Witnesses;

/// The trials of a scope.
#[derive(Debug, Default)]
pub struct EnvoyTrials {
    /// The trial on one Envoy.
    pub current: Option<TrialRun>,
    /// The number of times that an Envoy was lost while it tried the suspects on trial.
    pub(crate) strikes: u32,
    /// The trial of contents that were refused earlier.
    pub readmission: Option<Readmission>,
    /// Verdicts that depend on the refusal of one Envoy.
    pub(crate) witnesses: Witnesses,
}
