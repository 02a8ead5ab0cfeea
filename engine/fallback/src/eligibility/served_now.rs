//! Whether an earlier unit may be served now: the one function that decides it, for every form of earlier content.
//!
//! A last valid version of an object is such a unit, as is the hostname of an earlier listener, and a route or a filter
//! chain in resources that Envoys hold. Backfill, dependants, holds, outliers, trials, followers and the start from
//! stored configuration therefore apply the same three conditions. The checker has conditions of its own.

/// A unit with content of an earlier time, which may be served instead of today's.
pub(crate) trait EarlierUnit {
    /// The reason why it must not be served.
    type Why;

    /// Returns why the unit has no claim today: its object is gone, its hosts are no longer its own, or its owner
    /// excludes earlier versions.
    fn lacks_claim(&self) -> Option<Self::Why>;

    /// Returns why the unit protects requests or backends less than today's version.
    fn lacks_protection(&self) -> Option<Self::Why>;

    /// Returns why the unit cannot be served with today's objects: a reference does not exist or is not granted, or
    /// Envoys refuse the content.
    fn lacks_reference(&self) -> Option<Self::Why>;
}

/// Returns why an earlier unit must not be served now; `None` if it may.
pub(crate) fn why_not_now<U: EarlierUnit>(unit: &U) -> Option<U::Why> {
    unit.lacks_claim().or_else(|| unit.lacks_protection()).or_else(|| unit.lacks_reference())
}
