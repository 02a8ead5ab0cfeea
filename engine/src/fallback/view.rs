//! What is told of the fallback: `GET /debug/config/fallback`, and what events, metrics and `holdfast status` are made
//! from. Data only, in an order that is always the same; how it comes about stands in `survey.rs`.
//!
//! Names of fields are Kong's where it has such a field. Arrays are always there. Never holds a Secret's content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Detected, Node, ObjectKey, Step};
use serde::{Deserialize, Serialize};

use crate::time::Moment;

/// What is not served as it is desired, of all Gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FallbackReport {
    /// Is anything not served as it is desired?
    pub status: Status,
    /// What is at fault; each object once.
    pub broken_objects: Vec<BrokenObject>,
    /// Of what the last valid version is served.
    pub backfilled_objects: Vec<BackfilledObject>,
    /// What a direct response stands in the place of.
    pub replaced_objects: Vec<ReplacedObject>,
    /// What is left out.
    pub excluded_objects: Vec<ExcludedObject>,
    /// The Gateways, in the order of their names.
    pub gateways: Vec<GatewayState>,
}

/// Is anything not served as it is desired?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Something is not.
    Triggered,
    /// All is current.
    #[default]
    NotTriggered,
}

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// The preferred version of the kind.
    pub version: Arc<str>,
    /// Namespace, empty where the kind is cluster-scoped.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub id: Arc<str>,
}

impl Identity {
    /// Is this the object?
    pub fn is(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace && self.kind == key.kind && self.group == key.group
    }

    /// The object's key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.group.clone(), self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

/// An object at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenObject {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// Its generation; unset where nothing of it can be read.
    pub generation: Option<i64>,
    /// By whose word: the firmest, where there are several.
    pub detected_by: Detected,
    /// The field, as a path; empty where it is not known.
    pub field: String,
    /// What is wrong. Where several fields are at fault the others follow, each with its path.
    pub message: String,
    /// The Gateways at which it is at fault.
    pub gateways: BTreeSet<Arc<str>>,
    /// Since when.
    pub since: Moment,
}

/// An object of which the last valid version is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackfilledObject {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects behind it, as `group/Kind:namespace/name`.
    pub causing_objects: BTreeSet<String>,
    /// The generation that is desired; unset where nothing of it can be read.
    pub desired_generation: Option<i64>,
    /// The generation that is served.
    pub served_generation: i64,
    /// Since when that version is known to be good.
    pub served_since: Moment,
    /// What of the object it is, where that is not all of it: as in `listeners[web]`, of which the hostname is served.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub section: Arc<str>,
}

/// What a direct response stands in the place of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedObject {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects behind it.
    pub causing_objects: BTreeSet<String>,
    /// What of the object is replaced.
    pub scope: Scope,
    /// Where it stands in the object, as in `rules[1]`; empty for the object as a whole.
    pub section: Arc<str>,
    /// The status that requests get.
    pub response: u16,
}

/// What of an object is replaced or left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// A rule of a route, or a route of an HTTPProxy.
    Rule,
    /// An include of an HTTPProxy.
    Include,
    /// The host of an HTTPProxy.
    Host,
    /// A listener of a Gateway.
    Listener,
    /// A hostname of a route.
    Hostname,
    /// The hosts of a listener of a Gateway.
    VirtualHost,
    /// All requests of a listener of a Gateway, or of its port.
    RouteConfiguration,
    /// All of it.
    #[default]
    Object,
}

impl Scope {
    /// As it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Rule => "rule",
            Scope::Include => "include",
            Scope::Host => "host",
            Scope::Listener => "listener",
            Scope::Hostname => "hostname",
            Scope::VirtualHost => "virtualHost",
            Scope::RouteConfiguration => "routeConfiguration",
            Scope::Object => "object",
        }
    }
}

/// An object that is left out, or of which something is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedObject {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects behind it.
    pub causing_objects: BTreeSet<String>,
    /// What of the object is left out.
    #[serde(default)]
    pub scope: Scope,
    /// Where it stands in the object, as in `listeners[web]`; empty for the object as a whole.
    #[serde(default)]
    pub section: Arc<str>,
}

