//! Contents that are to be tried on the probe before production sees them, and what came of it.
//!
//! Data only: who decides makes trials and is told the outcomes; who tries stands in [`crate::run::probe`].

use std::sync::Arc;

use bytes::Bytes;
use holdfast_xds::ResourceType;

/// One content to be tried, on its own.
#[derive(Clone)]
pub struct Trial {
    /// Chosen by who asks, each once in an order; comes back in [`Tried`].
    pub id: u64,
    /// The type of the resource. Endpoints are never tried.
    pub kind: ResourceType,
    /// The resource's name, for messages only: it is tried under another one.
    pub name: Arc<str>,
    /// The encoded message.
    pub body: Bytes,
}

/// Never shows the body: it may hold a private key.
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

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The probe took it.
    Accepted,
    /// The probe refused it.
    Refused {
        /// Envoy's own words, scrubbed. Not stable between processes.
        message: String,
    },
    /// Twice, alone on a fresh probe that had answered to good content just before, the probe died on it or fell
    /// silent.
    Silent,
    /// There is no verdict, and it is not the content's fault: the probe cannot be had, or cannot try such content.
    Unavailable,
}

/// A trial that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The trial's number.
    pub id: u64,
    /// What came of it.
    pub outcome: Outcome,
}
