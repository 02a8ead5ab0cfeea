//! State of the probe in diagnostics.

use holdfast_fallback::trial::{Outcome, Tried};
use serde::Serialize;

/// The state of the probe, and its results since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeView {
    /// Whether the probe is available.
    pub state: ProbeState,
    /// The version of its Envoy; verdicts apply to that build.
    pub build: String,
    /// Its process id, while it runs.
    pub pid: Option<u32>,
    /// The number of restarts after a loss.
    pub restarts: u64,
    /// Number of accepted contents.
    pub accepted: u64,
    /// Number of refused contents.
    pub refused: u64,
    /// Number of contents on which the probe died or hung.
    pub silent: u64,
    /// Number of contents without a verdict.
    pub unavailable: u64,
}

/// The availability of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// The probe is starting, for the first time or again.
    #[default]
    Starting,
    /// The probe answers.
    Ready,
    /// The probe cannot be started; the start is repeated.
    Unavailable,
}

impl ProbeView {
    pub(crate) fn count(&mut self, tried: &[Tried]) {
        for Tried { outcome, .. } in tried {
            *match outcome {
                Outcome::Accepted => &mut self.accepted,
                Outcome::Refused { .. } => &mut self.refused,
                Outcome::Silent => &mut self.silent,
                Outcome::Unavailable => &mut self.unavailable,
            } += 1;
        }
    }
}
