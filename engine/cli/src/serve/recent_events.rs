//! The events of the last hour, for the page of an object. Bounded.

use std::collections::VecDeque;

use holdfast_check::time::Moment;
use holdfast_engine::report::events::{FallbackEvent, Reason, Regarding};
use holdfast_graph::ObjectKey;

/// How long an event is kept, in seconds.
const RECENT_SECONDS: i64 = 3_600;
/// Maximum number of kept events; above the limit the oldest are dropped.
const RECENT_EVENTS_MAX: usize = 2_000;

/// An event of the last hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecentEvent {
    /// When it was recorded.
    pub(crate) at: Moment,
    /// The reason.
    pub(crate) reason: Reason,
    /// The message.
    pub(crate) note: String,
    object: ObjectKey,
}

/// The events of the last hour about objects, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentEvents(VecDeque<RecentEvent>);

impl RecentEvents {
    /// Adds the events of one moment. An end comes before what begins then.
    pub(super) fn record(&mut self, events: &[FallbackEvent], now: Moment) {
        let (ended, begun): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.reason == Reason::Recovered);
        for FallbackEvent { reason, regarding, note } in ended.into_iter().chain(begun) {
            let (Regarding::Object(object) | Regarding::Deleted(object)) = regarding else { continue };
            self.0.push_back(RecentEvent { at: now, reason: *reason, note: note.clone(), object: object.key() });
        }
        let begin = now.0.saturating_sub(RECENT_SECONDS);
        while self.0.front().is_some_and(|oldest| oldest.at.0 < begin) || self.0.len() > RECENT_EVENTS_MAX {
            self.0.pop_front();
        }
    }

    /// Returns the events of the last hour about an object, the newest first.
    pub(crate) fn of(&self, object: &ObjectKey, now: Moment) -> Vec<RecentEvent> {
        let begin = now.0.saturating_sub(RECENT_SECONDS);
        let recent = self.0.iter().rev().take_while(|event| event.at.0 >= begin);
        recent.filter(|event| event.object == *object).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_fallback::view::Identity;

    use super::*;

    #[test]
    fn a_fault_that_begins_when_another_one_ends_is_the_newest_event() {
        let object = Identity { name: "a".into(), ..Identity::default() };
        let event = |reason| FallbackEvent { reason, regarding: Regarding::Object(object.clone()), note: "".into() };
        let mut recent = RecentEvents::default();
        recent.record(&[event(Reason::ConfigurationApplyFailed), event(Reason::Recovered)], Moment(0));
        let reasons: Vec<Reason> = recent.of(&object.key(), Moment(0)).iter().map(|event| event.reason).collect();
        assert_eq!(reasons, [Reason::ConfigurationApplyFailed, Reason::Recovered]);
    }

    #[test]
    fn events_are_kept_for_an_hour_and_up_to_a_limit() {
        let object = Identity { name: "a".into(), ..Identity::default() };
        let key = object.key();
        let event =
            FallbackEvent { reason: Reason::Replaced, regarding: Regarding::Object(object), note: "replaced".into() };
        let of_controller = FallbackEvent { regarding: Regarding::Controller, ..event.clone() };
        let mut recent = RecentEvents::default();
        recent.record(&[event.clone(), of_controller], Moment(0));
        assert_eq!(recent.of(&key, Moment(RECENT_SECONDS)).len(), 1);
        assert_eq!(recent.of(&key, Moment(RECENT_SECONDS + 1)).len(), 0);
        recent.record(&vec![event; RECENT_EVENTS_MAX + 10], Moment(10));
        assert_eq!(recent.of(&key, Moment(10)).len(), RECENT_EVENTS_MAX);
    }
}
