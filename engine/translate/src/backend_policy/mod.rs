//! Backend policies: BackendTLSPolicy and BackendConfigPolicy.
//!
//! A policy is read where a backend is used, so that its version fits the versions of all other objects there. A policy
//! that cannot be enforced closes the backend: no request reaches the backend against the policy. `plan.rs` also reads
//! each policy on its own, only for reports.

mod authorities;
pub(crate) mod backend;
mod backend_tls;
mod balance;
mod config;
mod function;
mod groups;
mod health;
mod hosts;
mod http;
mod notes;
pub mod plan;
mod served;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP as GATEWAY_GROUP;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::object::{Age, Object};
use holdfast_envoy::features::upstream::{Configured, Upstream, UpstreamTls};
use holdfast_envoy::model::BackendProtocol;
use holdfast_graph::{ObjectKey, Role};
use notes::Notes;
pub(super) use served::served;

use crate::backend_policy::backend::{Referrer, Sent};
use crate::precedence::attachment::Section;
use crate::precedence::rank;
use crate::reader::Reader;

/// The target of a policy.
pub(super) struct Target<'t> {
    /// The Service or Backend.
    pub(super) key: &'t ObjectKey,
    /// The labels of the object.
    pub(super) labels: &'t BTreeMap<String, String>,
    /// The name of the port.
    pub(super) port: Option<&'t str>,
}

/// The object, section and role that a policy is read for.
#[derive(Clone, Copy)]
struct Behalf<'b> {
    key: &'b ObjectKey,
    section: &'b str,
    role: Role,
}

/// The settings of a policy.
#[derive(Debug, Default)]
struct BackendSettings {
    configured: Configured,
    tls: Option<UpstreamTls>,
}

/// Returns whether the object is a backend policy.
pub(crate) fn is_policy(key: &ObjectKey) -> bool {
    is_config(key) || is_tls(key)
}

pub(crate) fn is_config(key: &ObjectKey) -> bool {
    &*key.group == GROUP && &*key.kind == kinds::BACKEND_CONFIG_POLICY
}

pub(crate) fn is_tls(key: &ObjectKey) -> bool {
    &*key.group == GATEWAY_GROUP && &*key.kind == kinds::BACKEND_TLS_POLICY
}

/// Why a policy that translation accepts is not enforced.
const HELD_BACK: &str = "Envoy does not accept it, or not yet: see its status";

/// A policy that cannot be enforced, with the error message.
pub(super) type Unenforced = (ObjectKey, String);

/// Returns the policy settings of a backend; an error where one of the policies cannot be enforced.
pub(crate) fn of(
    target: &Target<'_>,
    protocol: BackendProtocol,
    referrer: &Referrer<'_>,
    reader: &mut Reader<'_>,
) -> Result<Upstream, Unenforced> {
    let found = find(target, reader)?;
    let behalf = Behalf { key: referrer.route, section: referrer.section, role: referrer.role };
    let (mut configured, mut tls) = (Configured::default(), None);
    let is_encrypted = referrer.sent == Sent::Encrypted;
    for object in found.tls.iter().filter(|_| !is_encrypted).chain(&found.configs) {
        reader.edge(behalf.key, behalf.section, &object.key, behalf.role);
        let mut notes = Notes::default();
        let settings = read(object, behalf, reader, &mut notes);
        let Some(settings) = settings else { return Err(refused(&object.key, target.key, &notes.sentence())) };
        // A policy that only configures TLS has no part in connections without it.
        if is_encrypted && settings.configured.is_without_settings() {
            continue;
        }
        configured.fill(settings.configured);
        tls = tls.or(settings.tls).filter(|_| !is_encrypted);
    }
    if configured.origins.is_empty() {
        return Ok(Upstream::default());
    }
    let upstream = Upstream { tls, configured: Some(Box::new(configured)), ..Upstream::default() };
    Ok(if protocol == BackendProtocol::H2c { upstream.over_h2() } else { upstream })
}

fn refused(policy: &ObjectKey, target: &ObjectKey, why: &str) -> Unenforced {
    let (kind, name) = (&policy.kind, policy.namespaced_name());
    let message = format!("{kind} {name} for {} {} cannot be enforced: {why}", target.kind, target.namespaced_name());
    (policy.clone(), message)
}

/// The policies that apply to a backend, in the order of precedence.
struct Found<'a> {
    tls: Option<&'a Arc<Object>>,
    configs: Vec<&'a Arc<Object>>,
}

fn find<'a>(target: &Target<'_>, reader: &mut Reader<'a>) -> Result<Found<'a>, Unenforced> {
    let mut tls: Vec<(bool, Age, &Arc<Object>)> = Vec::new();
    let mut configs = Vec::new();
    for (key, sections) in reader.attached(target.key, target.labels) {
        let is_whole = match is_tls(&key) {
            true => match target.port.is_some_and(|port| sections.contains(&Section::Named(port.into()))) {
                true => false,
                false if sections.contains(&Section::Whole) => true,
                false => continue,
            },
            false if is_config(&key) => true,
            false => continue,
        };
        // A policy that cannot be read is still attached.
        let Some(object) = reader.object(&key) else {
            let why = if reader.is_hidden(&key) { HELD_BACK } else { "it cannot be read" };
            return Err(refused(&key, target.key, why));
        };
        match is_tls(&key) {
            true => tls.push((is_whole, object.age(), object)),
            false => configs.push((rank::rank(object).0, object)),
        }
    }
    tls.sort_by(|(whole, age, _), (other_whole, other_age, _)| (whole, age).cmp(&(other_whole, other_age)));
    configs.sort_by(|(rank, _), (other, _)| rank.cmp(other));
    let tls = tls.into_iter().map(|(_, _, object)| object).next();
    Ok(Found { tls, configs: configs.into_iter().map(|(_, object)| object).collect() })
}

/// Reads a policy; `None` where it cannot be enforced.
fn read(object: &Object, behalf: Behalf<'_>, reader: &mut Reader<'_>, notes: &mut Notes) -> Option<BackendSettings> {
    match &object.body {
        Body::BackendTlsPolicy(policy) => {
            notes.unread(&policy.unread);
            let spec = policy.spec.as_ref().filter(|_| policy.unread.is_empty())?;
            let tls = backend_tls::read(&object.key, spec, behalf, reader, notes)?;
            let configured = Configured { origins: vec![object.key.clone()], ..Configured::default() };
            Some(BackendSettings { configured, tls: Some(tls) })
        }
        Body::BackendConfigPolicy(policy) => {
            notes.unread(&policy.unread);
            let (_, wrong) = rank::rank(object);
            if let Some(wrong) = wrong {
                notes.invalid(format!("metadata.annotations[{}]", rank::WEIGHT_ANNOTATION), wrong);
            }
            let spec = policy.spec.as_ref()?;
            config::targets(&policy.targets, notes);
            let mut settings = config::read(spec, notes);
            settings.tls = spec.tls.as_ref().and_then(|tls| tls::read(&object.key, tls, behalf, reader, notes));
            if spec.set().next().is_some() {
                settings.configured.origins.push(object.key.clone());
            }
            notes.is_empty().then_some(settings)
        }
        _ => None,
    }
}
