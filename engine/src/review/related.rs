//! The objects that a review translates: those that any version of the object reads, found by translating it.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kgateway::targets::TargetRef;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme::namespace_key;
use holdfast_api::object::Object;
use holdfast_fallback::event::Event;
use holdfast_fallback::persistence::excerpt::versions;
use holdfast_graph::ObjectKey;

use super::{NotReviewed, READERS_MAX, RELATED_OBJECTS_MAX, ReviewBasis, Reviewed};
use crate::engine::Engine;

/// Kinds that are looked up by what they contain: no reference leads to them, and their objects are small.
const LOOKED_UP: [&str; 3] = [kinds::GATEWAY_CLASS, kinds::REFERENCE_GRANT, kinds::TLS_CERTIFICATE_DELEGATION];

/// Returns the events with which an engine receives the object and every object around it.
///
/// Each translation can reveal more references: of a route its Gateway, of the Gateway its class and certificates.
/// The last valid versions of the object are translated too, since one of them may be served.
pub(super) fn related(basis: &ReviewBasis, reviewed: &Reviewed) -> Result<Vec<Event>, NotReviewed> {
    let mut engine = Engine::new(basis.settings.clone());
    let looked_up = basis.objects.iter().filter(|object| LOOKED_UP.contains(&&*object.key.kind));
    let mut events: Vec<Event> = looked_up.map(applied).collect();
    let policies = policies(basis);
    let mut known: BTreeSet<ObjectKey> = BTreeSet::from([reviewed.key.clone()]);
    let mut found = basis.related.clone();
    found.extend(targets(&reviewed.event));
    found.extend(selected(basis, &reviewed.event));
    let earlier =
        versions(&basis.restored, &reviewed.key).map(|it| Event::Applied(Box::new((*it).clone()), Vec::new()));
    let mut all = events.clone();
    for version in earlier.chain([reviewed.event.clone()]) {
        events.push(version);
        loop {
            let more = take(basis, &found, &mut known);
            all.extend(more.iter().cloned());
            events.extend(more);
            if known.len() > RELATED_OBJECTS_MAX {
                return Err(NotReviewed::TooManyRelated);
            }
            if events.is_empty() {
                break;
            }
            engine.handle(std::mem::take(&mut events));
            found = engine.graph().edges().into_iter().map(|edge| edge.to.key).collect();
            let applies = |(_, targets): &&(ObjectKey, Vec<ObjectKey>)| targets.iter().any(|one| found.contains(one));
            let more: Vec<ObjectKey> = policies.iter().filter(applies).map(|(policy, _)| policy.clone()).collect();
            found.extend(more);
        }
    }
    all.push(reviewed.event.clone());
    Ok(all)
}

/// Returns the existing objects that are not known yet, with their namespaces.
fn take(basis: &ReviewBasis, found: &BTreeSet<ObjectKey>, known: &mut BTreeSet<ObjectKey>) -> Vec<Event> {
    let mut events = Vec::new();
    let namespaces: BTreeSet<ObjectKey> = found.iter().map(|key| namespace_key(&key.namespace)).collect();
    for key in found.iter().chain(&namespaces) {
        let is_new = !LOOKED_UP.contains(&&*key.kind) && !known.contains(key);
        let object = basis.objects.get(key).map(applied);
        let unreadable = || basis.objects.is_unreadable(key).then(|| Event::Unusable(key.clone(), Vec::new()));
        if let Some(event) = object.or_else(unreadable).filter(|_| is_new) {
            known.insert(key.clone());
            events.push(event);
        }
    }
    events
}

fn applied(object: &Arc<Object>) -> Event {
    Event::Applied(Box::new(Object::clone(object)), Vec::new())
}

/// Returns the policies about connections to backends, each with its targets: which of them apply to a backend that the
/// content under review names for the first time is known after translation.
fn policies(basis: &ReviewBasis) -> Vec<(ObjectKey, Vec<ObjectKey>)> {
    let of_backends = [kinds::BACKEND_TLS_POLICY, kinds::BACKEND_CONFIG_POLICY];
    let all = basis.objects.iter().filter(|object| of_backends.contains(&&*object.key.kind));
    all.map(|object| (object.key.clone(), targets_of(object))).collect()
}

/// Returns the objects that a policy under review targets by name.
pub(super) fn targets(event: &Event) -> Vec<ObjectKey> {
    match event {
        Event::Applied(object, _) => targets_of(object),
        _ => Vec::new(),
    }
}

/// Returns the first objects that a policy under review selects by labels.
fn selected(basis: &ReviewBasis, event: &Event) -> Vec<ObjectKey> {
    let Event::Applied(policy, _) = event else { return Vec::new() };
    let selectors = policy.body.targets().map(|targets| &targets.selectors[..]).unwrap_or_default();
    let is_selected = |object: &&Arc<Object>| {
        object.key.namespace == policy.key.namespace
            && selectors.iter().any(|(_, selector)| {
                let has = |(name, value): (&String, &String)| object.metadata.labels.get(name) == Some(value);
                let is_kind = selector.kind == object.key.kind && selector.group == object.key.group;
                is_kind && !selector.match_labels.is_empty() && selector.match_labels.iter().all(has)
            })
    };
    if selectors.is_empty() {
        return Vec::new();
    }
    basis.objects.iter().filter(is_selected).take(READERS_MAX).map(|object| object.key.clone()).collect()
}

/// Returns the objects that a policy targets by name.
pub(super) fn targets_of(object: &Object) -> Vec<ObjectKey> {
    let Some(targets) = object.body.targets() else { return Vec::new() };
    let key = |target: &TargetRef| ObjectKey::new(&*target.group, &*target.kind, &*object.key.namespace, &*target.name);
    targets.references.iter().map(|(_, target)| key(target)).collect()
}
