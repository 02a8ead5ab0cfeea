//! Refusals of one outlier: an Envoy that refuses content that others of its build accept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use holdfast_xds::{ResourceType, Snapshot, Version};

/// Limit of refused versions of a resource that are remembered for one outlier; beyond the limit, the oldest is
/// forgotten.
const VERSIONS_MAX: usize = 64;

/// Limit of refusals per minute by one Envoy of content that others accepted.
pub(crate) const OUTLIER_REFUSALS_PER_MINUTE_MAX: u64 = 40;
/// Milliseconds until one more of these refusals is allowed.
const REFILL_MS: u64 = 2_000;
/// The number of these refusals that may occur at once. Together with the refill within a minute, this is the limit per
/// minute.
const AT_ONCE: u64 = OUTLIER_REFUSALS_PER_MINUTE_MAX - 60_000 / REFILL_MS;

/// RefusedVersions by resource.
type RefusedVersions = BTreeMap<(ResourceType, Arc<str>), VecDeque<Version>>;

/// The refusals of one outlier, and its earlier configuration.
#[derive(Clone, Debug)]
pub struct Outlier {
    /// The refused versions by resource, the newest last; empty for an Envoy that is no outlier any longer.
    refused: RefusedVersions,
    /// All versions that the Envoy refused since it connected, the newest last: it is not sent them again.
    known: RefusedVersions,
    /// The configuration that the outlier accepted before, with everything closed that must no longer be served.
    pub(crate) last: Snapshot,
    /// The configuration that the outlier accepted before.
    pub(crate) accepted: Snapshot,
    /// The message of the last refusal.
    message: String,
    /// The time at which all allowed refusals are available again, in milliseconds of Unix time.
    full_at_ms: u64,
    /// The end of a pause, in which the Envoy is offered nothing newer of what it refused.
    pauses_until_ms: Option<u64>,
}

impl Outlier {
    /// Creates an outlier that has refused nothing yet.
    pub(super) fn new(last: &Snapshot) -> Self {
        let (refused, known) = (RefusedVersions::new(), RefusedVersions::new());
        Self {
            refused,
            known,
            last: last.clone(),
            accepted: last.clone(),
            message: String::new(),
            full_at_ms: 0,
            pauses_until_ms: None,
        }
    }

    /// Counts a refusal. After the last one that is allowed now, the Envoy pauses.
    pub(super) fn count(&mut self, now_ms: u64) {
        self.full_at_ms = self.full_at_ms.max(now_ms).saturating_add(REFILL_MS);
        let most_ms = (AT_ONCE - 1) * REFILL_MS;
        self.pauses_until_ms = Some(self.full_at_ms.saturating_sub(most_ms)).filter(|until_ms| *until_ms > now_ms);
    }

    /// The end of the pause, in milliseconds of Unix time.
    pub(super) fn pauses_until_ms(&self) -> Option<u64> {
        self.pauses_until_ms.filter(|_| self.is_active())
    }

    /// Ends a pause that is over; returns true if there was one.
    pub(super) fn resume(&mut self, now_ms: u64) -> bool {
        self.pauses_until_ms.take_if(|until_ms| *until_ms <= now_ms).is_some()
    }

