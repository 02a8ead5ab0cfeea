//! Offers to each fleet, shared between the deciding code and the streams of the Envoys.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use tracing::warn;

use crate::audiences::{AudienceOffer, Edition, FleetAudiences};
use crate::connection::{Connection, Protocol};
use crate::counts::{FleetCounters, PushCounts};
use crate::history::StreamHistory;
use crate::limits::REFUSED_MAX;
use crate::silence::{ClientActivity, LostEnvoys, SilentEnvoy};
use crate::view::{EnvoyResource, EnvoyView};
use crate::{EnvoyId, Offers, ResourceType, Version};

/// The resources that each fleet should have; all clones share the same state.
///
/// A fleet is all Envoys of one Gateway; its name is `namespace/name`. Until a fleet is published, nothing is sent to
/// its Envoys.
#[derive(Clone, Debug, Default)]
pub struct Fleets(Arc<FleetsState>);

#[derive(Debug, Default)]
struct FleetsState {
    fleets: Mutex<BTreeMap<Arc<str>, OfferedFleet>>,
    /// Every identified stream, by its number.
    streams: Mutex<BTreeMap<u64, Arc<StreamState>>>,
    lost: LostEnvoys,
    opened: AtomicU64,
    encodes: AtomicU64,
    /// The number of the newest content that was offered to any fleet.
    editions: AtomicU64,
    /// Whether virtual hosts are sent one by one.
    has_separate_hosts: bool,
}

#[derive(Debug)]
struct OfferedFleet {
    offers: watch::Sender<Option<FleetAudiences>>,
    counters: Arc<FleetCounters>,
    refused_secrets: Arc<Mutex<RefusedSecrets>>,
}

/// Secrets that Envoys of a fleet refused, the oldest first; at most [`REFUSED_MAX`].
///
/// An Envoy that gets the same refused secret once more acknowledges it without using it, also on another stream. So a
/// secret that a node refused is not sent again when the node reconnects, unless it reconnects with another build.
#[derive(Debug, Default)]
struct RefusedSecrets(VecDeque<(EnvoyId, Arc<str>, Version)>);

impl RefusedSecrets {
    fn add(&mut self, envoy: &EnvoyId, name: &Arc<str>, version: Version) {
        let refused = (envoy.clone(), name.clone(), version);
        if !self.0.contains(&refused) {
            self.0.push_back(refused);
        }
        if self.0.len() > REFUSED_MAX {
            self.0.pop_front();
        }
    }
}

/// A response that an Envoy has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The Envoy.
    pub envoy: EnvoyId,
    /// The number of the stream since the server started.
    pub stream: u64,
    /// The number of the response on the stream.
    pub nonce: u64,
}

/// One stream, shared between its task and its readers.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) number: u64,
    pub(crate) envoy: EnvoyId,
    pub(crate) protocol: Protocol,
    pub(crate) client: StreamClient,
    connection: Mutex<Connection>,
    history: Mutex<StreamHistory>,
}

/// The client of a stream: how it is connected, and what it proved.
#[derive(Clone, Debug)]
pub(crate) struct StreamClient {
    pub(crate) activity: ClientActivity,
    /// The address; `None` on a unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether the client proved its Gateway.
    pub(crate) is_proven: bool,
    /// When it connected, in seconds of Unix time.
    pub(crate) connected: i64,
}

impl StreamState {
    /// Returns the times of the stream; the lock is never held across a wait.
    pub(crate) fn history(&self) -> MutexGuard<'_, StreamHistory> {
        lock(&self.history)
    }

    /// Returns the state machine of the stream; the lock is never held across a wait.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }
}

