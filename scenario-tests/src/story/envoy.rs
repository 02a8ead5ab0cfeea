//! A simulated Envoy: resources that it was sent and that it accepted, and its answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_xds::{Again, Answer, EnvoyId, Outcome, Resource, ResourceType, Snapshot, Version};

/// A resource by type and name.
pub type ResourceSlot = (ResourceType, Arc<str>);

/// Content of one response. Each route configuration, certificate and listener is sent in a separate response.
#[derive(Clone, Debug)]
pub struct SimulatedPush {
    /// The resource type.
    pub kind: ResourceType,
    /// Resources that are new or changed.
    pub resources: Vec<Arc<Resource>>,
    /// Names of removed resources.
    pub removed: Vec<Arc<str>>,
}

/// A simulated Envoy.
#[derive(Clone, Debug)]
pub struct Envoy {
    /// Fleet, node and build.
    pub id: EnvoyId,
    /// Whether it has a stream.
    pub connected: bool,
    /// Whether it answers nothing.
    pub silent: bool,
    /// Whether it left a response without an answer while it answered others; the xDS server reports that.
    pub ignores: bool,
    /// Whether it crashed, so that it reconnects without any resources.
    pub died: bool,
    /// The resources in use.
    pub taken: BTreeMap<ResourceSlot, Arc<Resource>>,
    /// The versions that this stream was sent last.
    sent: BTreeMap<ResourceSlot, Version>,
    /// Resources that were refused on this stream; the server does not send them again.
    refused: BTreeSet<(ResourceSlot, Version)>,
    /// The newest turn up to which refused contents were sent again on this stream.
    turn: u64,
    /// Whether this stream began with versions.
    pub resumed: bool,
    /// The versions that this stream began with and that the server has not reported yet.
    claims: BTreeMap<ResourceSlot, Version>,
}

impl Envoy {
    /// Creates an Envoy without resources.
    pub fn new(id: EnvoyId) -> Self {
        let (taken, sent, refused) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self {
            id,
            connected: false,
            silent: false,
            ignores: false,
            died: false,
            taken,
            sent,
            refused,
            turn: 0,
            resumed: false,
            claims: BTreeMap::new(),
        }
    }

    /// Opens a stream and reports the current versions; returns true if there are any.
    pub fn connect(&mut self) -> bool {
        self.connected = true;
        self.died = false;
        self.refused.clear();
        self.turn = 0;
        self.sent = self.taken.iter().map(|(slot, resource)| (slot.clone(), resource.version)).collect();
        self.claims = self.sent.clone();
        // Of Secrets, no version is believed.
        self.claims.retain(|(kind, _), _| *kind != ResourceType::Secret);
        self.resumed = !self.taken.is_empty();
        self.resumed
    }

    /// Returns the answers of the server about resources that the Envoy had when it connected, once.
    pub fn claimed(&mut self) -> Vec<Answer> {
        let mut claims: BTreeMap<ResourceType, Vec<_>> = BTreeMap::new();
        for ((kind, name), version) in std::mem::take(&mut self.claims) {
            claims.entry(kind).or_default().push((name, Some(version)));
        }
        let answers = claims.into_iter().map(|(kind, resources)| Answer {
            fleet: self.id.fleet.clone(),
            node: self.id.node.clone(),
            build: self.id.build.clone(),
            kind,
            outcome: Outcome::Acknowledged,
            resources,
        });
        answers.collect()
    }

    /// Allows the server to send these refused contents again.
    pub fn try_again(&mut self, again: &BTreeMap<ResourceSlot, Again>) {
        for (slot, again) in again.iter().filter(|(_, again)| again.turn > self.turn) {
            if self.refused.remove(&(slot.clone(), again.version)) {
                self.sent.remove(slot);
            }
        }
        self.turn = again.values().map(|again| again.turn).max().unwrap_or_default().max(self.turn);
    }

    /// Ends the stream.
    pub fn disconnect(&mut self) {
        self.connected = false;
    }

    /// Drops all resources.
    pub fn forget(&mut self) {
        self.taken.clear();
        self.sent.clear();
        self.claims.clear();
    }

