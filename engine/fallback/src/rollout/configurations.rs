//! Configurations of a scope: the wanted one, the one that all Envoys have, and those between.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::Snapshot;

use crate::evidence::forms::Form;

/// The configurations of a scope.
#[derive(Debug, Default)]
pub struct Configurations {
    /// The newest configuration from translation, before any part of it is held back.
    pub(crate) newest: Snapshot,
    /// The configuration that the Envoys should have next.
    pub wanted: Snapshot,
    /// The configuration that all Envoys have, or are offered; `None` before the first offer.
    pub everyone: Option<Snapshot>,
    /// The configuration of all Envoys before the newest one.
    pub(crate) previous: Snapshot,
    /// The configuration of all Envoys while the wanted one is tried; `None` if they have the wanted one.
    pub(crate) trying: Option<Trying>,
    /// Current endpoints of Services that Envoys use and the next configuration does not use.
    pub(crate) kept_endpoints: Snapshot,
}

/// The configuration of all Envoys while new content is tried.
#[derive(Clone, Debug)]
pub(crate) struct Trying {
    /// The start of the trial of content that not all Envoys have, in milliseconds of Unix time.
    pub(crate) since_ms: u64,
    /// The forms of the route configurations that all Envoys have, as far as these are known.
    pub(crate) forms: BTreeMap<Arc<str>, Form>,
}
