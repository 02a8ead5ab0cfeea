//! What each fleet should have, shared between who decides it and the streams of its Envoys.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::connection::{Connection, Protocol};
use crate::counts::{FleetCounters, PushCounts};
use crate::identity::Peer;
use crate::limits::REFUSED_MAX;
use crate::published::Published;
use crate::view::EnvoyView;
use crate::{ResourceType, Snapshot, Version};

/// What each fleet should have; all clones are one.
///
/// A fleet is all Envoys of one Gateway; its name is `namespace/name`. Until a fleet is published its Envoys
/// are sent nothing at all.
#[derive(Clone, Debug, Default)]
pub struct Fleets(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    fleets: Mutex<BTreeMap<Arc<str>, Fleet>>,
    /// Every stream that told who it is, by its number.
    streams: Mutex<BTreeMap<u64, Arc<StreamState>>>,
    opened: AtomicU64,
    encodes: AtomicU64,
}

#[derive(Debug)]
struct Fleet {
    snapshot: watch::Sender<Option<Published>>,
    counters: Arc<FleetCounters>,
    refused_secrets: Arc<Mutex<RefusedSecrets>>,
}

/// Secrets that Envoys of a fleet refused, the oldest first; at most [`REFUSED_MAX`].
///
/// An Envoy that is sent the same refused secret once more acknowledges it without using it, on another stream too. So
/// what a node refused is not sent to it again when it comes back, unless it comes back as another build.
#[derive(Debug, Default)]
struct RefusedSecrets(VecDeque<(Peer, Arc<str>, Version)>);

impl RefusedSecrets {
    fn add(&mut self, peer: &Peer, name: &Arc<str>, version: Version) {
        let refused = (peer.clone(), name.clone(), version);
        if !self.0.contains(&refused) {
            self.0.push_back(refused);
        }
        if self.0.len() > REFUSED_MAX {
            self.0.pop_front();
        }
    }
}

/// One stream, as its task and those who look at it share it.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) protocol: Protocol,
    connection: Mutex<Connection>,
}

impl StreamState {
    /// The stream's state machine; never held across a wait.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }
}

/// A panic elsewhere leaves these as they were between two calls at worst: better to go on than to stop serving.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleets {
    /// No fleet yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what a fleet should have, and wakes its Envoys where any content differs.
    ///
    /// Costs what differs from the snapshot before if this one was made from it, one comparison per resource if it was
    /// made from scratch. Never waits: an Envoy that is slow gets the newest snapshot when it comes to it.
    pub fn publish(&self, fleet: &str, snapshot: Snapshot) {
        let mut fleets = lock(&self.0.fleets);
        let fleet = fleets.entry(Arc::from(fleet)).or_insert_with(Fleet::new);
        fleet.snapshot.send_if_modified(|current| match current {
            Some(current) => current.replace(snapshot),
            None => {
                *current = Some(Published::new(snapshot));
                true
            }
        });
    }

    /// The Gateway is gone: its Envoys that are connected keep what they have, new ones are sent nothing.
    pub fn withdraw(&self, fleet: &str) {
        let mut fleets = lock(&self.0.fleets);
        if let Some(found) = fleets.get(fleet) {
            found.snapshot.send_if_modified(|current| {
                *current = None;
                false
            });
            if found.snapshot.receiver_count() == 0 {
                fleets.remove(fleet);
            }
        }
    }

    /// Every connected Envoy with where it stands, by fleet, node and age of its stream.
    pub fn envoys(&self) -> Vec<EnvoyView> {
        self.streams().iter().map(|stream| EnvoyView::of(stream)).collect()
    }

    /// How many Envoys are connected, by fleet; fleets without any are left out.
    pub fn connected(&self) -> BTreeMap<String, usize> {
        let mut connected = BTreeMap::new();
        for stream in lock(&self.0.streams).values() {
            *connected.entry(stream.peer.fleet.to_string()).or_default() += 1;
        }
        connected
    }

    /// What was sent since the start.
    pub fn pushes(&self) -> PushCounts {
        let by_type = lock(&self.0.fleets)
            .iter()
            .flat_map(|(fleet, found)| ResourceType::ALL.map(|kind| ((fleet.clone(), kind), found.counters.read(kind))))
            .filter(|(_, count)| *count != Default::default())
            .collect();
        PushCounts { by_type, encodes: self.0.encodes.load(Relaxed) }
    }

    /// The streams in the order in which they are shown.
    pub(crate) fn streams(&self) -> Vec<Arc<StreamState>> {
        let mut streams: Vec<_> = lock(&self.0.streams).values().cloned().collect();
        streams.sort_by(|a, b| (&a.peer.fleet, &a.peer.node, a.number).cmp(&(&b.peer.fleet, &b.peer.node, b.number)));
        streams
    }

    pub(crate) fn encodes(&self) -> &AtomicU64 {
        &self.0.encodes
    }

    /// A stream told who it is.
    pub(crate) fn join(&self, peer: Peer, protocol: Protocol) -> Membership {
        let number = self.0.opened.fetch_add(1, Relaxed);
        let mut fleets = lock(&self.0.fleets);
        let fleet = fleets.entry(peer.fleet.clone()).or_insert_with(Fleet::new);
        let (mut snapshots, counters) = (fleet.snapshot.subscribe(), fleet.counters.clone());
        let refused_secrets = fleet.refused_secrets.clone();
        drop(fleets);
        // The first look must see what is there already.
        snapshots.mark_changed();
        let mut connection = Connection::new(protocol);
        for (_, name, version) in lock(&refused_secrets).0.iter().filter(|(by, _, _)| *by == peer) {
            connection.was_refused(ResourceType::Secret, name, *version);
        }
        let connection = Mutex::new(connection);
        let state = Arc::new(StreamState { number, peer, protocol, connection });
        lock(&self.0.streams).insert(number, state.clone());
        Membership { fleets: self.clone(), state, counters, refused_secrets, snapshots: Some(snapshots) }
    }
}

