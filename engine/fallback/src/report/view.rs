//! Data model of the fallback report: `GET /debug/config/fallback`, and the source of Events, metrics and `holdfast
//! status`. Data only, in deterministic order; `survey.rs` assembles the report.
//!
//! Field names are those of Kong where Kong has the field. Arrays are always present. The report never contains the
//! content of a Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_graph::{Detected, Node, ObjectKey, Step};
use serde::{Deserialize, Serialize};

/// The objects of all Gateways that are not served as desired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FallbackReport {
    /// Whether any object is not served as desired.
    pub status: Status,
    /// Objects at fault, each once.
    pub broken_objects: Vec<BrokenObject>,
    /// Objects with their last valid version served.
    pub backfilled_objects: Vec<BackfilledObject>,
    /// Objects, or parts of objects, that a direct response replaces.
    pub replaced_objects: Vec<ReplacedObject>,
    /// Objects, or parts of objects, that are left out.
    pub excluded_objects: Vec<ExcludedObject>,
    /// The Gateways, ordered by name.
    pub gateways: Vec<GatewayState>,
}

/// Whether any object is not served as desired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// At least one object is not.
    Triggered,
    /// All objects are current.
    #[default]
    NotTriggered,
}

/// The identity of an object.
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
    /// Checks whether this is the identity of the object.
    pub fn is(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace && self.kind == key.kind && self.group == key.group
    }

    /// Returns the key of the object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.group.clone(), self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

/// An object at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenObject {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// Its generation; unset if the object cannot be read at all.
    pub generation: Option<i64>,
    /// The source of the finding: the firmest, if there are several.
    pub detected_by: Detected,
    /// The field, as a path; empty where it is not known.
    pub field: String,
    /// The fault. If several fields are at fault, the other ones follow, each with its path.
    pub message: String,
    /// The Gateways at which the object is at fault.
    pub gateways: BTreeSet<Arc<str>>,
    /// The start of the fault.
    pub since: Moment,
    /// The reason why its last valid version is not served, or not as a whole, if last valid versions are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_backfilled: Option<Arc<str>>,
}

/// An object with its last valid version served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackfilledObject {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects that cause this step, as `group/Kind:namespace/name`.
    pub causing_objects: BTreeSet<String>,
    /// The desired generation; unset if the object cannot be read at all.
    pub desired_generation: Option<i64>,
    /// The served generation.
    pub served_generation: i64,
    /// The time since which the served version is known to be good.
    pub served_since: Moment,
    /// The backfilled section, if it is not the whole object: for `listeners[web]`, the hostname is backfilled.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub section: Arc<str>,
    /// Sections of the desired version that are served, because the served version lacks their backends.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub desired_sections: BTreeSet<Arc<str>>,
}

/// An object, or a part of an object, that a direct response replaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedObject {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects that cause this step.
    pub causing_objects: BTreeSet<String>,
    /// The type of the replaced part.
    pub scope: Scope,
    /// The path of the part in the object, such as `rules[1]`; empty for the whole object.
    pub section: Arc<str>,
    /// The status code of the response.
    pub response: u16,
    /// What closed the part.
    #[serde(skip)]
    pub closed_by: ClosedBy,
}

/// What closed a part of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClosedBy {
    /// A step of a plan.
    #[default]
    Step,
    /// Translation, without a step.
    Translation,
    /// Translation, because no backend of the part exists or may be used, or because it has none.
    MissingBackend,
}

/// The type of the part of an object that is replaced or left out.
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
    /// The attachment of a route to one of its parents.
    ParentRef,
    /// The hosts of a listener of a Gateway.
    VirtualHost,
    /// All requests of a listener of a Gateway, or of its port.
    RouteConfiguration,
    /// All of it.
    #[default]
    Object,
}

impl Scope {
    /// Returns the serialized form.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Rule => "rule",
            Scope::Include => "include",
            Scope::Host => "host",
            Scope::Listener => "listener",
            Scope::Hostname => "hostname",
            Scope::ParentRef => "parentRef",
            Scope::VirtualHost => "virtualHost",
            Scope::RouteConfiguration => "routeConfiguration",
            Scope::Object => "object",
        }
    }
}

/// An object that is left out, or that has a part left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedObject {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// The broken objects that cause this step.
    pub causing_objects: BTreeSet<String>,
    /// The type of the part that is left out.
    #[serde(default)]
    pub scope: Scope,
    /// The path of the part in the object, such as `listeners[web]`; empty for the whole object.
    #[serde(default)]
    pub section: Arc<str>,
    /// What closed the part.
    #[serde(skip)]
    pub closed_by: ClosedBy,
}

/// The state of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayState {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// The state of the configuration that its Envoys are served.
    pub state: ServedState,
    /// The number of configurations published for the Gateway in this run.
    pub generation: u64,
    /// The number of its Envoys by their answer to the offered configuration.
    pub envoys: EnvoyCounts,
    /// The connected Envoys that refuse what others of their build accepted, and keep their previous configuration: by
    /// node, the message of the last refusal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_envoys: BTreeMap<Arc<str>, String>,
    /// The deviations in the configuration that its Envoys last acknowledged as a whole; [`FallbackReport::after`]
    /// copies them from one report to the next.
    #[serde(skip)]
    pub acknowledged: Option<Deviations>,
    /// The current deviations from the desired configuration, and the objects at fault.
    #[serde(skip)]
    pub deviations: Deviations,
    /// Whether its Envoys have acknowledged the wanted configuration.
    #[serde(skip)]
    pub settled: bool,
    /// Stand-in versions of broken objects that cannot be served as a whole, with the reasons.
    #[serde(skip)]
    pub untranslated: BTreeMap<Identity, String>,
    /// Objects that are no longer at fault, but that a policy of their Gateway or listener still closes.
    #[serde(skip)]
    pub closed: BTreeSet<Identity>,
    /// The closed objects with a recovery that is reported only when the objects are current again; copied from one
    /// report to the next.
    #[serde(skip)]
    pub unrecovered: BTreeSet<Identity>,
    /// Whether a part of the Gateway, or of its routes, is closed without a step of the plan. A rule that is closed
    /// because its backends are missing does not count.
    #[serde(skip)]
    pub closes: bool,
    /// The listeners that are written in the Gateway itself and that some Envoys are not served.
    #[serde(skip)]
    pub unserved_listeners: BTreeSet<Arc<str>>,
    /// The time since which the oldest served last valid version is known to be good.
    #[serde(skip)]
    pub oldest: Option<Moment>,
    /// The object of the Gateway; `None` if all its listeners are those of HTTPProxies.
    #[serde(skip)]
    pub object: Option<Identity>,
}

