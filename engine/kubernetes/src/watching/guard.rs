//! Guard against mass deletion: the number of missing objects from which a list is doubted.

/// A list with at most this number of missing objects is not doubted.
const MISSING_MIN: usize = 10;
/// Time for which missing objects are kept before a second list is requested (milliseconds).
const HELD_MS: u64 = 60_000;
/// Maximum time for which objects are kept after the permission to read them was lost (milliseconds). The loss of the
/// permission does not mean that the objects were deleted, but objects that are not observed must not be served
/// forever.
pub const DENIED_MAX_MS: u64 = 3_600_000;

/// Guard against mass deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionGuard {
    on: bool,
}

impl DeletionGuard {
    /// Creates the guard, on or off.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// Checks that the guard is on.
    pub fn is_on(self) -> bool {
        self.on
    }

    /// Checks that a list is doubted because of its missing objects. After an absence of the kind itself, one missing
    /// object is enough.
    pub fn doubts(self, missing: usize, of: usize, was_away: bool) -> bool {
        self.on && (was_away || missing > MISSING_MIN && missing.saturating_mul(2) > of)
    }

    /// Time for which missing objects are kept (milliseconds); 0 if the guard is off.
    pub(super) fn held_ms(self) -> u64 {
        if self.on { HELD_MS } else { 0 }
    }
}
