//! One run of trials over the slots of the probe: assigns trials to slots, and answers to trials.
//!
//! No I/O and no clock. Only trials of one kind are in progress at a time: answers for clusters may be delayed, which
//! must not make other trials look silent.

use std::collections::{BTreeMap, VecDeque};

use holdfast_envoy::encode::{names, slots};
use holdfast_fallback::trial::{Outcome, Trial, Tried};
use holdfast_xds::{ResourceType, scrub};

use crate::push::{Nonces, Push, PushContent};
use crate::rewrite::{self, SecretSort};
use crate::setup::{self, ROUTE_SLOTS, SECRET_SLOTS};

/// Maximum number of clusters, or listeners, in progress at a time.
const TRIED_RESOURCES_MAX: usize = 32;
/// Maximum number of bytes of all contents in progress; a single larger one is tried separately. The memory of the
/// probe grows by about fifty times the contents in progress.
const TRIED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum size of a content, in bytes; a larger one is not tried.
pub(crate) const TRIAL_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A larger route table (bytes) is removed from its slot after its trial, so that the memory of the probe does not grow
/// with all tried contents.
const KEPT_TABLE_BYTES_MAX: usize = 16 * 1024;

/// The kind of slot of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Route,
    Certificate,
    Authorities,
    Cluster,
    Listener,
}

impl Lane {
    /// The lane of a trial; `None` if the probe has no slot for its content.
    pub(crate) fn of(trial: &Trial) -> Option<Self> {
        if trial.body.len() > TRIAL_BODY_BYTES_MAX {
            return None;
        }
        match trial.kind {
            ResourceType::Route => Some(Lane::Route),
            ResourceType::Cluster => Some(Lane::Cluster),
            ResourceType::Listener => Some(Lane::Listener),
            ResourceType::Secret => match rewrite::secret_sort(&trial.body) {
                SecretSort::Certificate => Some(Lane::Certificate),
                SecretSort::Authorities => Some(Lane::Authorities),
                SecretSort::Other => None,
            },
            ResourceType::Endpoints => None,
        }
    }

    fn slots(self) -> usize {
        match self {
            Lane::Route => ROUTE_SLOTS,
            Lane::Certificate | Lane::Authorities => SECRET_SLOTS,
            Lane::Cluster | Lane::Listener => TRIED_RESOURCES_MAX,
        }
    }

    fn name(self, slot: usize) -> String {
        match self {
            Lane::Route => names::probe_routes(slot),
            Lane::Certificate => names::probe_certificate(slot),
            Lane::Authorities => names::probe_authorities(slot),
            Lane::Cluster => names::probe_cluster(slot),
            Lane::Listener => names::PROBE_LISTENER.into(),
        }
    }
}

/// A run of trials.
#[derive(Debug, Default)]
pub(crate) struct Course {
    waiting: BTreeMap<Lane, VecDeque<Trial>>,
    flights: BTreeMap<u64, Flight>,
    free: Vec<usize>,
    /// The lane of the slots in `free` and `flights`.
    lane: Option<Lane>,
    outbox: VecDeque<Push>,
    bytes: usize,
}

/// A trial in progress.
#[derive(Debug)]
struct Flight {
    trial: Trial,
    slot: usize,
}

impl Course {
    /// A run of these trials, and the trials that cannot be tried.
    pub(crate) fn new(trials: impl IntoIterator<Item = Trial>) -> (Self, Vec<Trial>) {
        let (mut course, mut left) = (Self::default(), Vec::new());
        for trial in trials {
            match Lane::of(&trial) {
                Some(lane) => course.waiting.entry(lane).or_default().push_back(trial),
                None => left.push(trial),
            }
        }
        (course, left)
    }

    /// Returns whether all trials are answered, and all responses sent.
    pub(crate) fn is_done(&self) -> bool {
        self.is_answered() && self.outbox.is_empty()
    }

