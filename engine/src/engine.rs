//! The only place that decides: events in, actions out. No I/O, no clock, no async.

use std::sync::Arc;

use holdfast_graph::{Graph, ObjectKey};
use holdfast_xds::Snapshot;

use crate::fault::Fault;
use crate::object::Object;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was created or changed; the faults are those of decoding it.
    Applied(Box<Object>, Vec<Fault>),
    /// An object is there, but its content cannot be used at all.
    Unusable(ObjectKey, Vec<Fault>),
    /// An object was deleted.
    Deleted(ObjectKey),
}

/// Something that is to be done outside.
#[derive(Clone, Debug)]
pub enum Action {
    /// This is what the Envoys of a Gateway should have from now on.
    Publish {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
        /// All its resources.
        snapshot: Snapshot,
    },
    /// The Gateway is gone: its Envoys are to end.
    Withdraw {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
    },
}

/// The deciding part of Holdfast.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    objects: ObjectSnapshot,
    graph: Graph,
}

impl Engine {
    /// An engine that knows no object yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, objects: ObjectSnapshot::default(), graph: Graph::default() }
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, events: Vec<Event>) -> Vec<Action> {
        drop(events);
        Vec::new()
    }

    /// All objects.
    pub fn objects(&self) -> &ObjectSnapshot {
        &self.objects
    }

    /// The dependency graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
