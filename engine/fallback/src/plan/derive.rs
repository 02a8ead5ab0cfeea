//! Derivation of the plan from the broken objects, and its translation into an overlay.
//!
//! A pure function of desired objects, quarantine, last valid versions and gates; no earlier plan is an input.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::section::{self, HOST, ObjectSection};
use holdfast_graph::{Content, Detected, Gates, Graph, Node, ObjectKey, Plan, Step, Verdict};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::overlay::{Closing, Manner, Overlay};
use holdfast_translate::route::RoutePlan;

use super::claims;
use super::fairness::Wait;
use super::held;
use super::objection::Objection;
use super::policies::{self, LeftOut};
use super::reachable::DesiredRules;
use super::shared;
use super::untried;
use super::world::World;

/// Limit of derivations of one plan, which is derived again if content that is made with stand-in versions is refused
/// too.
const STAND_INS_MAX: usize = 8;
/// The message for changed content while everything is held.
pub const HELD: &str = "held together with all other changes since the last valid configuration";
/// The message for an object that was refused repeatedly.
pub(super) const WAITS: &str = "refused three times within a minute: the next attempt follows within 30 seconds";
/// The message for an object with content that cannot be read.
const UNREADABLE: &str = "its content cannot be read";

/// The reason why a node is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The source of the finding.
    pub detected: Detected,
    /// The field, as a path.
    pub field: Arc<str>,
    /// The message.
    pub message: Arc<str>,
    /// The start of the fault in seconds of Unix time, if the finding itself contains it.
    pub since: Option<i64>,
}

impl Broken {
    /// Checks whether the object cannot be read at all.
    pub fn is_unreadable(&self) -> bool {
        &*self.message == UNREADABLE
    }
}

/// The result of a derivation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// The broken nodes.
    pub broken: BTreeMap<Node, Broken>,
    /// The plan for the broken nodes.
    pub plan: Plan,
    /// The plan in the form for translation.
    pub overlay: Overlay,
    /// The earliest time at which waiting content may be tried again, in milliseconds of Unix time.
    pub(crate) retry_at: Option<u64>,
    /// For each backfilled object: the served generation, and the time since which it is known to be good.
    pub served: BTreeMap<ObjectKey, (i64, i64)>,
    /// The desired rules in served earlier versions, instead of rules without a backend.
    pub desired_rules: BTreeMap<ObjectKey, DesiredRules>,
    /// The objections of the audit, which closed their objects.
    pub objections: Vec<Objection>,
    /// For each broken object that is not served in its last valid version: the reason.
    pub not_backfilled: BTreeMap<ObjectKey, Arc<str>>,
}

/// Derives the plan of a scope.
pub fn derive(world: &World<'_>, graph: &Graph) -> Derived {
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
    refused.extend(world.held.map(|held| held::changed(held, &mut left_out, world)).unwrap_or_default());
    derived.broken.extend(refused.iter().map(|(node, broken)| (node.clone(), broken.clone())));
    let mut shared = shared::refused(world, &mut derived.retry_at);
    let claims = claims::found(world);
    derived.broken.extend(claims.backfilled.clone());
    for _ in 0..STAND_INS_MAX {
        if derived.broken.is_empty() && shared.is_empty() && left_out.is_empty() {
            break;
        }
        let users = shared.nodes(world, &gates);
        let untried = untried::stay(&derived.broken, &users, world, &gates);
        // A refused policy of a host closes what is attached to the host.
        let hosts = derived.broken.keys().filter(|node| is_proxy(&node.key) && section::is_of_host(&node.section));
        let hosts: Vec<Node> = hosts.map(|node| Node::section(node.key.clone(), HOST)).collect();
        let nodes: BTreeSet<Node> = derived.broken.keys().cloned().chain(hosts).chain(users).collect();
        derived.plan = Plan::derive(&nodes, &untried, graph, world, &gates);
        derived.overlay = Overlay::default();
        derived.served.clear();
        derived.desired_rules.clear();
        let mut closed = refused.clone();
        closed.extend(shared.closings(world, &gates));
        lay_over(&mut derived, &closed, &left_out, world);
        let more = refused_with_stand_ins(world, &derived, &refused);
        let more_shared = shared.add(shared::refused_under(world, &derived.overlay));
        let invalid = invalid_below(world, &derived);
        if more.is_empty() && invalid.is_empty() && !more_shared {
            break;
        }
        derived.broken.extend(invalid);
        derived.broken.extend(more.iter().map(|(node, broken)| (node.clone(), broken.clone())));
        refused.extend(more);
    }
    shared.add_to_plan(&mut derived, world, &gates);
    policies::decide_targets(&mut derived, world);
    left_out.report(&mut derived);
    claims.add_to_plan(&mut derived, world);
    derived
}

