//! Searches for objects at fault: the search on the probe, its pauses, and the record of completed searches.

use std::collections::BTreeSet;

use holdfast_xds::Version;

use super::Attribution;
use super::search::{PROBE_PAUSE_MS, Search};

/// Milliseconds between two searches for the object at fault in the same refused resource, if only time has passed.
const SEARCH_AGAIN_MS: u64 = 10_000;
/// Limit of doublings of that time while searches end and a resource is still held: up to 80 seconds.
const SEARCH_AGAIN_DOUBLINGS: u32 = 3;
/// Limit of published fallbacks for one edit; beyond the limit, refused resources are held.
const ROUNDS_MAX: usize = 16;

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
    blamed: BTreeSet<Version>,
    /// The time until which the probe is not used, in milliseconds of Unix time.
    probe_pauses_until: u64,
    /// The start of the next search, after one that was interrupted or that ended while a resource is held, in
    /// milliseconds of Unix time.
    again_at: Option<u64>,
    /// The number of consecutive searches that ended while a wanted resource is refused.
    failed: u32,
    /// The time at which the record of searches without a culprit was last cleared, in milliseconds of Unix time.
    forgot_blamed_ms: u64,
}

impl Searches {
    /// Checks whether the probe is not used at this time, because it was silent.
    pub(crate) fn is_probe_paused(&self, now_ms: u64) -> bool {
        self.probe_pauses_until > now_ms
    }

    /// Ends the search on a probe that is silent; the probe is not used for some time.
    pub(crate) fn pause_probe(&mut self, now_ms: u64) {
        self.current = None;
        self.probe_pauses_until = now_ms.saturating_add(PROBE_PAUSE_MS);
    }

    /// Handles a change of the probe: refused forms may be searched on it again.
    pub(crate) fn probe_changed(&mut self) {
        self.probe_pauses_until = 0;
        self.again_at = None;
        self.blamed.clear();
    }

    /// Handles an edit, or another change after which refused forms may be searched again.
    pub(crate) fn edited(&mut self) {
        self.rounds = 0;
        self.blamed.clear();
    }

    /// Checks whether the number of fallbacks since the last edit permits another one.
    pub(super) fn may_fall_back(&self) -> bool {
        self.rounds <= ROUNDS_MAX
    }

    /// Checks whether a refused form was searched since the last edit.
    pub(super) fn has_blamed(&self, version: &Version) -> bool {
        self.blamed.contains(version)
    }

    /// Records the search for a refused form; returns false if it is not to be searched now.
    pub(super) fn note_blamed(&mut self, version: Version) -> bool {
        self.may_fall_back() && self.blamed.insert(version)
    }

    /// Returns the start of the next search, if one is scheduled.
    pub(crate) fn again_at(&self) -> Option<u64> {
        self.again_at
    }

    /// Schedules the next search after an interrupted search on the probe, in case the probe does not change before.
    pub(super) fn search_later(&mut self, now_ms: u64) {
        self.again_at = Some(now_ms.saturating_add(PROBE_PAUSE_MS));
    }

    /// Schedules the next search for a refused resource that is held.
    pub(crate) fn search_held_again(&mut self, now_ms: u64) {
        let pause_ms = SEARCH_AGAIN_MS << self.failed.min(SEARCH_AGAIN_DOUBLINGS);
        self.again_at.get_or_insert(now_ms.saturating_add(pause_ms));
    }

    /// Records that no refused resource is held.
    pub(crate) fn note_nothing_held(&mut self) {
        self.failed = 0;
    }

    /// Clears the record of searches without a culprit, so that waiting content is searched like an edit. This happens
    /// at most once per `SEARCH_AGAIN_MS`, because a wait can end with each clock event.
    pub(crate) fn forget_blamed(&mut self, now_ms: u64) {
        let again_ms = self.forgot_blamed_ms.saturating_add(SEARCH_AGAIN_MS);
        if now_ms < again_ms {
            self.again_at = self.again_at.or(Some(again_ms));
            return;
        }
        self.forgot_blamed_ms = now_ms;
        self.blamed.clear();
    }

    /// Checks whether the scheduled search is to begin. While another search is in progress, the schedule is void: the
    /// end of that search decides about the next one.
    pub(crate) fn is_due(&mut self, now_ms: u64) -> bool {
        let is_over = self.again_at.is_some_and(|at| at <= now_ms);
        let is_due = is_over && self.current.is_none();
        if is_over && !is_due {
            self.again_at = None;
        }
        is_due
    }

    /// Prepares the next search after one that ended while a resource is held.
    pub(crate) fn begin_again(&mut self, now_ms: u64) {
        self.again_at = None;
        self.failed = self.failed.saturating_add(1);
        self.forgot_blamed_ms = now_ms;
        self.edited();
    }
}