    /// Checks whether the Envoy refuses what others accept now.
    pub(super) fn is_active(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Sets the configuration that the Envoy accepted, if it is no outlier yet.
    pub(super) fn begin(&mut self, last: &Snapshot) {
        if !self.is_active() {
            (self.last, self.accepted) = (last.clone(), last.clone());
        }
    }

    /// Ends the state of an outlier; the Envoy is still not sent again what it refused.
    pub(super) fn end(&mut self) {
        self.refused.clear();
    }

    /// Records a version that the Envoy is not sent again.
    pub(super) fn remember(&mut self, slot: &(ResourceType, Arc<str>), version: Version, message: &str) {
        message.clone_into(&mut self.message);
        note(&mut self.known, slot, version);
    }

    /// Makes the Envoy an outlier again if the configuration of all Envoys contains versions that it refused. Returns
    /// true if it does.
    pub(super) fn refuses_again(&mut self, everyone: &Snapshot, last: &Snapshot) -> bool {
        let newest = |(kind, name): &(ResourceType, Arc<str>)| Some(everyone.get(*kind, name)?.version);
        let known = self.known.iter().filter_map(|(slot, versions)| Some((slot, newest(slot)?, versions)));
        let again = known.filter(|(slot, newest, versions)| {
            let is_noted = self.refused.get(*slot).is_some_and(|noted| noted.contains(newest));
            versions.contains(newest) && !is_noted
        });
        let again: Vec<_> = again.map(|(slot, newest, _)| (slot.clone(), newest)).collect();
        self.begin(last);
        let message = self.message.clone();
        again.iter().for_each(|(slot, version)| self.refuse(slot.clone(), *version, &message));
        !again.is_empty()
    }

    /// Records a refused version.
    pub(super) fn refuse(&mut self, slot: (ResourceType, Arc<str>), version: Version, message: &str) {
        self.remember(&slot, version, message);
        if self.last.get(slot.0, &slot.1).is_some_and(|last| last.version == version) {
            // The Envoy never had this version: there is nothing to go back to.
            self.last.remove(slot.0, &slot.1);
            self.accepted.remove(slot.0, &slot.1);
        }
        note(&mut self.refused, &slot, version);
    }

    /// Records an accepted version, and forgets refusals of resources that are no longer offered to all Envoys.
    pub(super) fn accept(
        &mut self,
        (kind, name): (ResourceType, &Arc<str>),
        version: Version,
        everyone: Option<&Snapshot>,
    ) {
        let newest = |kind: ResourceType, name: &str| everyone.and_then(|everyone| everyone.get(kind, name));
        if newest(kind, name).is_some_and(|newest| newest.version == version) {
            self.refused.remove(&(kind, name.clone()));
        }
        self.refused.retain(|(kind, name), _| newest(*kind, name).is_some());
    }

    /// Returns the message of the last refusal.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Checks whether the outlier has an earlier form of each listener and route configuration that it refused.
    pub fn serves(&self) -> bool {
        let served = |kind: &ResourceType| matches!(kind, ResourceType::Listener | ResourceType::Route);
        let mut refused = self.refused.keys().filter(|(kind, _)| served(kind));
        refused.all(|(kind, name)| self.last.get(*kind, name).is_some())
    }

    /// Returns all refused versions of all resources.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&(ResourceType, Arc<str>), &Version)> {
        self.refused.iter().flat_map(|(slot, versions)| versions.iter().map(move |version| (slot, version)))
    }

    /// Returns all versions of all resources that the Envoy refused since it connected.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&(ResourceType, Arc<str>), &Version)> {
        self.known.iter().flat_map(|(slot, versions)| versions.iter().map(move |version| (slot, version)))
    }

    /// Returns the configuration that the outlier is offered instead of the one for all others; `None` if it is offered
    /// the common one again.
    ///
    /// Routes need the clusters of the same configuration, so an outlier that refused routes keeps its whole earlier
    /// configuration. Any other resource is independent: a listener with a port that is in use on the outlier's machine
    /// must not keep route changes from it.
    pub(crate) fn offered(&self, everyone: &Snapshot) -> Option<Snapshot> {
        // The outlier may try resources that are newer than its refused ones, except in a pause.
        let is_newest = |((kind, name), versions): &(&(ResourceType, Arc<str>), &VecDeque<Version>)| {
            let is_refused = |newest: &Version| self.pauses_until_ms.is_some() || versions.contains(newest);
            everyone.get(*kind, name).is_some_and(|newest| is_refused(&newest.version))
        };
        let refused: Vec<_> = self.refused.iter().filter(is_newest).map(|(slot, _)| slot).collect();
        if refused.is_empty() {
            return None;
        }
        if refused.iter().any(|(kind, _)| *kind == ResourceType::Route) && !self.last.is_empty() {
            return Some(self.last.clone());
        }
        let mut offered = everyone.clone();
        for (kind, name) in refused {
            match self.last.get(*kind, name) {
                Some(resource) => offered.insert(*kind, resource.clone()),
                None => offered.remove(*kind, name),
            }
        }
        Some(offered)
    }
}