/// Returns the units that are refused in the form in which they are made with stand-in versions of the objects that
/// they read. `refused`: the units that are known to be refused. A unit that translation found invalid is not among
/// them: with a stand-in version of an object that it reads, it has content again.
fn refused_with_stand_ins(
    world: &World<'_>,
    derived: &Derived,
    refused: &BTreeMap<Node, Broken>,
) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let keys: BTreeSet<&ObjectKey> = world.quarantine.iter().map(|(_, verdict)| &verdict.node.key).collect();
    for key in keys {
        // An object that goes back because of other objects may be refused in its desired version, too.
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
        for (content, node) in world.translator.contents_under(world.fleet, key, overlay, world.objects) {
            if world.refuses(&content) && !refused.contains_key(&node) {
                broken.extend(world.quarantine.get(&content).map(|verdict| (node.clone(), of(verdict, &node))));
            }
        }
    }
    broken
}

/// Returns the nodes of the Gateway that translation found invalid.
fn found_by_translation(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for key in world.translator.invalid_routes() {
        let plan = world.translator.route(key).filter(|plan| plan.gateways().contains(world.gateway));
        broken.extend(plan.into_iter().flat_map(|plan| invalid_units(plan, world)));
    }
    broken.extend(policies::found(world));
    broken.extend(broken_backends(world));
    let certificates = broken_certificates(world);
    broken.retain(|node, _| !is_healed_by_certificates(node, &certificates, world));
    without_healed_by_unread(&mut broken, world);
    // Objects that other objects depend on are served in the version that was read last.
    let unusable = world.unusable.iter().filter(|key| world.objects.get(key).is_none());
    for key in unusable.filter(|key| world.last_valid.of(key, None).next().is_some()) {
        broken.insert(Node::whole(key.clone()), by_translation(String::new(), UNREADABLE.into()));
    }
    broken.extend(certificates);
    broken
}

/// Returns the units of a route that translation found invalid.
fn invalid_units(plan: &RoutePlan, world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
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
        let is_unreadable = world.unusable.contains(&replaced.object);
        let (field, message) = match replaced.message.split_once(": ") {
            Some((path, message)) if path.starts_with(&field) || (is_unreadable && is_path(path)) => {
                (path.to_owned(), message.to_owned())
            }
            _ => (field, replaced.message.clone()),
        };
        let node = Node::section(replaced.object.clone(), replaced.section.as_str());
        broken.insert(node, by_translation(field, message));
    }
    broken
}

/// Returns the invalid units of routes below HTTPRoutes that are served in an earlier version: below the desired versions,
/// these routes may have no place at the Gateway, so that nothing of them is found.
fn invalid_below(world: &World<'_>, derived: &Derived) -> BTreeMap<Node, Broken> {
    let above = derived.overlay.objects.values();
    let below: BTreeSet<ObjectKey> = above.flat_map(|version| world.translator.routes_below(version)).collect();
    let mut broken = BTreeMap::new();
    for key in below.iter().filter(|key| !derived.overlay.alters(key)) {
        let plan = world.translator.try_route(key, &derived.overlay, world.objects);
        let plan = plan.filter(|plan| plan.gateways().contains(world.gateway));
        broken.extend(plan.iter().flat_map(|plan| invalid_units(plan, world)));
    }
    broken.retain(|node, _| !derived.broken.contains_key(node));
    broken
}

