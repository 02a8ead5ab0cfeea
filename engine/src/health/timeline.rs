//! The time line: which objects were at fault when, in this run of Holdfast. Bounded; without a clock of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_graph::ObjectKey;

use super::service::GatewayService;
use super::view::{Health, Severity};

/// The period of the time line, in seconds: a day.
pub const TIMELINE_SECONDS: i64 = 86_400;
/// Maximum number of ended episodes; above the limit the oldest are dropped.
pub const EPISODES_MAX: usize = 2_000;
/// Maximum length of the message of an episode, in bytes.
const EPISODE_MESSAGE_BYTES_MAX: usize = 300;

/// A period in which an object was at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// The object.
    pub object: ObjectKey,
    /// The worst severity of its findings; another one begins another period.
    pub severity: Severity,
    /// The reason of the worst finding; another one begins another period.
    pub reason: String,
    /// The field at fault of the worst finding; another one begins another period.
    pub field: String,
    /// The beginning of the newest message of the worst finding.
    pub message: String,
    /// When the fault began.
    pub since: Moment,
    /// When it ended; unset if it has not.
    pub until: Option<Moment>,
}

/// The episodes of the last day, and since when each Gateway is in its state.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    open: BTreeMap<ObjectKey, Episode>,
    ended: VecDeque<Episode>,
    dropped: usize,
    gateways: BTreeMap<Arc<str>, (GatewayService, Moment)>,
}

impl Timeline {
    /// Records the present health.
    pub fn observe(&mut self, health: &Health, now: Moment) {
        let mut present = present(health, now);
        let is_same = |known: &Episode, next: &Episode| {
            (known.severity, &known.reason, &known.field) == (next.severity, &next.reason, &next.field)
        };
        let is_over = |known: &Episode| present.get(&known.object).is_none_or(|next| !is_same(known, next));
        let over: Vec<ObjectKey> =
            self.open.values().filter(|known| is_over(known)).map(|e| e.object.clone()).collect();
        for key in over {
            if let Some(episode) = self.open.remove(&key) {
                if let Some(next) = present.get_mut(&key) {
                    // Only severity, reason or field have changed: the periods of one object must not overlap.
                    next.since = now;
                }
                self.ended.push_back(Episode { until: Some(now), ..episode });
            }
        }
        for (key, episode) in present {
            match self.open.get_mut(&key) {
                Some(known) => known.message = episode.message,
                None => drop(self.open.insert(key, episode)),
            }
        }
        let begin = now.0.saturating_sub(TIMELINE_SECONDS);
        while self.ended.front().is_some_and(|oldest| oldest.until.is_some_and(|until| until.0 < begin)) {
            self.ended.pop_front();
        }
        while self.ended.len() > EPISODES_MAX {
            self.ended.pop_front();
            self.dropped += 1;
        }
        self.observe_gateways(health, now);
    }

    fn observe_gateways(&mut self, health: &Health, now: Moment) {
        let known = std::mem::take(&mut self.gateways);
        for gateway in &health.gateways {
            let state = GatewayService::of(gateway, health);
            let since = known.get(&gateway.name).filter(|(was, _)| *was == state).map_or(now, |(_, since)| *since);
            self.gateways.insert(gateway.name.clone(), (state, since));
        }
    }

    /// Returns since when a Gateway is in its state, in this run; `None` if it is in another state than at the last
    /// observation.
    pub fn gateway_since(&self, gateway: &str, state: GatewayService) -> Option<Moment> {
        self.gateways.get(gateway).filter(|(known, _)| *known == state).map(|(_, since)| *since)
    }

    /// Returns the episodes, the newest first: those that have not ended, then by their end.
    pub fn episodes(&self) -> impl Iterator<Item = &Episode> {
        let mut open: Vec<&Episode> = self.open.values().collect();
        open.sort_by(|a, b| b.since.cmp(&a.since).then_with(|| a.object.cmp(&b.object)));
        open.into_iter().chain(self.ended.iter().rev())
    }

    /// Returns the number of ended episodes that were dropped because there were too many.
    pub fn dropped(&self) -> usize {
        self.dropped
    }
}

