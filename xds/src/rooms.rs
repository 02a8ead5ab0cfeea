//! Limits on connections: in total, by peer address, and of unauthenticated peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, UNAUTHENTICATED_MAX, UNAUTHENTICATED_PER_PEER_MAX};

/// All connections; clones share the same counts.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    counted: Arc<Mutex<Counted>>,
    /// Maximum number of connections in total.
    connections: usize,
    /// Maximum number of unauthenticated connections from one address.
    unauthenticated_per_peer: usize,
}

impl Default for Rooms {
    fn default() -> Self {
        Self::of(CONNECTIONS_MAX, UNAUTHENTICATED_PER_PEER_MAX)
    }
}

#[derive(Debug, Default)]
struct Counted {
    all: Count,
    by_peer: HashMap<IpAddr, Count>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    connections: usize,
    unauthenticated: usize,
}

/// The slot of a connection, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    rooms: Rooms,
    peer: IpAddr,
    is_unauthenticated: bool,
}

impl Rooms {
    /// Returns the limits for a maximum number of connections, of which a quarter may be unauthenticated, and a maximum
    /// number of unauthenticated connections from one address.
    pub(crate) fn of(connections: usize, unauthenticated_per_peer: usize) -> Self {
        Self { counted: Arc::default(), connections: connections.min(CONNECTIONS_MAX), unauthenticated_per_peer }
    }

    fn unauthenticated_max(&self) -> usize {
        UNAUTHENTICATED_MAX.min(self.connections / 4).max(1)
    }

    /// Returns a slot for a connection from this address, if there is one.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Room> {
        let peer = network(peer);
        let mut counted = self.lock();
        let from_there = counted.by_peer.get(&peer).copied().unwrap_or_default();
        let is_full = counted.all.connections >= self.connections
            || counted.all.unauthenticated >= self.unauthenticated_max()
            || from_there.connections >= CONNECTIONS_PER_PEER_MAX
            || from_there.unauthenticated >= self.unauthenticated_per_peer.min(self.unauthenticated_max() / 2).max(1);
        if is_full {
            return None;
        }
        counted.all.enter();
        counted.by_peer.entry(peer).or_default().enter();
        Some(Room { rooms: self.clone(), peer, is_unauthenticated: true })
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Records that the peer is authenticated.
    pub(crate) fn known(&mut self) {
        if std::mem::take(&mut self.is_unauthenticated) {
            let mut counted = self.rooms.lock();
            counted.all.unauthenticated = counted.all.unauthenticated.saturating_sub(1);
            if let Some(count) = counted.by_peer.get_mut(&self.peer) {
                count.unauthenticated = count.unauthenticated.saturating_sub(1);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.known();
        let mut counted = self.rooms.lock();
        counted.all.connections = counted.all.connections.saturating_sub(1);
        if let Some(count) = counted.by_peer.get_mut(&self.peer) {
            count.connections = count.connections.saturating_sub(1);
            if count.connections == 0 {
                counted.by_peer.remove(&self.peer);
            }
        }
    }
}

impl Count {
    fn enter(&mut self) {
        self.connections += 1;
        self.unauthenticated += 1;
    }
}

/// Returns the network of a peer: the owner of one IPv6 address has its whole network of 64 bits.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn v4(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn one_peer_leaves_room_for_others_and_authentication_frees_slots() {
        let rooms = Rooms::default();
        let mut held: Vec<Room> = (0..UNAUTHENTICATED_PER_PEER_MAX).map(|_| rooms.enter(v4(1)).unwrap()).collect();
        assert!(rooms.enter(v4(1)).is_none());
        assert!(rooms.enter("::ffff:0.0.0.1".parse().unwrap()).is_none());
        let _other = rooms.enter(v4(2)).unwrap();
        held[0].known();
        held[0].known();
        held.push(rooms.enter(v4(1)).unwrap());
        assert!(rooms.enter(v4(1)).is_none());
        drop(held);
        assert_eq!(rooms.lock().by_peer.len(), 1);
        assert_eq!(rooms.lock().all, Count { connections: 1, unauthenticated: 1 });
    }

    #[test]
    fn unauthenticated_peers_and_connections_have_separate_limits() {
        let rooms = Rooms::default();
        let mut held: Vec<Room> = (0..UNAUTHENTICATED_MAX).map(|n| rooms.enter(v4(n as u32)).unwrap()).collect();
        assert!(rooms.enter(v4(77_777)).is_none());
        held.iter_mut().for_each(Room::known);
        let mut from_one: Vec<Room> = Vec::new();
        while let Some(mut room) = rooms.enter(v4(77_777)) {
            room.known();
            from_one.push(room);
        }
        assert_eq!(from_one.len(), CONNECTIONS_PER_PEER_MAX);
        let mut number = 100_000;
        while let Some(mut room) = rooms.enter(v4(number)) {
            room.known();
            held.push(room);
            number += 1;
        }
        assert_eq!(held.len() + from_one.len(), CONNECTIONS_MAX);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let rooms = Rooms::default();
        let at = |n: u64| IpAddr::V6(Ipv6Addr::from_bits((0xfd00_u128 << 112) | u128::from(n)));
        let _held: Vec<Room> = (0..UNAUTHENTICATED_PER_PEER_MAX).map(|n| rooms.enter(at(n as u64)).unwrap()).collect();
        assert!(rooms.enter(at(9999)).is_none());
        assert!(rooms.enter("fd01::1".parse().unwrap()).is_some());
    }
}