/// Returns whether a text is the path of a field of an object.
fn is_path(text: &str) -> bool {
    let first = text.split(['.', '[']).next();
    !text.contains(' ') && first.is_some_and(|first| ["apiVersion", "metadata", "spec"].contains(&first))
}

/// Returns Backends that cannot be served as written and have a servable earlier version. The consequences of the other
/// ones are handled at the routes that refer to them.
fn broken_backends(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let gates = &world.settings.fallback;
    if !gates.isolate || !gates.use_last_valid {
        return BTreeMap::new();
    }
    let found = world.translator.unusable_backends();
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

/// Returns certificates that cannot be used, and those outside of their validity that have a stand-in version. Without
/// one they are served: closing the listener would refuse the clients that do not verify it, too.
fn broken_certificates(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let gates = &world.settings.fallback;
    let outdated =
        (gates.isolate && gates.use_last_valid).then(|| world.translator.outdated_certificates(world.gateway));
    let outdated = outdated.into_iter().flatten().filter(|(key, _)| world.candidate(key).is_some());
    let found = world.translator.broken_certificates(world.gateway).into_iter().chain(outdated);
    found.map(|(key, message)| (Node::whole(key), by_translation("data".into(), message))).collect()
}

/// Checks whether a host is closed only because it lacks a certificate that has a stand-in version. In that case the
/// certificate is the broken object.
fn is_healed_by_certificates(node: &Node, certificates: &BTreeMap<Node, Broken>, world: &World<'_>) -> bool {
    let settings = &world.settings.fallback;
    if *node.section != *HOST || !is_proxy(&node.key) || !settings.isolate || !settings.use_last_valid {
        return false;
    }
    let unread = world.unusable.iter().filter(|key| &*key.kind == kinds::SECRET);
    let secrets = certificates.keys().map(|node| &node.key).chain(unread);
    let objects = secrets.filter_map(|key| Some((key.clone(), world.candidate(key)?.object))).collect();
    let over = Overlay { objects, ..Overlay::default() };
    let then = || world.translator.try_route(&node.key, &over, world.objects);
    !over.is_empty() && then().is_some_and(|plan| plan.replaced.iter().all(|replaced| replaced.section != HOST))
}

/// Removes the rules that only lack an object that cannot be read and is served in its last valid version. That object is
/// the broken one.
fn without_healed_by_unread(broken: &mut BTreeMap<Node, Broken>, world: &World<'_>) {
    let gates = &world.settings.fallback;
    if !gates.isolate || !gates.use_last_valid || !gates.backfill_unresolved {
        return;
    }
    let unread = world.unusable.iter().filter(|key| world.objects.get(key).is_none());
    let objects: BTreeMap<ObjectKey, _> =
        unread.filter_map(|key| Some((key.clone(), world.candidate(key)?.object))).collect();
    let readers: BTreeSet<ObjectKey> = objects.keys().flat_map(|key| world.translator.routes_reading(key)).collect();
    let over = Overlay { objects, ..Overlay::default() };
    for reader in readers {
        let Some(plan) = world.translator.try_route(&reader, &over, world.objects) else { continue };
        let is_replaced = |node: &Node| {
            let mut replaced = plan.replaced.iter();
            replaced.any(|replaced| replaced.object == node.key && *replaced.section == *node.section)
        };
        broken.retain(|node, _| node.key != reader || is_replaced(node));
    }
}

pub(super) fn by_translation(field: String, message: String) -> Broken {
    Broken { detected: Detected::Translation, field: field.into(), message: message.into(), since: None }
}

pub(crate) fn suspected(node: &Node, message: &str) -> Broken {
    let field = section::field(&node.section);
    Broken { detected: Detected::Suspected, field: field.into(), message: message.into(), since: None }
}

/// Returns the units of desired objects that an Envoy of the build refuses, and the units that wait before the next
/// trial.
fn refused(world: &World<'_>, retry_at: &mut Option<u64>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let mut keys: BTreeSet<ObjectKey> = world.quarantine.iter().map(|(_, verdict)| verdict.node.key.clone()).collect();
    keys.extend(world.of_waiting_owners(|| world.translator.route_keys().into_iter()));
    for key in &keys {
        let Some(plan) = world.translator.route(key) else { continue };
        for (content, node) in world.translator.contents_under_any_levels(world.fleet, plan) {
            if world.refuses(&content) {
                broken.extend(world.quarantine.get(&content).map(|verdict| (node.clone(), of(verdict, &node))));
            }
        }
        let contents = world.translator.contents(world.gateway, plan);
        let by_policies = OnceCell::new();
        let is_new_by_policies = |content: &Content| {
            let parts =
                || world.translator.parts_of(world.gateway, plan, |part, at| world.is_new_by_policies(part, at));
            let contents = by_policies.get_or_init(|| parts().into_iter().map(|(content, _)| content).collect());
            BTreeSet::contains(contents, content)
        };
        for (content, node) in contents {
            if !world.refuses(&content)
                && !world.proof.is_known_good(&content)
                && !world.on_trial.contains(&content)
                && let Some(Wait { until, message }) = world.waits(&node, &content)
                // The policies wait, and the unit is served with their earlier settings.
                && !is_new_by_policies(&content)
            {
                *retry_at = Some(retry_at.map_or(until, |other| other.min(until)));
                broken.entry(node.clone()).or_insert_with(|| suspected(&node, message));
            }
        }
    }
    if world.quarantine.iter().any(|(_, verdict)| is_chain(&verdict.node)) {
        for (content, node) in world.translator.chains(world.gateway) {
            let verdict = world.quarantine.get(&content).filter(|_| world.refuses(&content));
            broken.extend(verdict.map(|verdict| (node.clone(), of(verdict, &node))));
        }
    }
    if !world.quarantine.is_empty() {
        for (key, content) in world.translator.certificates(world.gateway) {
            let verdict = world.quarantine.get(&content).filter(|_| world.refuses(&content));
            let node = Node::whole(key);
            broken.extend(verdict.map(|verdict| (node.clone(), of(verdict, &node))));
        }
    }
    broken
}

/// Checks whether a node is the unit of filter chains.
pub(crate) fn is_chain(node: &Node) -> bool {
    kinds::STREAM_ROUTES.contains(&&*node.key.kind)
        || matches!(ObjectSection::parse(&node.section), ObjectSection::Listener(_) | ObjectSection::Host)
}

/// Returns the fault of a node with refused content. The verdict has the field of the generation that was refused; in the
/// desired generation, the unit may have another position.
pub(crate) fn of(verdict: &Verdict, node: &Node) -> Broken {
    Broken {
        detected: verdict.detected,
        field: section::field(&node.section).into(),
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
                derived.served.insert(node.key.clone(), (version.generation, version.since));
                if !version.desired_rules.is_empty() {
                    derived.desired_rules.insert(node.key.clone(), version.desired_rules);
                }
                derived.overlay.objects.insert(node.key.clone(), version.object);
            }
            // Translation itself has closed what it found invalid.
            Step::Replaced | Step::Excluded => {
                let Some(broken) = refused.get(node) else { continue };
                let whole = derived.plan.decisions.get(&Node::whole(node.key.clone()));
                // The version that is served instead was not refused: another object closes it, where it applies.
                let is_anothers =
                    !decision.causes.contains(&node.key) && whole.is_some_and(|whole| whole.step == Step::Backfilled);
                if is_anothers || world.translator.policy(&node.key).is_some() {
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
