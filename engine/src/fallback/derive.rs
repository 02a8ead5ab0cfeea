//! From what is broken to what is served instead: the plan, and its form that translation can use.
//!
//! A pure function of desired objects, quarantine, last valid versions and gates; nothing of an earlier plan goes in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Detected, Gates, Graph, Node, ObjectKey, Plan, Step, Verdict, World as _};

use super::checker::Objection;
use super::claims;
use super::fairness::Wait;
use super::policies::{self, LeftOut};
use super::shared;
use super::world::World;
use crate::fault::Class;
use crate::model::Backend;
use crate::translate::chain_units::HOST_UNIT;
use crate::translate::overlay::{Closing, Manner, Overlay};
use crate::translate::proxy::{HOST, is_proxy};

/// How often a plan is derived anew because what is made with stand-ins is refused too.
const STAND_INS_MAX: usize = 8;
/// What is said of what changed while everything is held.
pub(super) const HELD: &str = "held together with everything that changed since the last valid configuration";
/// What is said of an object that was refused again and again.
pub(super) const WAITS: &str = "refused three times within a minute: the next try waits for up to 30 seconds";
/// What is said of an object of which nothing can be read.
const UNREADABLE: &str = "its content cannot be read";

/// Why a node is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Who found it.
    pub(crate) detected: Detected,
    /// The field, as a path.
    pub(crate) field: Arc<str>,
    /// A sentence.
    pub(crate) message: Arc<str>,
    /// Since when, where the finding itself knows it (seconds of Unix time).
    pub(crate) since: Option<i64>,
}