    /// Returns whether the Envoy subscribes to a resource. It subscribes to a route configuration or certificate only
    /// while a resource in use refers to it.
    pub fn subscribes_to(&self, kind: ResourceType, name: &str) -> bool {
        let by: &[ResourceType] = match kind {
            ResourceType::Route => &[ResourceType::Listener],
            ResourceType::Secret => &[ResourceType::Listener, ResourceType::Cluster, ResourceType::Route],
            _ => return true,
        };
        // In the encoded form, the length of a string precedes the string.
        let length = u8::try_from(name.len()).into_iter().filter(|length| *length < 0x80);
        let written: Vec<u8> = length.chain(name.bytes()).collect();
        let names = |resource: &Resource| resource.body.windows(written.len()).any(|part| part == written);
        let mut taken = self.taken.iter().filter(|((of, _), _)| by.contains(of));
        name.len() >= 0x80 || taken.any(|(_, resource)| names(resource))
    }

    /// Drops the resources that no resource in use refers to, and unsubscribes from them.
    fn drop_unreferenced(&mut self) {
        let slots: Vec<ResourceSlot> = self.sent.keys().chain(self.taken.keys()).cloned().collect();
        for slot in slots.into_iter().filter(|slot| !self.subscribes_to(slot.0, &slot.1)).collect::<Vec<_>>() {
            self.sent.remove(&slot);
            self.taken.remove(&slot);
        }
    }

    /// Returns the responses of the server for a wanted snapshot.
    pub fn pushes(&mut self, wanted: &Snapshot) -> Vec<SimulatedPush> {
        let mut pushes = Vec::new();
        self.drop_unreferenced();
        for kind in ResourceType::ALL {
            let refused =
                |resource: &Resource| self.refused.contains(&((kind, resource.name.clone()), resource.version));
            let fresh = |resource: &&Arc<Resource>| {
                self.sent.get(&(kind, resource.name.clone())) != Some(&resource.version) && !refused(resource)
            };
            let subscribed = |resource: &&Arc<Resource>| self.subscribes_to(kind, &resource.name);
            let resources: Vec<_> = wanted.of(kind).values().filter(fresh).filter(subscribed).cloned().collect();
            let gone = |slot: &&ResourceSlot| slot.0 == kind && wanted.get(kind, &slot.1).is_none();
            let removed: Vec<Arc<str>> = self.sent.keys().filter(gone).map(|slot| slot.1.clone()).collect();
            for resource in &resources {
                self.sent.insert((kind, resource.name.clone()), resource.version);
            }
            for name in &removed {
                self.sent.remove(&(kind, name.clone()));
            }
            if matches!(kind, ResourceType::Cluster | ResourceType::Endpoints) {
                if !resources.is_empty() || !removed.is_empty() {
                    pushes.push(SimulatedPush { kind, resources, removed });
                }
                continue;
            }
            pushes.extend(resources.into_iter().map(|resource| SimulatedPush {
                kind,
                resources: vec![resource],
                removed: vec![],
            }));
            if !removed.is_empty() {
                pushes.push(SimulatedPush { kind, resources: vec![], removed });
            }
        }
        // Removed clusters are sent last, as make before break requires.
        pushes
    }

    /// Accepts a response.
    pub fn take(&mut self, push: &SimulatedPush) -> Answer {
        for resource in &push.resources {
            self.taken.insert((push.kind, resource.name.clone()), resource.clone());
        }
        for name in &push.removed {
            self.taken.remove(&(push.kind, name.clone()));
        }
        self.answer(push, Outcome::Acknowledged)
    }

    /// Refuses a response.
    pub fn refuse(&mut self, push: &SimulatedPush, message: String) -> Answer {
        for resource in &push.resources {
            self.refused.insert(((push.kind, resource.name.clone()), resource.version));
        }
        self.answer(push, Outcome::Refused { message })
    }

    /// Splits a response into the part without bad resources and the part with these.
    pub fn split(push: SimulatedPush, bad: impl Fn(&Resource) -> bool) -> (SimulatedPush, SimulatedPush) {
        let (refused, good): (Vec<_>, Vec<_>) = push.resources.into_iter().partition(|resource| bad(resource));
        let rest = SimulatedPush { kind: push.kind, resources: good, removed: push.removed };
        (rest, SimulatedPush { kind: push.kind, resources: refused, removed: vec![] })
    }

    fn answer(&self, push: &SimulatedPush, outcome: Outcome) -> Answer {
        let news = push.resources.iter().map(|resource| (resource.name.clone(), Some(resource.version)));
        Answer {
            fleet: self.id.fleet.clone(),
            node: self.id.node.clone(),
            build: self.id.build.clone(),
            kind: push.kind,
            outcome,
            resources: news.chain(push.removed.iter().map(|name| (name.clone(), None))).collect(),
        }
    }
}