/// The state of the configuration that the Envoys of a Gateway are served. Later states deviate more from the desired
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedState {
    /// All objects are served as desired.
    #[default]
    Current,
    /// As `Current`, except for Envoys that refuse what others of their build accepted: they keep their previous
    /// configuration.
    Partial,
    /// New content is tried on one Envoy first; the other Envoys have the configuration that was acknowledged before.
    Trying,
    /// New content is tried on the probe; the Envoys have the configuration that was acknowledged before.
    Probing,
    /// New content waits for the leader.
    Following,
    /// The stored configuration of an earlier run, until all objects were read once.
    Unverified,
    /// A fallback: some objects are backfilled, replaced or excluded.
    Fallback,
    /// The last acknowledged configuration is held, as a whole or in part.
    Held,
}

impl ServedState {
    /// Returns the serialized name.
    pub fn name(self) -> &'static str {
        match self {
            ServedState::Current => "current",
            ServedState::Partial => "partial",
            ServedState::Trying => "trying",
            ServedState::Probing => "probing",
            ServedState::Following => "following",
            ServedState::Unverified => "unverified",
            ServedState::Fallback => "fallback",
            ServedState::Held => "held",
        }
    }
}

/// Numbers of Envoys by their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyCounts {
    /// Envoys that acknowledged their whole offered configuration.
    pub acknowledged: usize,
    /// Envoys that refused a part of it.
    pub refused: usize,
    /// Envoys that have not answered for all of it.
    pub pending: usize,
}

/// All deviations of one Gateway; a comparison of two reports shows whether there are new events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// The objects at fault.
    pub broken: BTreeSet<ObjectKey>,
    /// The steps, each with a number that distinguishes two equal steps: the served generation, or the response status.
    pub steps: BTreeMap<Node, (Step, i64)>,
    /// Whether a configuration is held without a plan.
    pub held: bool,
}

impl Deviations {
    /// Checks whether everything is served as desired.
    pub fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.steps.is_empty() && !self.held
    }

    /// Returns the number of objects in a step.
    pub fn objects(&self, step: Step) -> usize {
        let keys: BTreeSet<&ObjectKey> =
            self.steps.iter().filter(|(_, (taken, _))| *taken == step).map(|(node, _)| &node.key).collect();
        keys.len()
    }
}

impl FallbackReport {
    /// Adds to the report what the previous one contains about acknowledged configurations.
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

    /// Returns the entries that steps of plans replace.
    pub fn replaced_by_steps(&self) -> impl Iterator<Item = &ReplacedObject> {
        self.replaced_objects.iter().filter(|entry| entry.closed_by == ClosedBy::Step)
    }

    /// Returns the entries that steps of plans leave out.
    pub fn excluded_by_steps(&self) -> impl Iterator<Item = &ExcludedObject> {
        self.excluded_objects.iter().filter(|entry| entry.closed_by == ClosedBy::Step)
    }

    /// Returns the objects that are at fault or in a step, and those that were and are still closed at some listener.
    pub fn concerned(&self) -> BTreeSet<&Identity> {
        let broken = self.broken_objects.iter().map(|entry| &entry.object);
        let backfilled = self.backfilled_objects.iter().map(|entry| &entry.object);
        let replaced = self.replaced_by_steps().map(|entry| &entry.object);
        let excluded = self.excluded_by_steps().map(|entry| &entry.object);
        let waiting = self.gateways.iter().flat_map(|gateway| &gateway.unrecovered);
        broken.chain(backfilled).chain(replaced).chain(excluded).chain(waiting).collect()
    }

    /// Returns a Gateway by its name.
    pub fn gateway(&self, name: &str) -> Option<&GatewayState> {
        self.gateways.iter().find(|gateway| *gateway.name == *name)
    }

    /// Returns the objects in each step, each once, with the name of the step. Objects are not counted for a missing
    /// backend, which has a metric of its own.
    pub fn by_step(&self) -> BTreeSet<(&'static str, &Identity)> {
        let backfilled = self.backfilled_objects.iter().map(|object| ("backfilled", &object.object));
        let replaced = self.replaced_objects.iter().filter(|object| object.closed_by != ClosedBy::MissingBackend);
        let replaced = replaced.map(|object| ("replaced", &object.object));
        let excluded = self.excluded_objects.iter().map(|object| ("excluded", &object.object));
        backfilled.chain(replaced).chain(excluded).collect()
    }

    /// Returns the number of objects of each kind in each step, by the name of the step and the kind.
    pub fn counts(&self) -> BTreeMap<(&'static str, Arc<str>), usize> {
        let mut counts = BTreeMap::new();
        for (step, object) in self.by_step() {
            *counts.entry((step, object.kind.clone())).or_insert(0) += 1;
        }
        counts
    }
}