/// Locks a mutex. After a panic elsewhere, the data is at worst in a state between two calls: continuing is better than
/// not serving.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleets {
    /// Returns a value without any fleet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a value without any fleet that sends virtual hosts one by one (VHDS): an edit of one host is sent without
    /// the other hosts of its route configuration. Envoys before 1.40, and clients of the state-of-the-world variant, are
    /// sent whole route configurations.
    pub fn with_separate_hosts() -> Self {
        Self(Arc::new(FleetsState { has_separate_hosts: true, ..FleetsState::default() }))
    }

    /// Replaces the resources that the Envoys of a fleet should have, and wakes the Envoys with a difference.
    ///
    /// For each audience, the cost is the number of differences if this snapshot was made from the previous one, and
    /// one comparison for each resource if it was made from scratch. This function never waits: a slow Envoy gets the
    /// newest snapshot when it is ready. An Envoy that moves to another audience is only sent the differences to what
    /// it has.
    pub fn publish(&self, fleet: &str, mut offers: Offers) {
        let left_out = offers.limit();
        if left_out > 0 {
            warn!(
                fleet,
                left_out,
                "too many builds or nodes have a configuration of their own; the ones beyond the limit get the common \
                 configuration"
            );
        }
        let mut fleets = lock(&self.0.fleets);
        let fleet = fleets.entry(Arc::from(fleet)).or_insert_with(OfferedFleet::new);
        fleet.offers.send_if_modified(|current| match current {
            Some(current) => current.replace(offers, &self.0.editions),
            None => {
                *current = Some(FleetAudiences::new(offers, &self.0.editions));
                true
            }
        });
    }

    /// Handles the removal of a Gateway: connected Envoys keep their resources, new ones are sent nothing.
    pub fn withdraw(&self, fleet: &str) {
        self.0.lost.forget(fleet);
        let mut fleets = lock(&self.0.fleets);
        if let Some(found) = fleets.get(fleet) {
            found.offers.send_if_modified(|current| {
                *current = None;
                false
            });
            if found.offers.receiver_count() == 0 {
                fleets.remove(fleet);
            }
        }
    }

    /// Returns every connected Envoy with its state, ordered by fleet, node and age of its stream.
    pub fn envoys(&self) -> Vec<EnvoyView> {
        self.streams().iter().map(|stream| EnvoyView::of(stream)).collect()
    }

    /// Returns the resources to which the Envoys of this node subscribed, by fleet and stream; the newest stream of a
    /// fleet is the last one.
    pub fn resources_of(&self, node: &str) -> Vec<(Arc<str>, Vec<EnvoyResource>)> {
        let streams = self.streams().into_iter().filter(|stream| *stream.envoy.node == *node);
        streams.map(|stream| (stream.envoy.fleet.clone(), stream.connection().resources())).collect()
    }

    /// Returns the number of connected Envoys, by fleet; fleets without any are left out.
    pub fn connected(&self) -> BTreeMap<String, usize> {
        let mut connected = BTreeMap::new();
        for stream in lock(&self.0.streams).values() {
            *connected.entry(stream.envoy.fleet.to_string()).or_default() += 1;
        }
        connected
    }

    /// Returns the oldest unanswered response of each stream.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        let streams: Vec<_> = lock(&self.0.streams).values().cloned().collect();
        let unanswered = streams.iter().filter_map(|stream| {
            let nonce = stream.connection().oldest_unanswered()?;
            Some(Unanswered { envoy: stream.envoy.clone(), stream: stream.number, nonce })
        });
        unanswered.collect()
    }

    /// Returns the Envoys that do not answer: connected ones, and ones with a connection that was closed because of that.
    pub fn silent(&self) -> Vec<SilentEnvoy> {
        self.silent_at(Instant::now())
    }

    pub(crate) fn silent_at(&self, now: Instant) -> Vec<SilentEnvoy> {
        let mut by_node: BTreeMap<_, Option<SilentEnvoy>> = BTreeMap::new();
        for stream in self.streams() {
            let envoy = stream.envoy.clone();
            let quiet = stream.client.activity.silence(now);
            let silent = quiet.map(|quiet| SilentEnvoy { envoy: envoy.clone(), quiet, connected: true });
            // An Envoy that connected again may have an old connection, on which no bytes arrive.
            let node = by_node.entry((envoy.fleet, envoy.node)).or_insert_with(|| silent.clone());
            *node = node.take().and(silent);
        }
        by_node.into_values().flatten().chain(self.0.lost.silent(now)).collect()
    }

    /// Returns the counts of sent responses since the start.
    pub fn pushes(&self) -> PushCounts {
        let by_type = lock(&self.0.fleets)
            .iter()
            .flat_map(|(fleet, found)| ResourceType::ALL.map(|kind| ((fleet.clone(), kind), found.counters.read(kind))))
            .filter(|(_, count)| *count != Default::default())
            .collect();
        PushCounts { by_type, encodes: self.0.encodes.load(Relaxed) }
    }

    /// Returns the streams in the order of display.
    pub(crate) fn streams(&self) -> Vec<Arc<StreamState>> {
        let mut streams: Vec<_> = lock(&self.0.streams).values().cloned().collect();
        streams
            .sort_by(|a, b| (&a.envoy.fleet, &a.envoy.node, a.number).cmp(&(&b.envoy.fleet, &b.envoy.node, b.number)));
        streams
    }

    pub(crate) fn encodes(&self) -> &AtomicU64 {
        &self.0.encodes
    }

    /// Adds a stream of an identified Envoy.
    pub(crate) fn join(&self, envoy: EnvoyId, protocol: Protocol, client: StreamClient) -> Membership {
        self.0.lost.came(&envoy);
        let number = self.0.opened.fetch_add(1, Relaxed);
        let mut fleets = lock(&self.0.fleets);
        let fleet = fleets.entry(envoy.fleet.clone()).or_insert_with(OfferedFleet::new);
        let (mut offers, counters) = (fleet.offers.subscribe(), fleet.counters.clone());
        let refused_secrets = fleet.refused_secrets.clone();
        drop(fleets);
        // The first read must return offers that are already there.
        offers.mark_changed();
        let connection = Connection::new(protocol);
        let takes_hosts = self.0.has_separate_hosts && envoy.takes_separate_hosts();
        let mut connection = if takes_hosts { connection.with_separate_hosts() } else { connection };
        for (_, name, version) in lock(&refused_secrets).0.iter().filter(|(by, _, _)| *by == envoy) {
            connection.was_refused(ResourceType::Secret, name, *version);
        }
        let connection = Mutex::new(connection);
        let history = Mutex::new(StreamHistory { connected: client.connected, ..StreamHistory::default() });
        let state = Arc::new(StreamState { number, envoy, protocol, client, connection, history });
        lock(&self.0.streams).insert(number, state.clone());
        Membership { fleets: self.clone(), state, counters, refused_secrets, offers: Some(offers), seen: None }
    }
}

