//! The only place that decides: events in, actions out. No I/O, no clock, no async.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::{Graph, ObjectKey};
use holdfast_xds::{Answer, EnvoyId, Snapshot};

use crate::fault::Fault;
use crate::hold::{Hold, Refusal};
use crate::object::Object;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was created or changed; the faults are those of decoding it.
    Applied(Box<Object>, Vec<Fault>),
    /// An object is there, but its content cannot be used at all.
    Unusable(ObjectKey, Vec<Fault>),
    /// An object was deleted.
    Deleted(ObjectKey),
    /// An Envoy answered.
    Answered(Answer),
    /// A stream of an Envoy began; true where the Envoy has a configuration already.
    Connected(EnvoyId, bool),
    /// A stream of an Envoy ended.
    Disconnected(EnvoyId),
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
    pub(crate) translator: Translator,
    pub(crate) holds: BTreeMap<Arc<str>, Hold>,
    decoding: BTreeMap<ObjectKey, Vec<Fault>>,
}

impl Engine {
    /// An engine that knows no object yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            translator: Translator::new(settings.clone()),
            settings,
            objects: ObjectSnapshot::default(),
            graph: Graph::default(),
            holds: BTreeMap::new(),
            decoding: BTreeMap::new(),
        }
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in what happened, all at once; says what is to be done.
    pub fn handle(&mut self, events: Vec<Event>) -> Vec<Action> {
        let mut answers = Vec::new();
        for event in events {
            match event {
                Event::Applied(object, faults) => self.apply(*object, faults),
                Event::Unusable(key, faults) => self.remove(&key, faults),
                Event::Deleted(key) => self.remove(&key, Vec::new()),
                Event::Answered(answer) => answers.push(answer),
                Event::Connected(..) => {}
                Event::Disconnected(_) => {}
            }
        }
        let mut actions = self.translate();
        for answer in answers {
            let Some(hold) = self.holds.get_mut(&answer.fleet) else { continue };
            if let Some(snapshot) = hold.answered(&answer) {
                actions.push(Action::Publish { gateway: answer.fleet.clone(), snapshot });
            }
        }
        actions
    }

    fn apply(&mut self, object: Object, faults: Vec<Fault>) {
        self.note(&object.key, faults);
        let object = Arc::new(object);
        let old = self.objects.insert(object.clone());
        if !old.as_ref().is_some_and(|old| old.same_content(&object)) {
            self.translator.changed(&object.key, old.as_deref(), Some(&object));
        }
    }

    fn remove(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        self.note(key, faults);
        if let Some(old) = self.objects.remove(key) {
            self.translator.changed(key, Some(&old), None);
        }
    }

    fn note(&mut self, key: &ObjectKey, faults: Vec<Fault>) {
        if faults.is_empty() {
            self.decoding.remove(key);
        } else {
            self.decoding.insert(key.clone(), faults);
        }
    }

    fn translate(&mut self) -> Vec<Action> {
        let changes = self.translator.translate(&self.objects, &mut self.graph);
        let mut actions = Vec::new();
        for gateway in changes.withdrawn {
            let gateway: Arc<str> = gateway.namespaced_name().into();
            self.holds.remove(&gateway);
            actions.push(Action::Withdraw { gateway });
        }
        for (gateway, desired) in changes.fleets {
            let gateway: Arc<str> = gateway.namespaced_name().into();
            let snapshot = self.holds.entry(gateway.clone()).or_default().desire(desired);
            actions.push(Action::Publish { gateway, snapshot });
        }
        actions
    }

    /// All objects.
    pub fn objects(&self) -> &ObjectSnapshot {
        &self.objects
    }

    /// The dependency graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// All faults, in order, each once.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.translator.faults();
        faults.extend(self.decoding.values().flatten().cloned());
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// What Envoys refused, and is held back.
    pub fn refusals(&self) -> Vec<(&str, &Refusal)> {
        self.holds
            .iter()
            .flat_map(|(gateway, hold)| hold.refusals().map(move |refusal| (&**gateway, refusal)))
            .collect()
    }

    /// What the Envoys of a Gateway (`namespace/name`) should have now, refused resources held at what was acknowledged.
    pub fn fleet(&self, gateway: &str) -> Option<&Snapshot> {
        self.holds.get(gateway).map(Hold::published)
    }
}
