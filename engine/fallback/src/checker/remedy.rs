//! Remedies for objections: the smallest part that an objection names is closed.
//!
//! A closed unit is answered by a direct response at its matches, so that no broader unit answers its requests. A
//! Secret that may not be served instead counts as missing, so that its listeners keep their hosts and refuse
//! connections.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::section::ObjectSection;
use holdfast_graph::{Decision, Node, ObjectKey, Step};
use holdfast_translate::outcome::policy::{PolicyPlan, Unenforceable};
use holdfast_translate::overlay::{Closing, Manner};

use super::Objection;
use crate::plan::derive::Derived;
use crate::plan::world::World;

/// Closes what the objections name.
pub(super) fn apply(derived: &mut Derived, objections: &BTreeSet<Objection>, world: &World<'_>) {
    // An objection to a whole object makes the units of the object those of the desired version.
    let mut whole: BTreeSet<&ObjectKey> = BTreeSet::new();
    for objection in objections.iter().filter(|objection| objection.node.section.is_empty()) {
        if whole.insert(&objection.node.key) {
            close_object(derived, objection, world);
        }
    }
    for objection in objections.iter().filter(|objection| !whole.contains(&objection.node.key)) {
        let node = &objection.node;
        match &*node.key.kind {
            kinds::GATEWAY | kinds::LISTENER_SET => close_certificates(derived, objection),
            _ => {
                let is_stand_in = derived.overlay.objects.contains_key(&node.key);
                // The matches of an acknowledged version can be answered; for other versions, `World::manner`
                // determines how.
                let how = if is_stand_in { Manner::AsWritten } else { world.manner(node) };
                close_unit(derived, node, how, objection);
            }
        }
    }
}

fn close_object(derived: &mut Derived, objection: &Objection, world: &World<'_>) {
    let (key, why) = (&objection.node.key, &objection.why);
    let was_hidden = &*key.kind != kinds::SECRET && derived.overlay.hidden.remove(key);
    if matches!(&*key.kind, kinds::GATEWAY | kinds::LISTENER_SET) {
        if was_hidden || derived.overlay.objects.remove(key).is_some() {
            // The desired version is served.
            return;
        }
        let secrets = secrets(derived);
        secrets.iter().for_each(|secret| hide(derived, secret));
        return;
    }
    if derived.overlay.objects.get(key).is_some_and(|object| matches!(object.body, Body::Secret(_))) {
        return hide(derived, key);
    }
    if let Some(plan) = world.translator.policy(key) {
        // Everything that the policy guards is closed, regardless of its settings.
        remove_stand_in(derived, key);
        let closed_plan = PolicyPlan {
            unenforceable: Some(Unenforceable { class: Class::Invalid, message: why.clone(), kind: key.kind.clone() }),
            ..(**plan).clone()
        };
        derived.overlay.policies.insert(key.clone(), Arc::new(closed_plan));
        return;
    }
    if matches!(
        &*key.kind,
        kinds::BACKEND_CONFIG_POLICY
            | kinds::BACKEND_TLS_POLICY
            | kinds::BACKEND
            | kinds::GATEWAY_EXTENSION
            | kinds::DIRECT_RESPONSE
    ) {
        // Everything that is read from the object is closed with it.
        hide(derived, key);
        for user in world.translator.policies_reading(key) {
            let Some(plan) = world.translator.policy(&user) else { continue };
            let (message, kind) = (why.clone(), key.kind.clone());
            let unenforceable = Some(Unenforceable { class: Class::Invalid, message, kind });
            let closed_plan = PolicyPlan { unenforceable, ..(**plan).clone() };
            derived.overlay.policies.insert(user, Arc::new(closed_plan));
        }
        return;
    }
    derived.overlay.policies.remove(key);
    let was = remove_stand_in(derived, key);
    let (section, rules): (fn(usize) -> ObjectSection<'static>, _) =
        match world.objects.get(key).map(|object| &object.body) {
            Some(Body::HttpProxy(proxy)) => (ObjectSection::ProxyRoute, proxy.routes.len()),
            // Services, and objects that cannot be read at all, are served in their current form.
            body => match body.and_then(Body::route) {
                Some(route) => (ObjectSection::Rule, route.rule_count()),
                None => return,
            },
        };
    for index in 0..rules {
        let node = Node::section(key.clone(), section(index).to_string());
        close_unit(derived, &node, world.manner(&node), objection);
        if let (Some(decision), Some(was)) = (derived.plan.decisions.get_mut(&node), &was) {
            decision.causes.extend(was.causes.iter().cloned());
        }
    }
}

fn close_unit(derived: &mut Derived, node: &Node, how: Manner, objection: &Objection) {
    let units = derived.overlay.closed.entry(node.key.clone()).or_default();
    units.entry(node.section.clone()).or_insert_with(|| Closing { how, message: objection.why.clone() });
    let step = if how == Manner::LeftOut { Step::Excluded } else { Step::Replaced };
    let decision = derived.plan.decisions.entry(node.clone()).or_default();
    decision.step = decision.step.max(step);
    decision.causes.insert(objection.cause.as_ref().unwrap_or(&node.key).clone());
}

/// Hides all stand-in certificates, because a listener does not show which of them the objection is about.
fn close_certificates(derived: &mut Derived, objection: &Objection) {
    let secrets = secrets(derived);
    secrets.iter().for_each(|secret| hide(derived, secret));
    let causes = secrets.into_iter().collect();
    derived.plan.decisions.insert(objection.node.clone(), Decision { step: Step::Excluded, causes });
}

fn secrets(derived: &Derived) -> Vec<ObjectKey> {
    let objects = derived.overlay.objects.values();
    objects.filter(|object| matches!(object.body, Body::Secret(_))).map(|object| object.key.clone()).collect()
}

fn hide(derived: &mut Derived, secret: &ObjectKey) {
    let was = remove_stand_in(derived, secret);
    let causes = was.map_or_else(|| BTreeSet::from([secret.clone()]), |was| was.causes);
    derived.plan.decisions.insert(Node::whole(secret.clone()), Decision { step: Step::Excluded, causes });
    derived.overlay.hidden.insert(secret.clone());
}

fn remove_stand_in(derived: &mut Derived, key: &ObjectKey) -> Option<Decision> {
    derived.overlay.objects.remove(key);
    derived.served.remove(key);
    let whole = Node::whole(key.clone());
    match derived.plan.decisions.get(&whole) {
        Some(decision) if decision.step == Step::Backfilled => derived.plan.decisions.remove(&whole),
        _ => None,
    }
}
