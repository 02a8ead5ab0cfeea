//! Facts: the inputs of the health computation, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Class;
use holdfast_api::ledger::Ledger;
use holdfast_api::object::Source;
use holdfast_api::section::STREAM;
use holdfast_check::time::Moment;
use holdfast_fallback::view::{GatewayState, Identity};
use holdfast_graph::ObjectKey;

use super::inputs::SourceState;
use super::view::{DetectedBy, Gets};

/// The reason of a finding about a Service without endpoints.
pub const NO_ENDPOINTS: &str = "NoEndpoints";

/// Facts from outside the engine.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The source of objects.
    pub input: SourceState,
    /// The positions of objects in manifests.
    pub places: imbl::HashMap<ObjectKey, Source>,
    /// The number of open streams of Envoys, by Gateway (`namespace/name`).
    pub connected: BTreeMap<Arc<str>, usize>,
    /// Envoys that do not answer, by Gateway and node.
    pub not_answering: BTreeMap<Arc<str>, BTreeMap<Arc<str>, NotAnswering>>,
    /// Since when objects are at fault.
    pub ledger: Arc<Ledger>,
    /// Why nothing can be stored; unset while storing works.
    pub store: Option<String>,
    /// Why no Envoy can connect; unset while connecting works.
    pub unreachable: Option<String>,
    /// Managed Envoys, by Gateway.
    pub managed: BTreeMap<Arc<str>, Managed>,
    /// Whether this replica leads. Followers do not know the Envoys of all replicas.
    pub leads: bool,
}

impl Default for Outside {
    fn default() -> Self {
        Self {
            input: SourceState::default(),
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

/// An Envoy that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnswering {
    /// Since when.
    pub since: Moment,
    /// Whether the Envoy is connected. The connection of an Envoy that is silent for long is closed.
    pub is_connected: bool,
    /// Whether nothing at all comes from the Envoy; else only responses are unanswered.
    pub is_silent: bool,
}

/// A managed Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// `running`, or another state.
    pub state: String,
    /// The process id, while it runs.
    pub pid: Option<u32>,
    /// Whether the process has a configuration to serve: it was connected, or comes from an earlier run. A process that
    /// was started and never connected serves nothing.
    pub serves: bool,
}

/// All inputs of the health computation.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The findings.
    pub found: Vec<ObjectProblem>,
    /// What clients get instead of the desired configuration.
    pub effects: Vec<Effect>,
    /// The Gateways.
    pub gateways: Vec<GatewayFacts>,
    /// Facts from outside the engine.
    pub outside: Outside,
}

/// One problem of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectProblem {
    /// The object.
    pub object: Identity,
    /// The generation of the object.
    pub generation: Option<i64>,
    /// The field.
    pub field: String,
    /// The class of the fault.
    pub class: Class,
    /// The reason, one word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// How the problem was detected.
    pub detected: DetectedBy,
    /// The affected Gateways.
    pub gateways: BTreeSet<Arc<str>>,
    /// Since when, where the finding itself knows.
    pub since: Option<Moment>,
    /// Whether the served configuration depends on the object; otherwise no client is affected.
    pub used: bool,
    /// Whether the object is served except for the field.
    pub is_served: bool,
    /// Whether nothing of the object's current content can be read, because of the field.
    pub is_unreadable: bool,
    /// The object with the problem that this one follows from.
    pub cause: Option<ObjectKey>,
    /// Why the last valid version of the object is not served.
    pub not_backfilled: Option<Arc<str>>,
}

/// What clients get of an object, or of a part of it, instead of the desired version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The object.
    pub object: Identity,
    /// The Gateway.
    pub gateway: Arc<str>,
    /// The part of the object.
    pub section: Arc<str>,
    /// The only listener with the effect, while other listeners serve the object; unset where all have it.
    pub listener: Option<Arc<str>>,
    /// What clients get.
    pub gets: Gets,
    /// The hosts of the requests.
    pub hosts: BTreeSet<Arc<str>>,
    /// The paths of the requests.
    pub paths: BTreeSet<Arc<str>>,
    /// The objects that cause the effect.
    pub causes: BTreeSet<ObjectKey>,
    /// The part of these objects that causes the effect; empty for the whole objects.
    pub causing_section: Arc<str>,
    /// The cause, where no finding explains the effect.
    pub message: String,
    /// The generation that is served, where that is the last valid version and not the desired one.
    pub version: Option<i64>,
}

impl Effect {
    /// Returns the effect of an object that is left out, or of a part of it while the rest is served, where neither Gateway
    /// nor requests are known.
    pub fn left_out(object: &Identity, section: &str) -> Self {
        Self {
            object: object.clone(),
            gateway: "".into(),
            section: section.into(),
            listener: None,
            // Without a backend, the connections of a host are closed; another one may be left.
            gets: if section.is_empty() || section.starts_with(STREAM) { Gets::Nothing } else { Gets::LeftOut },
            hosts: BTreeSet::new(),
            paths: BTreeSet::new(),
            causes: BTreeSet::new(),
            causing_section: "".into(),
            message: String::new(),
            version: None,
        }
    }
}

/// An Envoy that refuses what other Envoys of its build accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// Envoy's message.
    pub message: String,
    /// Whether the Envoy has an earlier version of every resource that it refused. Without one it answers 404, or
    /// refuses connections.
    pub serves: bool,
}

/// A Gateway with its Envoys.
#[derive(Clone, Debug)]
pub struct GatewayFacts {
    /// The Gateway. For HTTPProxies with separate listeners, it is not an existing object.
    pub object: Identity,
    /// The state of its configuration and its Envoys.
    pub state: GatewayState,
    /// The listeners that should be served, with address and port.
    pub listeners: Vec<String>,
    /// Refusals of single Envoys, by node.
    pub refusing: BTreeMap<Arc<str>, Refusing>,
    /// Why the data plane cannot be created.
    pub provisioning: Option<String>,
}