/// Where a Gateway is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayState {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// What its Envoys are served.
    pub state: ServedState,
    /// How many configurations were published for it in this run.
    pub generation: u64,
    /// How its Envoys stand with what they are offered.
    pub envoys: EnvoyCounts,
    /// What its Envoys acknowledged last as a whole; kept from one report to the next by [`FallbackReport::after`].
    #[serde(skip)]
    pub acknowledged: Option<Deviations>,
    /// What is done instead of what is desired, and how many objects are at fault.
    #[serde(skip)]
    pub deviations: Deviations,
    /// Is what it should have acknowledged by its Envoys?
    #[serde(skip)]
    pub settled: bool,
    /// What stands in for a broken object and cannot be served whole itself, and why.
    #[serde(skip)]
    pub untranslated: BTreeMap<Identity, String>,
    /// Objects that are no longer at fault, and that a policy above them still closes at some listener.
    #[serde(skip)]
    pub closed: BTreeSet<Identity>,
    /// Of these, those that are to be current again before that is reported; kept from one report to the next.
    #[serde(skip)]
    pub unrecovered: BTreeSet<Identity>,
    /// Since when the oldest last valid version that is served is known to be good.
    #[serde(skip)]
    pub oldest: Option<Moment>,
    /// The Gateway's object; none where its listeners are those of HTTPProxies alone.
    #[serde(skip)]
    pub object: Option<Identity>,
}

/// What is served to the Envoys of a Gateway; the later, the further from what is desired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedState {
    /// Everything as it is desired.
    #[default]
    Current,
    /// What is new is on one Envoy first; the others have what was acknowledged before.
    Trying,
    /// What is new is on the probe; Envoys have what was acknowledged before.
    Probing,
    /// What is new waits for the word of the replica that leads.
    Following,
    /// What an earlier run stored, until everything was read once.
    Unverified,
    /// A fallback: some objects are backfilled, replaced or excluded.
    Fallback,
    /// What was acknowledged last, as a whole or some resources of it.
    Held,
}

/// Numbers of Envoys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyCounts {
    /// They acknowledged everything that they are offered.
    pub acknowledged: usize,
    /// They refused some of it.
    pub refused: usize,
    /// They have not answered to all of it.
    pub pending: usize,
}

/// All deviations of one Gateway: compared to know whether something new is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// What is at fault.
    pub broken: BTreeSet<ObjectKey>,
    /// What is done about it, with what tells two equal steps apart: the generation or the status that is served.
    pub steps: BTreeMap<Node, (Step, i64)>,
    /// Is something held back without a plan?
    pub held: bool,
}

impl Deviations {
    /// Is everything served as it is desired?
    pub fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.steps.is_empty() && !self.held
    }

    /// How many objects are in a step.
    pub fn objects(&self, step: Step) -> usize {
        let keys: BTreeSet<&ObjectKey> =
            self.steps.iter().filter(|(_, (taken, _))| *taken == step).map(|(node, _)| &node.key).collect();
        keys.len()
    }
}

impl FallbackReport {
    /// The same report with what the one before it knew of acknowledged configurations.
    pub fn after(mut self, before: &Self) -> Self {
        for gateway in &mut self.gateways {
            gateway.acknowledged = if gateway.settled {
                Some(gateway.deviations.clone())
            } else {
                before.gateway(&gateway.name).and_then(|known| known.acknowledged.clone())
            };
        }
        let left = before.concerned();
        for gateway in &mut self.gateways {
            gateway.unrecovered = gateway.closed.iter().filter(|object| left.contains(object)).cloned().collect();
        }
        self
    }

    /// Objects that are at fault or in a step, or that were and are still closed at some listener.
    pub fn concerned(&self) -> BTreeSet<&Identity> {
        let broken = self.broken_objects.iter().map(|entry| &entry.object);
        let backfilled = self.backfilled_objects.iter().map(|entry| &entry.object);
        let replaced = self.replaced_objects.iter().map(|entry| &entry.object);
        let excluded = self.excluded_objects.iter().map(|entry| &entry.object);
        let waiting = self.gateways.iter().flat_map(|gateway| &gateway.unrecovered);
        broken.chain(backfilled).chain(replaced).chain(excluded).chain(waiting).collect()
    }

    /// A Gateway by its name.
    pub fn gateway(&self, name: &str) -> Option<&GatewayState> {
        self.gateways.iter().find(|gateway| *gateway.name == *name)
    }

    /// The objects in each step, each once, with the step's name.
    pub fn by_step(&self) -> BTreeSet<(&'static str, &Identity)> {
        let backfilled = self.backfilled_objects.iter().map(|object| ("backfilled", &object.object));
        let replaced = self.replaced_objects.iter().map(|object| ("replaced", &object.object));
        let excluded = self.excluded_objects.iter().map(|object| ("excluded", &object.object));
        backfilled.chain(replaced).chain(excluded).collect()
    }

    /// How many objects of each kind are in each step: the step's name, the kind, the number.
    pub fn counts(&self) -> BTreeMap<(&'static str, Arc<str>), usize> {
        let mut counts = BTreeMap::new();
        for (step, object) in self.by_step() {
            *counts.entry((step, object.kind.clone())).or_insert(0) += 1;
        }
        counts
    }
}
