//! What was sent, counted: for metrics, and for tests that must be able to say "nothing was sent".

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::ResourceType;

/// What was sent since the start, cumulative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// By fleet and type; a fleet that is withdrawn and has no Envoy any more is dropped.
    pub by_type: BTreeMap<(Arc<str>, ResourceType), PushCount>,
    /// How often a resource was put into its form on the wire: once, however many Envoys are sent it. State of the world
    /// needs none: there only the length and the type stand before the shared bytes.
    pub encodes: u64,
}

impl PushCounts {
    /// All fleets and types together.
    pub fn total(&self) -> PushCount {
        let mut total = PushCount::default();
        self.by_type.values().for_each(|count| total += *count);
        total
    }

    /// One type of one fleet.
    pub fn of(&self, fleet: &str, kind: ResourceType) -> PushCount {
        self.by_type.get(&(Arc::from(fleet), kind)).copied().unwrap_or_default()
    }
}

/// What was sent of one type to the Envoys of one fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PushCount {
    /// Responses.
    pub responses: u64,
    /// Resources in them; one sent to two Envoys counts twice.
    pub resources: u64,
    /// Names of resources told to be gone.
    pub removals: u64,
    /// Bytes of the responses as gRPC messages.
    pub bytes: u64,
    /// Responses that were acknowledged.
    pub acknowledged: u64,
    /// Responses that were refused.
    pub refused: u64,
}

impl AddAssign for PushCount {
    fn add_assign(&mut self, other: Self) {
        self.responses += other.responses;
        self.resources += other.resources;
        self.removals += other.removals;
        self.bytes += other.bytes;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
    }
}

/// The running counts of one fleet.
#[derive(Debug, Default)]
pub(crate) struct FleetCounters([TypeCounters; ResourceType::ALL.len()]);

#[derive(Debug, Default)]
struct TypeCounters {
    responses: AtomicU64,
    resources: AtomicU64,
    removals: AtomicU64,
    bytes: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl FleetCounters {
    pub(crate) fn add(&self, kind: ResourceType, more: PushCount) {
        let counters = &self.0[kind as usize];
        counters.responses.fetch_add(more.responses, Relaxed);
        counters.resources.fetch_add(more.resources, Relaxed);
        counters.removals.fetch_add(more.removals, Relaxed);
        counters.bytes.fetch_add(more.bytes, Relaxed);
        counters.acknowledged.fetch_add(more.acknowledged, Relaxed);
        counters.refused.fetch_add(more.refused, Relaxed);
    }

    pub(crate) fn read(&self, kind: ResourceType) -> PushCount {
        let counters = &self.0[kind as usize];
        PushCount {
            responses: counters.responses.load(Relaxed),
            resources: counters.resources.load(Relaxed),
            removals: counters.removals.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            acknowledged: counters.acknowledged.load(Relaxed),
            refused: counters.refused.load(Relaxed),
        }
    }
}
