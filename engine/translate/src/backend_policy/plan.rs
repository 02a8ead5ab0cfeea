//! Reports on backend policies and Backends: each object is read on its own, used or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::targets::{TargetRef, Targets, may_be_written};
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_graph::{ObjectKey, Role};

use super::backend_tls::{INVALID_KIND, INVALID_REFERENCE};
use super::notes::{Notes, Wrong};
use super::{Behalf, is_tls, read, served};
use crate::incremental::guard;
use crate::precedence::attachment::{self, Section, Target, strange};
use crate::reader::Reader;

/// Outcomes of backend policies and Backends.
#[derive(Debug, Default)]
pub(crate) struct BackendPolicies {
    /// Reports on backend policies and Backends.
    pub(crate) plans: BTreeMap<ObjectKey, Arc<BackendPlan>>,
}

/// The outcome of a backend policy or Backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendPlan {
    /// The faults.
    pub faults: Vec<Fault>,
    /// Why the object cannot be served at all; unset where it can.
    pub unenforceable: Option<Arc<str>>,
    /// Unresolved references: the reason, and all their errors.
    pub unresolved: Option<(&'static str, Arc<str>)>,
    /// Whether references to certificate authorities are the only errors of the object.
    pub lacks_authorities: bool,
    /// The policy with precedence at one of the targets, and this target.
    pub conflicted: Option<Arc<str>>,
    /// The targets.
    pub targets: Vec<Target>,
}

/// Reads a backend policy or Backend; `None` where it is deleted.
pub(crate) fn plan(key: &ObjectKey, reader: &mut Reader<'_>) -> Option<BackendPlan> {
    let object = reader.object(key)?;
    let mut notes = Notes::default();
    let mut plan = BackendPlan::default();
    let is_served = match &object.body {
        Body::Backend(backend) => {
            let behalf = Behalf { key, section: "", role: Role::Requires };
            served::read(key, backend, behalf, reader, &mut notes).is_some() && notes.is_empty()
        }
        _ => read(object, Behalf { key, section: "", role: Role::Requires }, reader, &mut notes).is_some(),
    };
    plan.unenforceable = (!is_served).then(|| notes.sentence().into());
    let is_reference = |wrong: &&Wrong| [INVALID_REFERENCE, INVALID_KIND].contains(&wrong.reason);
    let mut references = notes.iter().filter(is_reference);
    if let Some(first) = references.next() {
        let all = std::iter::once(first).chain(references);
        let all = all.map(|wrong| format!("{}: {}", wrong.field, wrong.message)).collect::<Vec<_>>().join("; ");
        plan.unresolved = Some((first.reason, all.into()));
        plan.lacks_authorities = notes.iter().all(|wrong| is_reference(&wrong));
    }
    plan.faults = notes.faults(key);
    if let Some(targets) = object.body.targets() {
        attach(key, targets, &mut plan, reader);
        if is_tls(key) {
            plan.conflicted = conflicted(key, targets, &mut plan.faults, reader);
        }
    }
    Some(plan)
}

/// Returns the outcome of an object after failed translation.
pub(crate) fn failed(key: &ObjectKey) -> BackendPlan {
    let fault = guard::fault(key);
    let unenforceable = Some(Arc::from(fault.message.as_str()));
    BackendPlan { faults: vec![fault], unenforceable, ..BackendPlan::default() }
}

/// Checks the targets. A missing target is reported, so that users do not expect the policy to apply.
fn attach(key: &ObjectKey, targets: &Targets, plan: &mut BackendPlan, reader: &mut Reader<'_>) {
    let mut report = |field: String, message: &str| {
        plan.faults.push(Fault::new(key, Class::Ignored, field, "TargetNotFound", message));
    };
    for (index, target) in &targets.references {
        let named = named(key, target);
        let missing = missing(key, target, &named, reader);
        if let Some(message) = &missing {
            report(at("spec.targetRefs", *index), message);
        }
        let section = target.section_name.clone();
        plan.targets.push(Target { key: named, section, missing: missing.map(Arc::from) });
    }
    for (index, target) in &targets.selectors {
        let field = at("spec.targetSelectors", *index);
        if target.match_labels.is_empty() {
            report(field, "matchLabels is empty and selects nothing");
        } else if may_be_written(&key.kind, &target.group, &target.kind) && !may_target(&target.group, &target.kind) {
            report(field, &strange(key, &target.group, &target.kind));
        }
    }
}

fn named(key: &ObjectKey, target: &TargetRef) -> ObjectKey {
    ObjectKey::new(&*target.group, &*target.kind, &*key.namespace, &*target.name)
}

fn may_target(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("", kinds::SERVICE) | (GROUP, kinds::BACKEND))
}

/// Returns why an accepted target is ineffective.
fn missing(key: &ObjectKey, target: &TargetRef, named: &ObjectKey, reader: &mut Reader<'_>) -> Option<String> {
    if !may_be_written(&key.kind, &target.group, &target.kind) {
        return None;
    }
    if !may_target(&target.group, &target.kind) {
        return Some(strange(key, &target.group, &target.kind));
    }
    let Some(object) = reader.object(named) else {
        return Some(format!("{} {} does not exist", named.kind, named.namespaced_name()));
    };
    // For policies that apply to all ports, a section is a separate error.
    let section = target.section_name.as_ref().filter(|_| is_tls(key))?;
    let has = match &object.body {
        Body::Service(service) => service.ports.iter().any(|port| port.name == *section),
        _ => false,
    };
    (!has).then(|| format!("{} {} has no port {section:?}", named.kind, named.namespaced_name()))
}

/// Returns a message about a policy with precedence over this one at a target.
fn conflicted(
    key: &ObjectKey,
    targets: &Targets,
    faults: &mut Vec<Fault>,
    reader: &mut Reader<'_>,
) -> Option<Arc<str>> {
    let own = reader.object(key)?.age();
    let mut conflicted = None;
    for (index, target) in &targets.references {
        let named = named(key, target);
        let Some(object) = reader.object(&named) else { continue };
        let section = target.section_name.clone().map_or(Section::Whole, Section::Named);
        for (other, sections) in reader.attached(&named, &object.metadata.labels) {
            if !is_tls(&other) || other == *key || !sections.contains(&section) {
                continue;
            }
            if reader.object(&other).is_some_and(|object| object.age() < own) {
                let message = format!(
                    "{} {} has precedence over this policy at {} {}",
                    other.kind,
                    other.namespaced_name(),
                    named.kind,
                    named.namespaced_name()
                );
                let field = at("spec.targetRefs", *index);
                faults.push(Fault::new(key, Class::Conflict, field, "Conflicted", &message));
                conflicted.get_or_insert(Arc::from(message));
                break;
            }
        }
    }
    conflicted
}

/// Returns whether the targets include an object, in any section.
pub(crate) fn names(targets: &Targets, policy: &ObjectKey, object: &holdfast_api::object::Object) -> bool {
    !attachment::sections(targets, &policy.namespace, &object.key, &object.metadata.labels).is_empty()
}
