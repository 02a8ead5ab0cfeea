//! Searches for objects at fault: the search on the probe, its pauses, and the record of completed searches.

use std::collections::BTreeSet;

use holdfast_xds::Version;

use super::Attribution;
use super::search::Search;

/// The searches of a scope.
#[derive(Debug, Default)]
pub struct Searches {
    /// The search on the probe.
    pub current: Option<Search>,
    /// Durations of the searches, on the probe or on Envoys.
    pub(crate) durations: Attribution,
    /// The number of fallbacks since the last edit.
    pub rounds: usize,
    /// Refused forms with a search since the last edit, without sending the forms again.
    pub(crate) blamed: BTreeSet<Version>,
    /// The time until which the probe is not used, in milliseconds of Unix time.
    pub(crate) probe_pauses_until: u64,
    /// The start of the next search, after one that was interrupted or that ended while a resource is held, in
    /// milliseconds of Unix time.
    pub(crate) again_at: Option<u64>,
    /// The number of consecutive searches that ended while a wanted resource is refused.
    pub(crate) failed: u32,
    /// The time at which the record of searches without a culprit was last cleared, in milliseconds of Unix time.
    pub(crate) forgot_blamed_ms: u64,
}
