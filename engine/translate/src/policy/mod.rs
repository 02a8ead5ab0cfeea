//! Policies: each policy is read once, independent of its targets.
//!
//! A policy that cannot be enforced closes its targets. `route.rs` decides this for routes, `level.rs` for listeners
//! and Gateways. No part of a policy is ignored without a report.

mod access;
pub mod connections;
mod ext_proc;
mod extensions;
mod headers;
pub(super) mod holding;
pub mod level;
mod listener;
mod metadata;
mod oauth2;
mod reading;
pub(super) mod route;
mod secret_headers;
pub mod setting;
mod shape;
mod targets;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::policy::{Targets, Unread};
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_graph::{Content, Edge, ObjectKey};
use level::LevelPlan;
use reading::Reading;
use setting::PolicySettings;
pub use targets::Target;

use crate::incremental::guard;
use crate::precedence::rank::{self, Rank};
use crate::precedence::settings::{Field, Piece, Settings as Pieces};
use crate::reader::Reader;

/// Kinds of policies that are attached to Gateways, listeners and routes.
const KINDS: [&str; 2] = [kinds::LISTENER_POLICY, kinds::TRAFFIC_POLICY];

/// Checks whether a key is a policy of these kinds.
pub(super) fn is_policy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && KINDS.contains(&&*key.kind)
}

/// Outcomes of TrafficPolicies and ListenerPolicies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Policies, independent of their targets.
    pub(crate) plans: HashMap<ObjectKey, Arc<PolicyPlan>>,
    /// Policy settings of Gateways; Gateways without any are omitted.
    pub(crate) levels: BTreeMap<ObjectKey, Arc<LevelPlan>>,
}

/// Extensions at fault: the class of the fault (content or reference) and all messages.
pub type Blamed = BTreeMap<ObjectKey, (Class, String)>;

/// Result of the translation of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyPlan {
    /// Rank among the policies of a level.
    pub rank: Rank,
    /// Settings of the policy.
    pub settings: Arc<PolicySettings>,
    /// Settings for listeners of single ports, by declared port; they replace `settings`.
    pub ports: BTreeMap<i64, Arc<PolicySettings>>,
    /// Reason why the policy cannot be enforced; unset if it can.
    pub unenforceable: Option<Unenforceable>,
    /// Faults of the policy.
    pub faults: Vec<Fault>,
    /// Extensions that make the policy unenforceable, with the reasons.
    pub blamed: Blamed,
    /// The policy itself has a fault.
    pub has_faults_of_its_own: bool,
    /// Targets of the policy.
    pub targets: Vec<Target>,
    /// Other objects that the policy was read from: Secrets, GatewayExtensions.
    pub secrets: Vec<ObjectKey>,
    /// Dependencies of the policy.
    pub edges: Vec<Edge>,
}

impl PolicyPlan {
    /// Returns the settings for a listener of this declared port.
    pub fn settings_at(&self, port: i32) -> &Arc<PolicySettings> {
        self.ports.get(&i64::from(port)).unwrap_or(&self.settings)
    }

    /// Returns all settings of the policy, at every port, as contents that an Envoy can refuse.
    pub fn contents(&self) -> impl Iterator<Item = (Field, Content)> {
        let all = std::iter::once(&self.settings).chain(self.ports.values());
        all.flat_map(|settings| settings.contents().iter().map(|(field, content)| (*field, *content)))
    }

    /// Checks whether the policy restricts access or request rates.
    pub fn guards(&self) -> bool {
        let mut pieces = self.settings.values().chain(self.ports.values().flat_map(|pieces| pieces.values()));
        pieces.any(Piece::guards)
    }

    /// Returns all fields with a setting.
    pub fn fields(&self) -> BTreeSet<Field> {
        self.settings.keys().chain(self.ports.values().flat_map(|pieces| pieces.keys())).copied().collect()
    }
}

/// Reason why a policy cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unenforceable {
    /// Class of the faults: content or reference.
    pub class: Class,
    /// All faults in one sentence.
    pub message: Arc<str>,
}

/// Reads a policy; `None` if it was deleted.
pub(super) fn plan(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<PolicyPlan> {
    let object = reader.object(key)?;
    let (rank, wrong) = rank::rank(object);
    let mut reading = Reading::new(key, settings, reader);
    if let Some(wrong) = wrong {
        reading.invalid(format!("metadata.annotations[{}]", rank::WEIGHT_ANNOTATION), wrong);
    }
    let mut ports = BTreeMap::new();
    let (targets, unread): (&Targets, &[Unread]) = match &object.body {
        Body::TrafficPolicy(policy) => {
            if let Some(spec) = &policy.spec {
                traffic::read(spec, &policy.targets, &mut reading);
                headers::read(spec, &mut reading);
                access::read(spec, &mut reading);
                extensions::read(spec, &mut reading);
                ext_proc::read(spec, &mut reading);
                oauth2::read(spec, &mut reading);
            }
            (&policy.targets, &policy.unread)
        }
        Body::ListenerPolicy(policy) => {
            if let Some(spec) = &policy.spec {
                let by_port = listener::read(spec, &mut reading).into_iter();
                ports =
                    by_port.map(|(port, pieces)| (port, Arc::new(PolicySettings::new(key.clone(), pieces)))).collect();
            }
            (&policy.targets, &policy.unread)
        }
        _ => return None,
    };
    for unread in unread {
        reading.unreadable(&unread.field, &unread.message);
    }
    let targets = targets::read(key, targets, &mut reading);
    Some(PolicyPlan { ports, ..reading.finish(rank, targets) })
}

/// Returns the result for a policy after a failed translation: its targets stay closed.
pub(super) fn failed(object: &holdfast_api::object::Object) -> PolicyPlan {
    let fault = guard::fault(&object.key);
    let message = Arc::from(fault.message.as_str());
    PolicyPlan {
        rank: rank::rank(object).0,
        settings: Arc::new(PolicySettings::new(object.key.clone(), Pieces::new())),
        ports: BTreeMap::new(),
        unenforceable: Some(Unenforceable { class: Class::Invalid, message }),
        faults: vec![fault],
        blamed: Blamed::new(),
        has_faults_of_its_own: true,
        targets: Vec::new(),
        secrets: Vec::new(),
        edges: Vec::new(),
    }
}