fn note(all: &mut RefusedVersions, slot: &(ResourceType, Arc<str>), version: Version) {
    let versions = all.entry(slot.clone()).or_default();
    versions.retain(|known| *known != version);
    versions.push_back(version);
    if versions.len() > VERSIONS_MAX {
        versions.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_graph::Origins;
    use holdfast_xds::Resource;

    use super::*;

    fn snapshot(resources: &[(ResourceType, &str, &'static str)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (kind, name, body) in resources {
            snapshot.insert(*kind, Arc::new(Resource::new(*name, body.as_bytes(), Origins::default())));
        }
        snapshot
    }

    fn outlier(refused: &[(ResourceType, &str, &'static str)], last: Snapshot) -> Outlier {
        let of = snapshot(refused);
        let version = |(kind, name, _): &(ResourceType, &str, &str)| {
            of.get(*kind, name).map(|resource| ((*kind, resource.name.clone()), VecDeque::from([resource.version])))
        };
        Outlier { refused: refused.iter().filter_map(version).collect(), ..Outlier::new(&last) }
    }

    #[test]
    fn refusals_within_a_minute_are_limited_and_the_newest_content_is_offered_after_a_pause() {
        use ResourceType::Route;
        let everyone = snapshot(&[(Route, "r", "2")]);
        let mut outlier = outlier(&[(Route, "r", "1")], snapshot(&[(Route, "r", "0")]));
        let mut refusals = Vec::new();
        // Twenty edits a second for two minutes.
        for now_ms in (0..120_000_u64).step_by(50) {
            outlier.resume(now_ms);
            if outlier.offered(&everyone).is_none() {
                refusals.push(now_ms);
                outlier.count(now_ms);
            }
        }
        let within = |from: u64| refusals.iter().filter(|at| (from..from + 60_000).contains(*at)).count() as u64;
        assert!((0..=60_000).step_by(50).all(|from| within(from) <= OUTLIER_REFUSALS_PER_MINUTE_MAX), "{refusals:?}");
        assert!(refusals.last().is_some_and(|last| *last >= 117_000), "it is offered the newest content again");
    }

    #[test]
    fn a_listener_that_is_refused_alone_holds_nothing_else_back() {
        use ResourceType::{Listener, Route};
        let everyone = snapshot(&[(Listener, "taken", "2"), (Listener, "free", "2"), (Route, "r", "2")]);
        let fresh = outlier(&[(Listener, "taken", "2")], Snapshot::default());
        assert_eq!(fresh.offered(&everyone), Some(snapshot(&[(Listener, "free", "2"), (Route, "r", "2")])));
        let known = outlier(&[(Listener, "taken", "2")], snapshot(&[(Listener, "taken", "1"), (Route, "r", "1")]));
        assert_eq!(
            known.offered(&everyone),
            Some(snapshot(&[(Listener, "taken", "1"), (Listener, "free", "2"), (Route, "r", "2")]))
        );
    }

    #[test]
    fn routes_that_are_refused_alone_keep_all_of_their_time_and_an_envoy_that_had_nothing_gets_the_rest() {
        use ResourceType::{Cluster, Route};
        let everyone = snapshot(&[(Cluster, "new", "2"), (Route, "r", "2")]);
        let last = snapshot(&[(Cluster, "old", "1"), (Route, "r", "1")]);
        assert_eq!(outlier(&[(Route, "r", "2")], last.clone()).offered(&everyone), Some(last.clone()));
        let fresh = outlier(&[(Route, "r", "2")], Snapshot::default());
        assert_eq!(fresh.offered(&everyone), Some(snapshot(&[(Cluster, "new", "2")])));
        assert_eq!(outlier(&[(Route, "r", "1")], last).offered(&everyone), None, "what is newer may be tried");
    }
}
