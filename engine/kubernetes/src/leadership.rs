//! Leader election among several controllers, by a record that all of them read and the leader keeps renewing.
//!
//! Clocks of different controllers are never compared: a record expires when it was not seen to change for the duration
//! that it states. This module does no I/O and reads no clock.

use std::sync::Arc;

/// Duration for which a record without renewal is valid (milliseconds).
pub const HELD_MS: u64 = 15_000;
/// Duration for which a controller leads after its last renewal (milliseconds). It is shorter than the validity of the
/// record, so that writes in progress are completed before another controller leads.
pub const LEADS_MS: u64 = 10_000;
/// Interval at which the leader renews the record and other controllers read it (milliseconds).
pub const RENEW_MS: u64 = 2_000;

/// The record as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The leader; empty where there is none.
    pub holder: Arc<str>,
    /// Duration for which the record is valid without renewal (milliseconds).
    pub held_ms: u64,
    /// Number of changes of the leader.
    pub transitions: i32,
    /// A value that changes with each renewal.
    pub stamp: String,
}

/// The next step of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Write a record with this controller as the leader.
    Write {
        /// Number of changes of the leader.
        transitions: i32,
        /// Whether the write acquires leadership; otherwise it renews it.
        takes: bool,
    },
    /// Another controller leads.
    Wait,
}

/// The state of one controller in the election.
#[derive(Debug)]
pub struct Election {
    me: Arc<str>,
    seen: Option<(LeaseRecord, u64)>,
    leads_until: u64,
}

impl Election {
    /// Creates the initial state. Names of controllers must be unique.
    pub fn new(me: Arc<str>) -> Self {
        Self { me, seen: None, leads_until: 0 }
    }

    /// Returns the leader that was last read from the record.
    pub fn holder(&self) -> Option<&Arc<str>> {
        self.seen.as_ref().map(|(record, _)| &record.holder)
    }

    /// Returns whether this record is the one that was read last.
    pub fn knows(&self, record: &LeaseRecord) -> bool {
        self.seen.as_ref().is_some_and(|(known, _)| known == record)
    }

    /// Returns the end of the leadership; `None` where this controller does not lead.
    pub fn leads_until(&self, now_ms: u64) -> Option<u64> {
        self.leads(now_ms).then_some(self.leads_until)
    }

    /// Processes the record as it was read, or its absence; returns the next step.
    pub fn see(&mut self, record: Option<LeaseRecord>, now_ms: u64) -> LeaseStep {
        let Some(record) = record else {
            (self.seen, self.leads_until) = (None, 0);
            return LeaseStep::Write { transitions: 0, takes: true };
        };
        if !self.knows(&record) {
            self.seen = Some((record.clone(), now_ms));
        }
        if record.holder == self.me {
            return LeaseStep::Write { transitions: record.transitions, takes: !self.leads(now_ms) };
        }
        self.leads_until = 0;
        let since = self.seen.as_ref().map_or(now_ms, |(_, since)| *since);
        // A record with an absurd duration does not stay valid forever.
        let held = record.held_ms.clamp(1000, 10 * HELD_MS);
        if record.holder.is_empty() || now_ms.saturating_sub(since) >= held {
            return LeaseStep::Write { transitions: record.transitions.saturating_add(1), takes: true };
        }
        LeaseStep::Wait
    }

    /// Processes the completed write of [`LeaseStep::Write`]; the write began at `begun_ms`.
    pub fn wrote(&mut self, begun_ms: u64) {
        self.leads_until = begun_ms.saturating_add(LEADS_MS);
    }

    /// Processes a write conflict with another controller.
    pub fn lost(&mut self) {
        self.leads_until = 0;
    }

    /// Returns whether this controller leads.
    pub fn leads(&self, now_ms: u64) -> bool {
        now_ms < self.leads_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, transitions: i32, stamp: u64) -> LeaseRecord {
        LeaseRecord { holder: holder.into(), held_ms: HELD_MS, transitions, stamp: stamp.to_string() }
    }

    #[test]
    fn without_a_record_a_replica_becomes_leader() {
        let mut one = Election::new("one".into());
        assert!(!one.leads(0));
        assert_eq!(one.see(None, 0), LeaseStep::Write { transitions: 0, takes: true });
        one.wrote(0);
        assert!(one.leads(LEADS_MS - 1) && !one.leads(LEADS_MS));
        assert_eq!(one.see(Some(record("one", 0, 0)), 2000), LeaseStep::Write { transitions: 0, takes: false });
        one.wrote(2000);
        assert!(one.leads(LEADS_MS + 1999));
    }

    #[test]
    fn the_lead_is_taken_when_the_record_was_not_renewed_for_as_long_as_it_holds() {
        let mut two = Election::new("two".into());
        // A controller that starts late counts from when it read the record.
        assert_eq!(two.see(Some(record("one", 3, 1)), 100_000), LeaseStep::Wait);
        assert_eq!(two.see(Some(record("one", 3, 2)), 110_000), LeaseStep::Wait);
        assert_eq!(two.see(Some(record("one", 3, 2)), 110_000 + HELD_MS - 1), LeaseStep::Wait);
        let taken = two.see(Some(record("one", 3, 2)), 110_000 + HELD_MS);
        assert_eq!(taken, LeaseStep::Write { transitions: 4, takes: true });
        assert!(!two.leads(110_000 + HELD_MS), "not before it is written");
    }

    #[test]
    fn a_lead_that_was_given_up_is_taken_at_once() {
        let mut two = Election::new("two".into());
        assert_eq!(two.see(Some(record("", 3, 1)), 5), LeaseStep::Write { transitions: 4, takes: true });
    }

    #[test]
    fn a_record_of_another_replica_ends_the_leadership() {
        let mut one = Election::new("one".into());
        one.see(None, 0);
        one.wrote(0);
        assert_eq!(one.see(Some(record("two", 1, 1)), 1000), LeaseStep::Wait);
        assert!(!one.leads(1000));
        one.wrote(1000);
        one.lost();
        assert!(!one.leads(1000));
    }

    #[test]
    fn a_leader_that_cannot_renew_ends_before_another_can_begin() {
        for paused in (0..HELD_MS).step_by(500) {
            let (mut one, mut two) = (Election::new("one".into()), Election::new("two".into()));
            one.see(None, 0);
            one.wrote(0);
            assert_eq!(two.see(Some(record("one", 0, 0)), paused), LeaseStep::Wait);
            let takes = (0..60_000).step_by(100).find(|now| {
                *now >= paused && matches!(two.see(Some(record("one", 0, 0)), *now), LeaseStep::Write { .. })
            });
            assert!(takes.is_some_and(|now| !one.leads(now) && now >= HELD_MS), "{takes:?}");
        }
    }
}
