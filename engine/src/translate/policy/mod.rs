//! Policies: each is read once, on its own, whoever it is attached to.
//!
//! What cannot be enforced closes what the policy is attached to; that is decided where it is used: for routes in
//! `route.rs`, for listeners and Gateways in `level.rs`. Nothing of a policy is passed over in silence.

mod access;
pub(crate) mod connections;
mod ext_proc;
mod extensions;
mod headers;
pub(super) mod holding;
pub(crate) mod level;
mod listener;
mod metadata;
mod oauth2;
mod reading;
pub(super) mod route;
pub(crate) mod said;
mod secret_headers;
mod shape;
mod targets;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Edge, ObjectKey};

use super::guard;
use super::reader::Reader;
use crate::apis::Body;
use crate::apis::kgateway::GROUP;
use crate::apis::kgateway::policy::{Targets, Unread};
use crate::fault::{Class, Fault};
use crate::policies::rank::{self, Rank};
use crate::policies::settings::{Field, Piece, Settings as Pieces};
use crate::settings::Settings;

use reading::Reading;
use said::Sayings;
pub(crate) use targets::Target;

/// Kinds of policies that are attached to Gateways, listeners and routes.
const KINDS: [&str; 2] = ["ListenerPolicy", "TrafficPolicy"];

/// Is it a policy of such a kind?
pub(super) fn is_policy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && KINDS.contains(&&*key.kind)
}

/// Extensions that are at fault: whether by their content or by what they name, and all that is wrong.
pub(crate) type Blamed = BTreeMap<ObjectKey, (Class, String)>;

/// What became of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyPlan {
    /// Its place among others of a level.
    pub(crate) rank: Rank,
    /// What it says.
    pub(crate) settings: Arc<Sayings>,
    /// What it says instead to listeners of single ports, as these are written.
    pub(crate) ports: BTreeMap<i64, Arc<Sayings>>,
    /// Why it cannot be enforced; unset where it can.
    pub(crate) unenforceable: Option<Unenforceable>,
    /// What is wrong with it.
    pub(crate) faults: Vec<Fault>,
    /// Extensions on whose account it cannot be enforced, and why.
    pub(crate) blamed: Blamed,
    /// Is anything wrong with the policy itself?
    pub(crate) has_faults_of_its_own: bool,
    /// What it is attached to.
    pub(crate) targets: Vec<Target>,
    /// What else it was read from: Secrets, GatewayExtensions.
    pub(crate) secrets: Vec<ObjectKey>,
    /// What it depends on.
    pub(crate) edges: Vec<Edge>,
}

impl PolicyPlan {
    /// What it says to a listener of this port, as the port is written.
    pub(crate) fn settings_at(&self, port: i32) -> &Arc<Sayings> {
        self.ports.get(&i64::from(port)).unwrap_or(&self.settings)
    }

    /// All that it says, wherever it says it, as contents that an Envoy can refuse.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (Field, Content)> {
        let all = std::iter::once(&self.settings).chain(self.ports.values());
        all.flat_map(|sayings| sayings.contents().iter().map(|(field, content)| (*field, *content)))
    }

    /// Does it say anything that decides who may come in, or how much?
    pub(crate) fn guards(&self) -> bool {
        let mut pieces = self.settings.values().chain(self.ports.values().flat_map(|pieces| pieces.values()));
        pieces.any(Piece::guards)
    }

    /// Every field that it says something in.
    pub(crate) fn fields(&self) -> BTreeSet<Field> {
        self.settings.keys().chain(self.ports.values().flat_map(|pieces| pieces.keys())).copied().collect()
    }
}

/// Why a policy cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unenforceable {
    /// Is it the content, or something that is not there?
    pub(crate) class: Class,
    /// All that is wrong, in a sentence.
    pub(crate) message: Arc<str>,
}

/// Reads a policy; `None` where it is gone.
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
                let said = listener::read(spec, &mut reading).into_iter();
                ports = said.map(|(port, pieces)| (port, Arc::new(Sayings::new(key.clone(), pieces)))).collect();
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

/// A policy on which translation failed: what it is attached to stays closed.
pub(super) fn failed(object: &crate::object::Object) -> PolicyPlan {
    let fault = guard::fault(&object.key);
    let message = Arc::from(fault.message.as_str());
    PolicyPlan {
        rank: rank::rank(object).0,
        settings: Arc::new(Sayings::new(object.key.clone(), Pieces::new())),
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