    /// Returns whether all trials are answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.waiting.is_empty() && self.flights.is_empty()
    }

    /// The next response, if there is one now.
    pub(crate) fn next(&mut self, nonces: &mut Nonces) -> Option<Push> {
        if self.outbox.is_empty() {
            self.depart(nonces);
        }
        self.outbox.pop_front()
    }

    /// Processes an answer to a response; returns the result of the trial that it ends, if any.
    pub(crate) fn answer(&mut self, nonce: u64, error: Option<&str>, nonces: &mut Nonces) -> Option<Tried> {
        let Flight { trial, slot } = self.flights.remove(&nonce)?;
        let lane = self.lane?;
        self.free.push(slot);
        self.bytes -= trial.body.len();
        let name = lane.name(slot);
        match lane {
            Lane::Cluster => self.outbox.push_back(nonces.push(trial.kind, PushContent::Gone(name.clone()))),
            Lane::Route if trial.body.len() > KEPT_TABLE_BYTES_MAX => {
                let body = slots::no_routes(&name);
                self.outbox.push_back(nonces.resource(trial.kind, name.clone(), body));
            }
            // The slot of a certificate gets other content before it is used again.
            Lane::Route | Lane::Certificate | Lane::Authorities | Lane::Listener => {}
        }
        // The name of the slot means nothing to readers of the message, so the resource name replaces it.
        let refused = |error| Outcome::Refused { message: scrub(error).replace(&name, &trial.name) };
        let outcome = error.map_or(Outcome::Accepted, refused);
        Some(Tried { id: trial.id, outcome })
    }

    /// The trials in progress, and those that have not begun.
    pub(crate) fn into_unanswered(self) -> (Vec<Trial>, Vec<Trial>) {
        let under_way = self.flights.into_values().map(|flight| flight.trial).collect();
        (under_way, self.waiting.into_values().flatten().collect())
    }

    /// Starts the next trial if there is room.
    fn depart(&mut self, nonces: &mut Nonces) {
        if self.flights.is_empty() {
            self.lane = self.waiting.keys().next().copied();
            self.free = self.lane.map_or(Vec::new(), |lane| (0..lane.slots()).rev().collect());
        }
        let Some((lane, queue)) = self.lane.and_then(|lane| Some((lane, self.waiting.get_mut(&lane)?))) else { return };
        let Some(bytes) = queue.front().map(|trial| trial.body.len()) else { return };
        if !self.flights.is_empty() && self.bytes + bytes > TRIED_BYTES_MAX {
            return;
        }
        let Some(slot) = self.free.pop() else { return };
        let Some(trial) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.waiting.remove(&lane);
        }
        let name = lane.name(slot);
        let body = match lane {
            Lane::Route | Lane::Certificate | Lane::Authorities => rewrite::renamed(&trial.body, &name),
            Lane::Cluster => rewrite::alone(&trial.body, &name),
            Lane::Listener => rewrite::unbound(&trial.body, &name),
        };
        if matches!(lane, Lane::Certificate | Lane::Authorities) {
            self.outbox.push_back(setup::placeholder(&name, nonces));
        }
        let push = nonces.resource(trial.kind, name.clone(), body);
        self.bytes += bytes;
        self.flights.insert(push.nonce, Flight { trial, slot });
        self.outbox.push_back(push);
        if lane == Lane::Listener {
            // In a separate response: a refusal of the next listener may reject everything in its response.
            self.outbox.push_back(nonces.push(ResourceType::Listener, PushContent::Gone(name)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn trial(id: u64, kind: ResourceType, bytes: usize) -> Trial {
        Trial { id, kind, name: "r".into(), body: Bytes::from(vec![0; bytes]) }
    }

    fn routes(count: u64, bytes: usize) -> Course {
        let (course, left) = Course::new((0..count).map(|id| trial(id, ResourceType::Route, bytes)));
        assert!(left.is_empty());
        course
    }

    fn drain(course: &mut Course, nonces: &mut Nonces) -> Vec<Push> {
        std::iter::from_fn(|| course.next(nonces)).collect()
    }

    #[test]
    fn more_trials_than_places_go_one_after_the_other() {
        let (mut course, mut nonces) = (routes(300, 10), Nonces::default());
        let pushes = drain(&mut course, &mut nonces);
        assert_eq!(pushes.len(), ROUTE_SLOTS);
        let Push { nonce, content: PushContent::Resources(first), .. } = &pushes[5] else { panic!() };
        assert_eq!(course.answer(*nonce, None, &mut nonces), Some(Tried { id: 5, outcome: Outcome::Accepted }));
        assert_eq!(course.answer(*nonce, None, &mut nonces), None);
        let [Push { content: PushContent::Resources(next), .. }] = &drain(&mut course, &mut nonces)[..] else {
            panic!()
        };
        assert_eq!(first[0].0, next[0].0);
        let (under_way, waiting) = course.into_unanswered();
        assert_eq!((under_way.len(), waiting.len()), (ROUTE_SLOTS, 300 - ROUTE_SLOTS - 1));
    }

    #[test]
    fn every_trial_is_answered_once_whatever_the_mix() {
        let kinds = [ResourceType::Route, ResourceType::Cluster, ResourceType::Listener, ResourceType::Secret];
        let trials = (0..500).map(|id| trial(id, kinds[id as usize % kinds.len()], 100_000));
        let (mut course, _) = Course::new(trials);
        let (mut nonces, mut answered) = (Nonces::default(), Vec::new());
        while !course.is_done() {
            let pushes = drain(&mut course, &mut nonces);
            assert!(!pushes.is_empty(), "it waits for nothing");
            let of_kinds: std::collections::BTreeSet<_> = course.flights.values().map(|f| f.trial.kind).collect();
            assert_eq!(of_kinds.len().max(1), 1, "{of_kinds:?}");
            answered.extend(pushes.iter().filter_map(|push| course.answer(push.nonce, Some("no"), &mut nonces)));
        }
        answered.sort_by_key(|tried| tried.id);
        assert_eq!(answered.len(), 500);
        assert!(answered.iter().enumerate().all(|(id, tried)| tried.id == id as u64));
    }

    #[test]
    fn bytes_under_way_are_limited_and_one_always_goes() {
        let (mut course, mut nonces) = (routes(10, TRIED_BYTES_MAX / 2), Nonces::default());
        assert_eq!(drain(&mut course, &mut nonces).len(), 2);
        let (mut course, mut nonces) = (routes(10, TRIED_BYTES_MAX * 2), Nonces::default());
        assert_eq!(drain(&mut course, &mut nonces).len(), 1);
    }

    #[test]
    fn a_large_table_does_not_stay_in_its_place() {
        for (bytes, after) in [(KEPT_TABLE_BYTES_MAX, 0), (KEPT_TABLE_BYTES_MAX + 1, 1)] {
            let (mut course, mut nonces) = (routes(1, bytes), Nonces::default());
            let nonce = drain(&mut course, &mut nonces)[0].nonce;
            course.answer(nonce, None, &mut nonces);
            assert_eq!(drain(&mut course, &mut nonces).len(), after);
        }
    }

    #[test]
    fn a_refusal_has_the_name_of_the_tried_resource() {
        let mut nonces = Nonces::default();
        let (mut course, _) = Course::new([trial(1, ResourceType::Cluster, 0)]);
        let nonce = drain(&mut course, &mut nonces)[0].nonce;
        let tried = course.answer(nonce, Some("cluster probe/cluster/0: no"), &mut nonces).unwrap();
        assert_eq!(tried.outcome, Outcome::Refused { message: "cluster r: no".into() });
    }

    #[test]
    fn what_has_no_place_is_not_tried() {
        let trials = [trial(1, ResourceType::Endpoints, 1), trial(2, ResourceType::Route, TRIAL_BODY_BYTES_MAX + 1)];
        let (course, left) = Course::new(trials);
        assert!(course.is_done());
        assert_eq!(left.len(), 2);
    }

    #[test]
    fn a_certificate_comes_after_a_placeholder_and_a_listener_goes_after_its_trial() {
        let mut nonces = Nonces::default();
        let (mut course, _) = Course::new([trial(1, ResourceType::Secret, 0)]);
        let pushes = drain(&mut course, &mut nonces);
        assert_eq!(pushes.len(), 2);
        assert_eq!(course.answer(pushes[0].nonce, Some("placeholder"), &mut nonces), None);
        assert!(course.answer(pushes[1].nonce, None, &mut nonces).is_some());
        let (mut course, _) = Course::new([trial(1, ResourceType::Listener, 0)]);
        let pushes = drain(&mut course, &mut nonces);
        assert_eq!(pushes[1].content, PushContent::Gone("probe/listener".into()));
    }
}
