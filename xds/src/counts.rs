//! Counters of sent responses: for metrics, and for tests that must prove that nothing was sent.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::ResourceType;

/// Cumulative counts of sent responses since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Counts by fleet and type; a fleet that is withdrawn and has no Envoys any more is dropped.
    pub by_type: BTreeMap<(Arc<str>, ResourceType), PushCount>,
    /// Number of times that a resource was encoded for the wire: once, however many Envoys it is sent to. State of the
    /// world needs no such encoding: there, only the length and the type precede the shared bytes.
    pub encodes: u64,
}

impl PushCounts {
    /// Returns the sum over all fleets and types.
    pub fn total(&self) -> PushCount {
        let mut total = PushCount::default();
        self.by_type.values().for_each(|count| total += *count);
        total
    }

    /// Returns the counts of one type of one fleet.
    pub fn of(&self, fleet: &str, kind: ResourceType) -> PushCount {
        self.by_type.get(&(Arc::from(fleet), kind)).copied().unwrap_or_default()
    }
}

/// Counts for one type and the Envoys of one fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PushCount {
    /// Number of responses.
    pub responses: u64,
    /// Number of resources in the responses; a resource that is sent to two Envoys counts twice.
    pub resources: u64,
    /// Number of names of removed resources.
    pub removals: u64,
    /// Size of the responses as gRPC messages, in bytes.
    pub bytes: u64,
    /// Number of acknowledged responses.
    pub acknowledged: u64,
    /// Number of refused responses.
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

/// Running counts of one fleet.
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