impl Broken {
    /// Is it an object of which nothing can be read?
    pub(crate) fn is_unreadable(&self) -> bool {
        &*self.message == UNREADABLE
    }
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Derived {
    /// What is broken.
    pub(crate) broken: BTreeMap<Node, Broken>,
    /// What is done about it.
    pub(crate) plan: Plan,
    /// The same for translation.
    pub(crate) overlay: Overlay,
    /// When somebody has waited long enough to be tried again, in milliseconds of Unix time.
    pub(crate) retry_at: Option<u64>,
    /// Of what is backfilled: the generation that is served, and since when it is known to be good.
    pub(crate) served: BTreeMap<ObjectKey, (i64, i64)>,
    /// What the checker closed.
    pub(crate) objections: Vec<Objection>,
}

/// Derives the plan of a line.
pub(crate) fn derive(world: &World<'_>, graph: &Graph) -> Derived {
    let settings = &world.settings.fallback;
    let gates = Gates {
        isolate: settings.isolate,
        use_last_valid: settings.use_last_valid,
        backfill_dependants: settings.backfill_dependants,
        replace: world.settings.replacement.is_some(),
    };
    let found = if world.held.is_some() { BTreeMap::new() } else { found_by_translation(world) };
    let mut derived = Derived { broken: found, ..Derived::default() };
    let mut refused = refused(world, &mut derived.retry_at);
    let mut left_out = LeftOut::default();
    refused.extend(policies::refused(world, &mut left_out, &mut derived.retry_at));
    refused.extend(world.held.map(|held| changed(held, &mut left_out, world)).unwrap_or_default());
    derived.broken.extend(refused.iter().map(|(node, broken)| (node.clone(), broken.clone())));
    let mut shared = shared::refused(world, &mut derived.retry_at);
    let claims = claims::found(world);
    derived.broken.extend(claims.stood_in_for.clone());
    for _ in 0..STAND_INS_MAX {
        if derived.broken.is_empty() && shared.is_empty() && left_out.is_empty() {
            break;
        }
        let own = derived.broken.keys().cloned();
        let nodes: BTreeSet<Node> = own.chain(shared.nodes(world, &gates)).collect();
        derived.plan = Plan::derive(&nodes, graph, world, &gates);
        derived.overlay = Overlay::default();
        derived.served.clear();
        let mut closed = refused.clone();
        closed.extend(shared.closings(world, &gates));
        lay_over(&mut derived, &closed, &left_out, world);
        let more = refused_with_stand_ins(world, &derived);
        let more_shared = shared.add(shared::refused_under(world, &derived.overlay));
        if more.is_empty() && !more_shared {
            break;
        }
        derived.broken.extend(more.iter().map(|(node, broken)| (node.clone(), broken.clone())));
        refused.extend(more);
    }
    shared.tell(&mut derived, world, &gates);
    policies::tell(&mut derived, world);
    left_out.report(&mut derived);
    claims.tell(&mut derived, world);
    derived
}

/// The units that are refused as they are made with what stands in for the objects that they read.
fn refused_with_stand_ins(world: &World<'_>, derived: &Derived) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let keys: BTreeSet<&ObjectKey> = world.quarantine.iter().map(|(_, verdict)| &verdict.node.key).collect();
    for key in keys {
        // What goes back on account of others may be refused as it is desired, too.
        let desired;
        let overlay = match derived.overlay.objects.contains_key(key) {
            true => {
                let mut objects = derived.overlay.objects.clone();
                objects.remove(key);
                desired = Overlay { objects, ..derived.overlay.clone() };
                &desired
            }
            false => &derived.overlay,
        };
        for (content, node) in world.translator.contents_under(world.gateway, key, overlay, world.objects) {
            if world.refuses(&content) && !derived.broken.contains_key(&node) {
                broken.extend(world.quarantine.get(&content).map(|verdict| (node, of(verdict))));
            }
        }
    }
    broken
}

/// What translation says is invalid, of what stands at the Gateway.
fn found_by_translation(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for key in world.translator.invalid_routes() {
        let Some(plan) = world.translator.route(key).filter(|plan| plan.gateways().contains(world.gateway)) else {
            continue;
        };
        let unresolved = world.settings.fallback.backfill_unresolved;
        let counts = |class: Class| class == Class::Invalid || (unresolved && class == Class::Referential);
        for replaced in plan.replaced.iter().filter(|replaced| counts(replaced.class) || replaced.policy.is_some()) {
            match policies::behind(replaced, world) {
                Some((node, Some(why))) => {
                    broken.insert(node, why);
                    continue;
                }
                None if replaced.policy.is_some() => continue,
                _ => {}
            }
            let field = format!("spec.{}", replaced.section);
            let (field, message) = match replaced.message.split_once(": ") {
                Some((path, message)) if path.starts_with(&field) => (path.to_owned(), message.to_owned()),
                _ => (field, replaced.message.clone()),
            };
            let node = Node::section(replaced.object.clone(), replaced.section.as_str());
            broken.insert(node, by_translation(field, message));
        }
    }
    broken.extend(policies::found(world));
    broken.extend(broken_back_ends(world));
    let certificates = broken_certificates(world);
    broken.retain(|node, _| !is_healed_by_certificates(node, &certificates, world));
    // What others hang on is served as it was read last.
    let unusable = world.unusable.iter().filter(|key| world.objects.get(key).is_none());
    for key in unusable.filter(|key| world.last_valid.of(key, None).next().is_some()) {
        broken.insert(Node::whole(key.clone()), by_translation(String::new(), UNREADABLE.into()));
    }
    broken.extend(certificates);
    broken
}

/// Backends that cannot be served as they are written, and of which an earlier version can. The references to others
/// are answered where they are.
fn broken_back_ends(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let gates = &world.settings.fallback;
    if !gates.isolate || !gates.use_last_valid {
        return BTreeMap::new();
    }
    let found = world.translator.unusable_back_ends();
    let here = found.filter(|(key, _)| {
        let routes = world.translator.routes_reading(key);
        let mut plans = routes.iter().filter_map(|route| world.translator.route(route));
        plans.any(|plan| plan.gateways().contains(world.gateway)) && world.candidate(key).is_some()
    });
    let broken = here.map(|(key, plan)| {
        let (field, message) = policies::parted(plan.unenforceable.as_deref().unwrap_or_default());
        (Node::whole(key.clone()), by_translation(field, message))
    });
    broken.collect()
}

/// Certificates that cannot be used.
fn broken_certificates(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let found = world.translator.broken_certificates(world.gateway).into_iter();
    found.map(|(key, message)| (Node::whole(key), by_translation("data".into(), message))).collect()
}

/// Is it a host that is closed for want of a certificate only, of which an earlier version stands in? Then it is the
/// certificate that is broken.
fn is_healed_by_certificates(node: &Node, certificates: &BTreeMap<Node, Broken>, world: &World<'_>) -> bool {
    let settings = &world.settings.fallback;
    if *node.section != *HOST || !is_proxy(&node.key) || !settings.isolate || !settings.use_last_valid {
        return false;
    }
    let unread = world.unusable.iter().filter(|key| &*key.kind == "Secret");
    let secrets = certificates.keys().map(|node| &node.key).chain(unread);
    let objects = secrets.filter_map(|key| Some((key.clone(), world.candidate(key)?.object))).collect();
    let over = Overlay { objects, ..Overlay::default() };
    let then = || world.translator.try_route(&node.key, &over, world.objects);
    !over.is_empty() && then().is_some_and(|plan| plan.replaced.iter().all(|replaced| replaced.section != HOST))
}

pub(super) fn by_translation(field: String, message: String) -> Broken {
    Broken { detected: Detected::Translation, field: field.into(), message: message.into(), since: None }
}

/// Where everything is held: the units of which nobody has acknowledged every part.
fn changed(held: &BTreeSet<ObjectKey>, left_out: &mut LeftOut, world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for key in held {
        if let Some(plan) = world.translator.policy(key) {
            broken.extend(policies::changed(key, plan, HELD, left_out, world));
        }
        let Some(plan) = world.translator.route(key) else { continue };
        let unproven = world.translator.parts_of(world.gateway, plan, |part, context| {
            // One that is new for what policies say to it is not new itself.
            let is_told_anew = || part.said().iter().any(|said| !world.proof.is_known_good(&said.content()));
            let is_known = || world.proof.is_known_good(&part.bare_content(context));
            !(world.proof.is_proven(&part.encoded(context).1) || is_told_anew() && is_known())
        });
        let nodes: BTreeSet<Node> = unproven.into_iter().map(|(_, node)| node).collect();
        if nodes.is_empty() {
            continue;
        }
        // A route that is as it was is another because of what it uses.
        let origins = plan.backends.iter().flat_map(Backend::origins);
        let others: BTreeSet<Node> =
            origins.filter(|key| world.differs_from_last_valid(key)).cloned().map(Node::whole).collect();
        let itself = others.is_empty() || world.has_no_or_another_last_valid(key);
        for node in others.into_iter().chain(nodes.into_iter().filter(|_| itself)) {
            broken.insert(node.clone(), suspected(&node, HELD));
        }
    }
    broken
}

pub(super) fn suspected(node: &Node, message: &str) -> Broken {
    let field = if node.section.is_empty() { String::new() } else { format!("spec.{}", node.section) };
    Broken { detected: Detected::Suspected, field: field.into(), message: message.into(), since: None }
}

/// The units of desired objects that an Envoy of the build refuses, and those that wait before they are tried again.
fn refused(world: &World<'_>, retry_at: &mut Option<u64>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let mut keys: BTreeSet<ObjectKey> = world.quarantine.iter().map(|(_, verdict)| verdict.node.key.clone()).collect();
    keys.extend(world.of_waiting_owners(world.translator.route_keys().into_iter()));
    for key in &keys {
        let Some(plan) = world.translator.route(key) else { continue };
        let contents = world.translator.contents(world.gateway, plan);
        for (content, node) in contents {
            if world.refuses(&content) {
                broken.extend(world.quarantine.get(&content).map(|verdict| (node, of(verdict))));
            } else if !world.proof.is_known_good(&content)
                && !world.on_trial.contains(&content)
                && let Some(Wait { until, message }) = world.waits(&node, &content)
            {
                *retry_at = Some(retry_at.map_or(until, |other| other.min(until)));
                broken.entry(node.clone()).or_insert_with(|| suspected(&node, message));
            }
        }
    }
    if world.quarantine.iter().any(|(_, verdict)| is_chain(&verdict.node)) {
        for (content, node) in world.translator.chains(world.gateway) {
            let verdict = world.quarantine.get(&content).filter(|_| world.refuses(&content));
            broken.extend(verdict.map(|verdict| (node, of(verdict))));
        }
    }
    if !world.quarantine.is_empty() {
        for (key, content) in world.translator.certificates(world.gateway) {
            let verdict = world.quarantine.get(&content).filter(|_| world.refuses(&content));
            broken.extend(verdict.map(|verdict| (Node::whole(key), of(verdict))));
        }
    }
    broken
}

/// Is it the unit of a filter chain?
pub(super) fn is_chain(node: &Node) -> bool {
    node.section.starts_with("listeners[") || *node.section == *HOST_UNIT
}

pub(super) fn of(verdict: &Verdict) -> Broken {
    Broken {
        detected: verdict.detected,
        field: verdict.field.clone(),
        message: verdict.message.clone(),
        since: Some(verdict.since),
    }
}

fn lay_over(derived: &mut Derived, refused: &BTreeMap<Node, Broken>, left_out: &LeftOut, world: &World<'_>) {
    for (node, decision) in &derived.plan.decisions {
        match decision.step {
            Step::Backfilled => {
                let Some(version) = world.candidate(&node.key) else { continue };
                if let Some(until) = world.stand_in_ends(&node.key, &version.object) {
                    derived.retry_at = Some(derived.retry_at.map_or(until, |other| other.min(until)));
                }
                derived.served.insert(node.key.clone(), (generation(world, &node.key, &version.object), version.since));
                derived.overlay.objects.insert(node.key.clone(), version.object);
            }
            // What translation found wrong it has closed itself.
            Step::Replaced | Step::Excluded => {
                let Some(broken) = refused.get(node) else { continue };
                if world.translator.policy(&node.key).is_some() {
                    continue;
                }
                if node.section.is_empty() {
                    derived.overlay.hidden.insert(node.key.clone());
                    continue;
                }
                let how = if decision.step == Step::Replaced { world.manner(node) } else { Manner::LeftOut };
                let closing = Closing { how, message: broken.message.clone() };
                let units = derived.overlay.closed.entry(node.key.clone()).or_default();
                units.insert(node.section.clone(), closing);
            }
            Step::Current => {}
        }
    }
    policies::lay_over(derived, refused, left_out, world);
}

/// The generation of the version that is served: the hybrid has the desired one's metadata.
fn generation(world: &World<'_>, key: &ObjectKey, served: &crate::object::Object) -> i64 {
    let versions = world.last_valid.of(key, Some(&served.metadata.uid));
    let same = versions.map(|version| &version.object).find(|object| {
        super::hybrid::hybrid(world.objects.get(key).map(|object| &**object), object).body == served.body
    });
    same.map_or(served.metadata.generation, |object| object.metadata.generation)
}