impl Fleet {
    fn new() -> Self {
        Self { snapshot: watch::Sender::new(None), counters: Arc::default(), refused_secrets: Arc::default() }
    }
}

/// A stream's place in its fleet, given up when it is dropped.
pub(crate) struct Membership {
    fleets: Fleets,
    pub(crate) state: Arc<StreamState>,
    pub(crate) counters: Arc<FleetCounters>,
    refused_secrets: Arc<Mutex<RefusedSecrets>>,
    snapshots: Option<watch::Receiver<Option<Published>>>,
}

impl Membership {
    pub(crate) fn fleets(&self) -> &Fleets {
        &self.fleets
    }

    /// The Envoy refused a secret.
    pub(crate) fn secret_refused(&self, name: &Arc<str>, version: Version) {
        lock(&self.refused_secrets).add(&self.state.peer, name, version);
    }

    /// Waits for the fleet to get another snapshot; of several the newest.
    pub(crate) async fn next_snapshot(&mut self) -> Snapshot {
        loop {
            let Some(snapshots) = &mut self.snapshots else { return std::future::pending().await };
            if snapshots.changed().await.is_err() {
                self.snapshots = None;
            } else if let Some(published) = &*snapshots.borrow_and_update() {
                return published.snapshot().clone();
            }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.snapshots = None;
        lock(&self.fleets.0.streams).remove(&self.state.number);
        // What nobody has published and nobody waits for needs no place.
        let mut fleets = lock(&self.fleets.0.fleets);
        let is_abandoned = |fleet: &Fleet| fleet.snapshot.receiver_count() == 0 && fleet.snapshot.borrow().is_none();
        if fleets.get(&self.state.peer.fleet).is_some_and(is_abandoned) {
            fleets.remove(&self.state.peer.fleet);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_graph::Origins;

    use super::*;
    use crate::Resource;

    fn snapshot(names: &[&str]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for name in names {
            snapshot.insert(
                ResourceType::Route,
                Arc::new(Resource::new(*name, name.as_bytes().to_vec(), Origins::default())),
            );
        }
        snapshot
    }

    fn peer(fleet: &str, node: &str) -> Peer {
        Peer { fleet: Arc::from(fleet), node: Arc::from(node), build: Arc::from("") }
    }

    #[tokio::test]
    async fn publishing_the_same_content_again_wakes_nobody() {
        let fleets = Fleets::new();
        fleets.publish("a/b", snapshot(&["x"]));
        let mut member = fleets.join(peer("a/b", "e"), Protocol::Delta);
        assert_eq!(member.next_snapshot().await, snapshot(&["x"]));
        fleets.publish("a/b", snapshot(&["x"]));
        assert!(!member.snapshots.as_ref().unwrap().has_changed().unwrap());
        fleets.publish("a/b", snapshot(&["x", "y"]));
        assert_eq!(member.next_snapshot().await.len(), 2);
    }

    #[tokio::test]
    async fn a_withdrawn_fleet_takes_nothing_from_who_is_connected_and_gives_nothing_to_who_comes() {
        let fleets = Fleets::new();
        fleets.publish("a/b", snapshot(&["x"]));
        let mut member = fleets.join(peer("a/b", "e"), Protocol::Delta);
        member.next_snapshot().await;
        fleets.withdraw("a/b");
        assert!(!member.snapshots.as_ref().unwrap().has_changed().unwrap());
        let late = fleets.join(peer("a/b", "late"), Protocol::Delta);
        assert!(late.snapshots.as_ref().unwrap().borrow().is_none());
        fleets.publish("a/b", snapshot(&["y"]));
        assert_eq!(member.next_snapshot().await, snapshot(&["y"]));
    }

    #[tokio::test]
    async fn fleets_nobody_published_leave_nothing_behind() {
        let fleets = Fleets::new();
        let first = fleets.join(peer("no/such", "e1"), Protocol::Sotw);
        let second = fleets.join(peer("no/such", "e2"), Protocol::Delta);
        assert_eq!(fleets.connected(), BTreeMap::from([("no/such".to_owned(), 2)]));
        drop((first, second));
        assert!(fleets.connected().is_empty());
        assert!(lock(&fleets.0.fleets).is_empty());
        fleets.publish("a/b", snapshot(&[]));
        fleets.withdraw("a/b");
        assert!(lock(&fleets.0.fleets).is_empty());
    }

    #[tokio::test]
    async fn envoys_are_shown_by_fleet_then_node_then_age() {
        let fleets = Fleets::new();
        let members = [("b/b", "e1"), ("a/a", "e2"), ("a/a", "e1"), ("a/a", "e1")]
            .map(|(fleet, node)| fleets.join(peer(fleet, node), Protocol::Delta));
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
