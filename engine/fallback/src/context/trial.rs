//! Trials of contents on the probe, before production Envoys receive them, and their outcomes.
//!
//! Data only: the deciding code creates trials and receives the outcomes; the crate `probe` runs them.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_xds::ResourceType;

/// A trial of one content by itself.
#[derive(Clone)]
pub struct Trial {
    /// Identifier chosen by the deciding code, in increasing order without repetition; returned in [`Tried`].
    pub id: u64,
    /// The type of the resource. Endpoints are never tried.
    pub kind: ResourceType,
    /// The resource's name, for messages only: the trial uses another name.
    pub name: Arc<str>,
    /// The encoded message.
    pub body: Bytes,
}

/// Omits the body, which may contain a private key.
impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("bytes", &self.body.len())
            .finish()
    }
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The probe accepted the content.
    Accepted,
    /// The probe refused the content.
    Refused {
        /// Envoy's message, scrubbed. Not stable between processes.
        message: String,
    },
    /// Twice, by itself on a fresh probe that had answered to valid content just before, the content made the probe
    /// crash or stop answering.
    Silent,
    /// No verdict, for a reason other than the content: the probe is not available, or cannot try such content.
    Unavailable,
}

/// A completed trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The trial's identifier.
    pub id: u64,
    /// The outcome.
    pub outcome: Outcome,
}
