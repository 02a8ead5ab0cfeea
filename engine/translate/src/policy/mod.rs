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
pub(super) mod inheritance;
pub mod level;
pub(crate) mod listener;
mod metadata;
mod oauth2;
mod reading;
pub(super) mod route;
mod secret_headers;
mod shape;
mod targets;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::policy::Unread;
use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;
use level::LevelPlan;
use reading::Reading;

use crate::incremental::guard;
use crate::outcome::policy::{Blamed, PolicyPlan, Unenforceable};
use crate::outcome::setting::PolicySettings;
use crate::precedence::rank;
use crate::precedence::settings::Settings as Pieces;
use crate::reader::Reader;

/// Outcomes of the policies of Gateways that no other unit reads.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Policy settings of Gateways; Gateways without any are omitted.
    pub(crate) levels: BTreeMap<ObjectKey, Arc<LevelPlan>>,
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
pub(super) fn failed(object: &Object, _: Option<&PolicyPlan>) -> PolicyPlan {
    let fault = guard::fault(&object.key);
    let message = Arc::from(fault.message.as_str());
    PolicyPlan {
        rank: rank::rank(object).0,
        settings: Arc::new(PolicySettings::new(object.key.clone(), Pieces::new())),
        ports: BTreeMap::new(),
        unenforceable: Some(Unenforceable { class: Class::Invalid, message, kind: object.key.kind.clone() }),
        faults: vec![fault],
        blamed: Blamed::new(),
        has_faults_of_its_own: true,
        targets: Vec::new(),
        secrets: Vec::new(),
        edges: Vec::new(),
    }
}
