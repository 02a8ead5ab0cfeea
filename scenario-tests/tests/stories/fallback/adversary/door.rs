//! What the oracles remember about requests that must not reach a backend, and about Envoys that must be current. Time
//! counts only while Holdfast and the Envoys have been up for a while.

use std::sync::LazyLock;
use std::time::Duration;

use super::number;

/// Time for which no request may have reached a backend before the change counts as effective on every Envoy.
const QUIET: Duration = Duration::from_secs(5);
/// Number of replies in this time. Every Envoy then has had several, except in one of thousands of millions of cases.
const QUIET_REPLIES: u32 = 100;
/// Grace after an innocent edit, before the allowance.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Allowance for a busy machine, `HOLDFAST_ADVERSARY_ALLOWANCE` in seconds: what is wrong for longer is a violation; of an
/// innocent edit, after the grace. On a machine without other work, 0 is enough for innocent edits.
pub(super) static ALLOWANCE: LazyLock<Duration> =
    LazyLock::new(|| Duration::from_secs(number(ALLOWANCE_VARIABLE, ALLOWANCE_SECONDS).unwrap_or(ALLOWANCE_SECONDS)));
pub(super) const ALLOWANCE_VARIABLE: &str = "HOLDFAST_ADVERSARY_ALLOWANCE";
pub(super) const ALLOWANCE_SECONDS: u64 = 20;
/// Time after which a response of a backend that must no longer respond is a violation.
pub(super) fn late_max() -> Duration {
    GRACE.max(*ALLOWANCE)
}
/// Number of replies without a right one of an Envoy, before the Envoy counts as not current.
const REPLIES_MIN: u32 = 80;

/// The state of one sort of requests for one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The backend may respond.
    Open,
    /// The backend must no longer respond; the change may still be on its way.
    Closing {
        /// Time since the change.
        since: Duration,
        /// Time since the last response of the backend.
        quiet: Duration,
        /// Number of other replies in that time.
        replies: u32,
    },
    /// The backend did not respond for a while, and must not respond again.
    Closed,
}

/// Whether one sort of requests may reach the backend of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    state: State,
    /// Number of changes after which earlier replies mean nothing.
    pub(super) epoch: u64,
}

/// What a response of the backend means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is allowed.
    Allowed,
    /// It came this long after the change, which is not too long.
    Late(Duration),
    /// It must not happen.
    Violation,
}

impl Door {
    /// A route that does not exist yet: its backend has never responded.
    pub(super) fn closed() -> Self {
        Self { state: State::Closed, epoch: 0 }
    }

    /// From now on the backend may respond.
    pub(super) fn open(&mut self) {
        self.state = State::Open;
        self.epoch += 1;
    }

    /// From now on the backend must not respond.
    pub(super) fn shut(&mut self) {
        if self.state == State::Open {
            self.state = State::Closing { since: Duration::ZERO, quiet: Duration::ZERO, replies: 0 };
            self.epoch += 1;
        }
    }

    /// Whether requests are to be sent.
    pub(super) fn is_shut(&self) -> bool {
        self.state != State::Open
    }

    /// Counts time.
    pub(super) fn pass(&mut self, time: Duration) {
        if let State::Closing { since, quiet, .. } = &mut self.state {
            *since += time;
            *quiet += time;
        }
    }

    /// Counts a reply that did not come from the backend.
    pub(super) fn stays_shut(&mut self) {
        if let State::Closing { quiet, replies, .. } = &mut self.state {
            *replies += 1;
            if *quiet >= QUIET && *replies >= QUIET_REPLIES {
                self.state = State::Closed;
            }
        }
    }

    /// Judges a response of the backend.
    pub(super) fn leaks(&mut self) -> Meaning {
        match &mut self.state {
            State::Open => Meaning::Allowed,
            State::Closed => Meaning::Violation,
            State::Closing { since, quiet, replies } => {
                (*quiet, *replies) = (Duration::ZERO, 0);
                if *since > late_max() { Meaning::Violation } else { Meaning::Late(*since) }
            }
        }
    }
}

/// How long an Envoy has not served the desired version of a route.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Staleness {
    /// Time since the edit, or since the last right reply of this Envoy.
    pub(super) time: Duration,
    /// Number of replies in that time, from any Envoy.
    replies: u32,
    /// Whether this Envoy has given a right reply since the edit.
    pub(super) is_confirmed: bool,
}

impl Staleness {
    /// Starts again after a right reply of this Envoy.
    pub(super) fn ends(&mut self) {
        *self = Self { is_confirmed: true, ..Self::default() };
    }

    /// Counts a reply that was not a right reply of this Envoy.
    pub(super) fn goes_on(&mut self) {
        self.replies += 1;
    }

    /// Whether it lasts too long.
    pub(super) fn is_violation(&self) -> bool {
        self.time > GRACE + *ALLOWANCE && self.replies >= REPLIES_MIN
    }
}