/// The objects that are at fault now, each with its worst finding.
fn present(health: &Health, now: Moment) -> BTreeMap<ObjectKey, Episode> {
    let mut present = BTreeMap::new();
    for severity in Severity::ALL {
        for finding in health.of(severity) {
            for subject in &finding.objects {
                let object = subject.object.key();
                present.entry(object.clone()).or_insert_with(|| Episode {
                    object,
                    severity,
                    reason: finding.reason.clone(),
                    field: subject.field.clone(),
                    message: beginning(&finding.message).to_owned(),
                    since: subject.since.unwrap_or(now),
                    until: None,
                });
            }
        }
    }
    present
}

fn beginning(message: &str) -> &str {
    let end = (0..=EPISODE_MESSAGE_BYTES_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use holdfast_fallback::view::Identity;

    use super::super::view::{DetectedBy, HealthFinding, ObjectAtFault};
    use super::*;

    fn finding(name: &str) -> HealthFinding {
        HealthFinding {
            reason: "Refused".into(),
            message: "é".repeat(EPISODE_MESSAGE_BYTES_MAX),
            detected_by: DetectedBy::Nack,
            objects: vec![ObjectAtFault {
                object: Identity { name: name.into(), ..Identity::default() },
                generation: None,
                field: String::new(),
                place: None,
                since: None,
                not_backfilled: None,
            }],
            served: Vec::new(),
            affected: [].into(),
            gateways: [].into(),
            since: None,
            next: String::new(),
        }
    }

    fn shown(timeline: &Timeline) -> Vec<(String, Severity, i64, Option<i64>)> {
        let episodes = timeline.episodes();
        episodes.map(|e| (e.object.name.to_string(), e.severity, e.since.0, e.until.map(|until| until.0))).collect()
    }

    #[test]
    fn an_episode_lasts_as_long_as_its_severity_and_its_reason() {
        let mut timeline = Timeline::default();
        let degraded = Health { degraded: vec![finding("a")], ..Health::default() };
        timeline.observe(&degraded, Moment(10));
        timeline.observe(&degraded, Moment(20));
        assert_eq!(shown(&timeline), [("a".into(), Severity::Degraded, 10, None)]);
        let down = Health { outages: vec![finding("a"), finding("b")], ..degraded };
        timeline.observe(&down, Moment(30));
        let mut other = down.clone();
        other.outages[1].reason = "Other".into();
        timeline.observe(&other, Moment(35));
        timeline.observe(&Health::default(), Moment(40));
        let expected = [
            ("b".into(), Severity::Outage, 35, Some(40)),
            ("a".into(), Severity::Outage, 30, Some(40)),
            ("b".into(), Severity::Outage, 30, Some(35)),
            ("a".into(), Severity::Degraded, 10, Some(30)),
        ];
        assert_eq!(shown(&timeline), expected);
        assert_eq!(timeline.episodes().map(|e| e.message.len()).max(), Some(EPISODE_MESSAGE_BYTES_MAX));
    }

    #[test]
    fn another_field_begins_another_period_and_the_message_is_the_newest() {
        let broken = |field: &str, message: &str| {
            let mut finding = finding("a");
            finding.message = message.into();
            finding.objects[0].field = field.into();
            Health { outages: vec![finding], ..Health::default() }
        };
        let mut timeline = Timeline::default();
        timeline.observe(&broken("rules[0]", "first"), Moment(10));
        timeline.observe(&broken("rules[0]", "second"), Moment(20));
        timeline.observe(&broken("rules[1]", "third"), Moment(30));
        let shown = timeline.episodes().map(|e| (&*e.field, &*e.message, e.since.0, e.until.map(|until| until.0)));
        let expected = [("rules[1]", "third", 30, None), ("rules[0]", "second", 10, Some(30))];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn episodes_are_kept_for_a_day_and_up_to_a_limit() {
        let mut timeline = Timeline::default();
        for second in 0..i64::try_from(EPISODES_MAX).unwrap() + 5 {
            timeline.observe(&Health { outages: vec![finding("a")], ..Health::default() }, Moment(2 * second));
            timeline.observe(&Health::default(), Moment(2 * second + 1));
        }
        assert_eq!((timeline.episodes().count(), timeline.dropped()), (EPISODES_MAX, 5));
        let last = 2 * i64::try_from(EPISODES_MAX).unwrap() + 9;
        timeline.observe(&Health::default(), Moment(last + TIMELINE_SECONDS));
        assert_eq!(timeline.episodes().count(), 1);
    }
}
