//! Closed parts that no step of a plan covers: units that translation closes because of a missing reference, listeners
//! that are not served, and routes below them.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_api::section::{HOST, unit};
use holdfast_fallback::view::{ClosedBy, ExcludedObject, ReplacedObject, Scope};
use holdfast_graph::{Node, ObjectKey, Step};
use holdfast_translate::claims::{ListenerId, Parent};
use holdfast_translate::listener::ListenerPlan;

use super::FallbackSurvey;
use crate::engine::Engine;
use crate::report::ReplacementView;
use crate::report::health::listeners;
use crate::report::unserved::{is_unserved, unserved_listeners};

/// Kinds of backends that routes reference.
const BACKENDS: [&str; 2] = [kinds::SERVICE, kinds::BACKEND];
/// The reason of a reference without a grant.
const NOT_PERMITTED: &str = "RefNotPermitted";

/// A closed part, with its causes.
struct Closed {
    gateway: Arc<str>,
    node: Node,
    scope: Scope,
    causes: BTreeSet<ObjectKey>,
    response: Option<u16>,
    closed_by: ClosedBy,
}

/// Adds the closed parts of all Gateways to a survey.
pub(super) fn add(survey: &mut FallbackSurvey<'_>, replacements: &[ReplacementView]) {
    let engine = survey.engine;
    for replacement in replacements {
        note(survey, of_replacement(engine, replacement));
    }
    for ListenerId { gateway, name } in unserved_listeners(engine) {
        let plan = engine.translator.gateway(&gateway);
        let is_own =
            plan.is_some_and(|plan| plan.of(None).any(|listener| listener.name == name && !listener.is_generated()));
        let mut states = survey.gateways.iter_mut().filter(|state| *state.name == *gateway.namespaced_name());
        if let Some(state) = states.next().filter(|_| is_own) {
            state.unserved_listeners.insert(name);
        }
    }
    for closed in listeners_and_routes(survey) {
        note(survey, closed);
    }
}

fn of_replacement(engine: &Engine, view: &ReplacementView) -> Closed {
    let absent = if view.lacks_backend { absent_backends(engine, view) } else { BTreeSet::new() };
    let ReplacementView { gateway, object, section, scope, response, policy, lacks_backend, .. } = view;
    let closed_by = if *lacks_backend { ClosedBy::MissingBackend } else { ClosedBy::Translation };
    let own = || BTreeSet::from([policy.as_ref().unwrap_or(object).clone()]);
    let causes = if absent.is_empty() { own() } else { absent };
    let scope = match *scope {
        "virtualHost" => Scope::VirtualHost,
        "routeConfiguration" => Scope::RouteConfiguration,
        _ => super::scope(section),
    };
    Closed {
        gateway: gateway.as_str().into(),
        node: Node::section(object.clone(), section.as_str()),
        scope,
        causes,
        response: *response,
        closed_by,
    }
}

/// Returns the backends that a part of a route references and that do not exist. Empty if another mistake of the route
/// is the reason: a reference without a grant, a port that the Service lacks, or no reference at all.
fn absent_backends(engine: &Engine, view: &ReplacementView) -> BTreeSet<ObjectKey> {
    let Some(plan) = engine.translator.route(&view.object) else { return BTreeSet::new() };
    // The references of a last valid version are not in the graph.
    let is_desired = plan.replaced.iter().any(|one| one.section == view.section && one.message == view.message);
    let in_part = |fault: &&Fault| unit(&fault.field) == view.section && fault.is_missing_backend();
    let faults: Vec<&Fault> = plan.faults.iter().filter(in_part).collect();
    if !is_desired || faults.iter().any(|fault| fault.reason == NOT_PERMITTED) {
        return BTreeSet::new();
    }
    let read = engine.graph().read_by(&view.object).iter().filter(|edge| *edge.from.section == *view.section);
    let absent = read.map(|edge| &edge.to.key).filter(|key| BACKENDS.contains(&&*key.kind) && !engine.is_there(key));
    absent.cloned().collect()
}

/// Returns the listeners that some Envoys are not served, and the routes at such listeners only.
fn listeners_and_routes(survey: &FallbackSurvey<'_>) -> Vec<Closed> {
    let engine = survey.engine;
    let unserved = unserved_listeners(engine);
    let mut closed = Vec::new();
    if unserved.is_empty() {
        return closed;
    }
    let roots = listeners::roots(engine);
    for (key, plan) in engine.translator.plans() {
        let is_closed = |listener: &&ListenerPlan| {
            unserved.contains(&ListenerId { gateway: key.clone(), name: listener.name.clone() })
        };
        for listener in plan.listeners.iter().filter(is_closed) {
            for (writer, section) in listeners::writers(key, listener, &roots) {
                let (node, scope) = match *section == *HOST {
                    true => (Node::section(writer, section), Scope::Host),
                    false => (listener.unit(key), Scope::Listener),
                };
                let (gateway, causes) = (plan.name.clone(), BTreeSet::from([node.key.clone()]));
                closed.push(Closed { gateway, node, scope, causes, response: None, closed_by: ClosedBy::Translation });
            }
        }
    }
    for (key, plan) in engine.translator.routes() {
        let is_unserved = |parent: &&Parent| is_unserved(parent, |listener| unserved.contains(listener));
        let is_lost = plan.parents.iter().all(|parent| is_unserved(&parent));
        for parent in plan.parents.iter().filter(is_unserved) {
            let (section, scope) = match is_lost {
                true => (String::new(), Scope::Object),
                false => (parent.section(), Scope::ParentRef),
            };
            let node = Node::section(key.clone(), section.as_str());
            let causes = BTreeSet::from([parent.set.as_ref().unwrap_or(&parent.gateway).clone()]);
            let gateway = parent.gateway.namespaced_name().into();
            closed.push(Closed { gateway, node, scope, causes, response: None, closed_by: ClosedBy::Translation });
        }
    }
    closed
}

/// Adds a closed part, unless a step of the plan reports it. A Gateway that is held is reported as such.
fn note(survey: &mut FallbackSurvey<'_>, closed: Closed) {
    let Closed { gateway, node, scope, causes, response, closed_by } = closed;
    let Some(state) = survey.gateways.iter_mut().find(|state| state.name == gateway) else { return };
    let steps = &state.deviations.steps;
    // The step of a backfilled object does not report that its last valid version lacks a backend.
    let reports = |(step, _): &(Step, i64)| *step != Step::Backfilled || closed_by != ClosedBy::MissingBackend;
    let is_reported = |at: &Node| steps.get(at).is_some_and(reports);
    if state.deviations.held || is_reported(&node) || is_reported(&Node::whole(node.key.clone())) {
        return;
    }
    // Missing backends have a metric and an alert of their own.
    state.closes |= closed_by != ClosedBy::MissingBackend;
    let object = survey.identity(&node.key, None);
    let causing_objects: BTreeSet<String> = causes.iter().map(ToString::to_string).collect();
    let Node { key, section } = node;
    match response {
        Some(response) => {
            let at = (key, section.clone(), response);
            let fresh = ReplacedObject { object, causing_objects, scope, section, response, closed_by };
            survey.replaced.entry(at).or_insert(fresh);
        }
        None => {
            let at = Node::section(key, section.clone());
            let fresh = ExcludedObject { object, causing_objects, scope, section, closed_by };
            survey.excluded.entry(at).or_insert(fresh);
        }
    }
}