impl OfferedFleet {
    fn new() -> Self {
        Self { offers: watch::Sender::new(None), counters: Arc::default(), refused_secrets: Arc::default() }
    }
}

/// The membership of a stream in its fleet, which ends when it is dropped.
pub(crate) struct Membership {
    fleets: Fleets,
    pub(crate) state: Arc<StreamState>,
    pub(crate) counters: Arc<FleetCounters>,
    refused_secrets: Arc<Mutex<RefusedSecrets>>,
    offers: Option<watch::Receiver<Option<FleetAudiences>>>,
    /// The edition of the last offer.
    seen: Option<Edition>,
}

impl Membership {
    pub(crate) fn fleets(&self) -> &Fleets {
        &self.fleets
    }

    /// Records that the Envoy refused a secret.
    pub(crate) fn secret_refused(&self, name: &Arc<str>, version: Version) {
        lock(&self.refused_secrets).add(&self.state.envoy, name, version);
    }

    /// Waits for a different offer to the Envoy; of several offers, returns the newest.
    pub(crate) async fn next_offer(&mut self) -> AudienceOffer {
        loop {
            let Some(offers) = &mut self.offers else { return std::future::pending().await };
            if offers.changed().await.is_err() {
                self.offers = None;
            } else if let Some(audiences) = &*offers.borrow_and_update()
                && let Some(offer) = audiences.offer(&self.state.envoy, self.seen)
            {
                self.seen = Some(offer.edition);
                return offer;
            }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.offers = None;
        let mut streams = lock(&self.fleets.0.streams);
        streams.remove(&self.state.number);
        let EnvoyId { fleet, node, .. } = &self.state.envoy;
        let is_same = |stream: &Arc<StreamState>| (&stream.envoy.fleet, &stream.envoy.node) == (fleet, node);
        let now = Instant::now();
        if self.state.client.activity.is_lost(now) && !streams.values().any(is_same) {
            self.fleets.0.lost.left(&self.state.envoy, &self.state.client.activity, now);
        }
        drop(streams);
        // A fleet that is neither published nor has Envoys is removed.
        let mut fleets = lock(&self.fleets.0.fleets);
        let is_abandoned = |fleet: &OfferedFleet| fleet.offers.receiver_count() == 0 && fleet.offers.borrow().is_none();
        if fleets.get(&self.state.envoy.fleet).is_some_and(is_abandoned) {
            fleets.remove(&self.state.envoy.fleet);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::testing::{client, envoy, routes};

    fn everyone(text: &str) -> Offers {
        Offers::everyone(routes(text))
    }

    #[tokio::test]
    async fn publishing_equal_content_again_wakes_no_stream() {
        let fleets = Fleets::new();
        fleets.publish("a/b", everyone("x=1"));
        let mut member = fleets.join(envoy("a/b e"), Protocol::Delta, client(ClientActivity::of_new(Instant::now())));
        assert_eq!(member.next_offer().await.snapshot, routes("x=1"));
        fleets.publish("a/b", everyone("x=1"));
        assert!(!member.offers.as_ref().unwrap().has_changed().unwrap());
        fleets.publish("a/b", everyone("x=1 y=1"));
        assert_eq!(member.next_offer().await.snapshot.len(), 2);
    }

    #[tokio::test]
    async fn a_withdrawn_fleet_leaves_connected_envoys_unchanged_and_serves_no_new_ones() {
        let fleets = Fleets::new();
        fleets.publish("a/b", everyone("x=1"));
        let mut member = fleets.join(envoy("a/b e"), Protocol::Delta, client(ClientActivity::of_new(Instant::now())));
        member.next_offer().await;
        fleets.withdraw("a/b");
        assert!(!member.offers.as_ref().unwrap().has_changed().unwrap());
        let late = fleets.join(envoy("a/b late"), Protocol::Delta, client(ClientActivity::of_new(Instant::now())));
        assert!(late.offers.as_ref().unwrap().borrow().is_none());
        fleets.publish("a/b", everyone("y=1"));
        assert_eq!(member.next_offer().await.snapshot, routes("y=1"));
    }

    #[tokio::test]
    async fn unpublished_fleets_leave_nothing_behind() {
        let fleets = Fleets::new();
        let first = fleets.join(envoy("no/such e1"), Protocol::Sotw, client(ClientActivity::of_new(Instant::now())));
        let second = fleets.join(envoy("no/such e2"), Protocol::Delta, client(ClientActivity::of_new(Instant::now())));
        assert_eq!(fleets.connected(), BTreeMap::from([("no/such".to_owned(), 2)]));
        drop((first, second));
        assert!(fleets.connected().is_empty());
        assert!(lock(&fleets.0.fleets).is_empty());
        fleets.publish("a/b", everyone(""));
        fleets.withdraw("a/b");
        assert!(lock(&fleets.0.fleets).is_empty());
    }

    #[tokio::test]
    async fn envoys_are_shown_by_fleet_then_node_then_age() {
        let fleets = Fleets::new();
        let members = [("b/b", "e1"), ("a/a", "e2"), ("a/a", "e1"), ("a/a", "e1")].map(|(fleet, node)| {
            fleets.join(
                envoy(&format!("{fleet} {node}")),
                Protocol::Delta,
                client(ClientActivity::of_new(Instant::now())),
            )
        });
        let shown: Vec<_> = fleets
            .envoys()
            .into_iter()
            .map(|view| (view.fleet.to_string(), view.node.to_string(), view.stream))
            .collect();
        let expected = [("a/a", "e1", 2), ("a/a", "e1", 3), ("a/a", "e2", 1), ("b/b", "e1", 0)];
        assert_eq!(shown, expected.map(|(fleet, node, stream)| (fleet.to_owned(), node.to_owned(), stream)));
        drop(members);
    }
}
