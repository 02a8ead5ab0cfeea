//! How much may be missing from a list before it is doubted.

/// Fewer objects than these may always be missing.
const MISSING_MIN: usize = 10;
/// How long objects that are missing are held before they are looked for once more (milliseconds).
const HELD_MS: u64 = 60_000;
/// How long objects stay that may no longer be read: that it is forbidden to read them says nothing of them, but what is
/// not seen for long must not be served for ever (milliseconds).
pub const DENIED_MAX_MS: u64 = 3_600_000;

/// The guard against deletion of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    on: bool,
}

impl Guard {
    /// The guard, on or off.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// Is it on?
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// Are so many of these missing that the list is doubted? After the kind itself was away one is enough.
    pub(crate) fn doubts(self, missing: usize, of: usize, was_away: bool) -> bool {
        self.on && (was_away || missing > MISSING_MIN && missing.saturating_mul(2) > of)
    }

    /// How long what is missing is held (milliseconds).
    pub(super) fn held_ms(self) -> u64 {
        if self.on { HELD_MS } else { 0 }
    }
}
