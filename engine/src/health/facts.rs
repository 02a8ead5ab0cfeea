//! What health is computed from, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::inputs::Input;
use super::ledger::Ledger;
use super::view::{Detected, Gets};
use crate::fallback::view::{GatewayState, Identity};
use crate::fault::Class;
use crate::object::Source;
use crate::time::Moment;

/// The reason of a finding about a Service without endpoints.
pub const NO_ENDPOINTS: &str = "NoEndpoints";

/// What the engine cannot know by itself.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Where objects come from.
    pub input: Input,
    /// Where objects are written.
    pub places: imbl::HashMap<ObjectKey, Source>,
    /// Streams of Envoys that are open, by Gateway (`namespace/name`).
    pub connected: BTreeMap<Arc<str>, usize>,
    /// Of those Envoys the nodes that do not answer, by Gateway.
    pub not_answering: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Since when objects are at fault.
    pub ledger: Arc<Ledger>,
    /// Why nothing can be stored; unset while it can.
    pub store: Option<String>,
    /// Why no Envoy can connect; unset while they can.
    pub unreachable: Option<String>,
    /// Managed Envoys, by Gateway.
    pub managed: BTreeMap<Arc<str>, Managed>,
    /// Does this replica lead? Another one does not know of the Envoys of all.
    pub leads: bool,
}

impl Default for Outside {
    fn default() -> Self {
        Self {
            input: Input::default(),
            places: imbl::HashMap::new(),
            connected: BTreeMap::new(),
            not_answering: BTreeMap::new(),
            ledger: Arc::default(),
            store: None,
            unreachable: None,
            managed: BTreeMap::new(),
            leads: true,
        }
    }
}

/// A managed Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// `running`, or what else it is.
    pub state: String,
    /// Has this process what it serves? It was connected, or is one of an earlier run. One that was started and never
    /// connected serves nothing.
    pub serves: bool,
}

/// Everything that health is computed from.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What was found.
    pub found: Vec<Found>,
    /// What clients get instead of what is desired.
    pub effects: Vec<Effect>,
    /// The Gateways.
    pub gateways: Vec<GatewayFacts>,
    /// The rest.
    pub outside: Outside,
}

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which object.
    pub object: Identity,
    /// Its generation.
    pub generation: Option<i64>,
    /// The field.
    pub field: String,
    /// What sort of fault it is.
    pub class: Class,
    /// One word.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// Who found it.
    pub detected: Detected,
    /// At which Gateways.
    pub gateways: BTreeSet<Arc<str>>,
    /// Since when, where the finding itself knows it.
    pub since: Option<Moment>,
    /// Does anything that is served depend on the object? Of what nothing depends on no client notices.
    pub used: bool,
}

/// What clients get of an object, or of a part of it, instead of what is desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Which object.
    pub object: Identity,
    /// The Gateway.
    pub gateway: Arc<str>,
    /// The part of it.
    pub section: Arc<str>,
    /// What they get.
    pub gets: Gets,
    /// The hosts of the requests.
    pub hosts: BTreeSet<Arc<str>>,
    /// Their paths.
    pub paths: BTreeSet<Arc<str>>,
    /// The objects behind it.
    pub causes: BTreeSet<ObjectKey>,
    /// Why, where nothing else says so.
    pub message: String,
    /// The generation that it is about, where that is the last valid version and not the desired one.
    pub version: Option<i64>,
}

/// An Envoy that refuses what others of its build take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// Its words.
    pub words: String,
    /// Has it an earlier form of everything that it refused? Without one it answers 404, or refuses connections.
    pub serves: bool,
}

/// A Gateway with its Envoys.
#[derive(Clone, Debug)]
pub struct GatewayFacts {
    /// Which object; the Gateway that HTTPProxies have of their own is none that is written anywhere.
    pub object: Identity,
    /// What its Envoys are served, and how they stand.
    pub state: GatewayState,
    /// Listeners that are to be served, with address and port.
    pub listeners: Vec<String>,
    /// What single Envoys refuse, by node.
    pub refusing: BTreeMap<Arc<str>, Refusing>,
    /// Why its data plane cannot be made.
    pub provisioning: Option<String>,
}
