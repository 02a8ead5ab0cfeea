//! The probe as diagnostics show it.

use serde::Serialize;

use crate::trial::{Outcome, Tried};

/// Where the probe stands, and what it said since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeView {
    /// Can it be had?
    pub state: ProbeState,
    /// The version of its Envoy; verdicts are that build's.
    pub build: String,
    /// Its process id, while it runs.
    pub pid: Option<u32>,
    /// How often it was lost and started again.
    pub restarts: u64,
    /// Contents it took.
    pub accepted: u64,
    /// Contents it refused.
    pub refused: u64,
    /// Contents on which it died or fell silent.
    pub silent: u64,
    /// Contents without a verdict.
    pub unavailable: u64,
}

/// Can the probe be had?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// It is being started, for the first time or again.
    #[default]
    Starting,
    /// It answers.
    Ready,
    /// It cannot be started; that is tried again.
    Unavailable,
}

impl ProbeView {
    pub(super) fn count(&mut self, tried: &[Tried]) {
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
