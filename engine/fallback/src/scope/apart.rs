//! Envoys apart: an Envoy that refuses content which others of its build accepted gets a scope of its own.
//!
//! Each side is believed about itself only. The others are served the content; the Envoy apart is served the fallback
//! for it, and everything else in its current version. Without the scope of its own, no edit of any object would reach
//! the route configurations of that Envoy, and an Envoy that acknowledges everything would do that to all others.
//!
//! A scope apart is neither stored nor shared: after a restart, it begins again with one more refusal. It ends when its
//! configuration is that of the other Envoys again, and when its last Envoy has disconnected; later, if content may have
//! ended that Envoy. Followers have no scopes apart, and neither have Envoys of other replicas: these keep their
//! previous configuration (`members/outlier.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::object::Object;
use holdfast_store::shards::ScopeOffers;
use holdfast_translate::fleet::FleetId;
use holdfast_xds::{Offers, Resource, ResourceType, Snapshot};

use super::FallbackScope;
use super::scopes::{FallbackScopes, differs, offered};
use crate::attribution::accepted_versions;
use crate::attribution::search::SILENCE;
use crate::attribution::verdicts::edited;
use crate::context::next::Next;
use crate::context::scope_id::{Apart, ScopeId};
use crate::context::step_inputs::StepInputs;
use crate::evidence::accepted_by::AcceptedBy;
use crate::evidence::last_valid::Version;
use crate::members::Outlier;
use crate::persistence::restored::RestoredScope;
use crate::persistence::restored_version::RestoredVersion;
use crate::rollout::configurations::Configurations;
use crate::rollout::{Offered, Stage, TRIED};

/// Milliseconds for which a scope apart waits for an Envoy that content may have ended.
const APART_EMPTY_MS: u64 = 600_000;
/// Limit of scopes apart of one Gateway. Further Envoys that refuse what others accept keep their previous
/// configuration.
pub(crate) const SCOPES_APART_MAX: usize = 8;

/// Gives Envoys that refuse what others accepted a scope of their own, and ends scopes apart that are not needed.
pub(super) fn weigh_envoys(all: &mut FallbackScopes, inputs: &mut StepInputs<'_>) {
    if inputs.follows || !inputs.settings.fallback.isolate {
        return;
    }
    for (name, scopes) in &mut all.gateways {
        let is_due = |scope: &FallbackScope| scope.id.is_apart() || scope.members.has_refused_alone();
        if scopes.iter().any(is_due) && (refuse_again(scopes) | end_needless(scopes, inputs) | separate(scopes, inputs))
        {
            all.touched.insert(name.clone());
        }
    }
}

/// Ends all scopes apart; their Envoys belong to the scope of their build.
pub(super) fn end_scopes_apart(all: &mut FallbackScopes, inputs: &mut StepInputs<'_>) {
    for scopes in all.gateways.values_mut() {
        end_apart(scopes, inputs, |_, _| true);
    }
}

/// Returns the scope apart of Envoys that refused the same as this one.
fn alike(scopes: &[FallbackScope], build: &Arc<str>, outlier: &Outlier) -> Option<usize> {
    scopes.iter().position(|scope| {
        let mut refused = outlier.refused();
        scope.id.is_apart()
            && scope.id.reported_build() == build
            && refused.any(|((kind, name), version)| scope.hold.refusal_of(*kind, name, *version).is_some())
    })
}

/// Returns the next Envoy for a scope of its own: it refuses the configuration that others have, and tries nothing.
/// While no other Envoy is connected, it can only join Envoys that refused the same.
fn next_apart(scopes: &[FallbackScope], scope: &FallbackScope) -> Option<Arc<str>> {
    if scope.id.is_apart() {
        return None;
    }
    let has_others = scope.members.has_any_but_outliers();
    let joins = |outlier: &Outlier| has_others || alike(scopes, &scope.id.build, outlier).is_some();
    let everyone = scope.configurations.everyone.as_ref()?;
    let tries = |node: &str| {
        let is_canary = matches!(&scope.stage, Stage::Canary { node: canary, .. } if **canary == *node);
        is_canary || scope.trials.current.as_ref().is_some_and(|trial| *trial.node == *node)
    };
    let mut outliers = scope.members.outliers();
    let next = outliers.find(|(node, outlier)| {
        let refuses = || outlier.offered(everyone).is_some() && joins(outlier);
        scope.members.is_local(node) && !tries(node) && refuses()
    });
    next.map(|(node, _)| node.clone())
}

/// Adds the offers for the Envoys of a scope apart.
pub(super) fn offer_apart(scope: &FallbackScope, offers: &mut Offers) {
    let Some(Offered { everyone, waits, nodes, again }) = offered(scope) else { return };
    let all = scope.members.nodes().filter(|_| !waits);
    offers.nodes.extend(all.map(|node| (node.clone(), everyone.clone())));
    offers.nodes.extend(nodes);
    offers.again.extend(again);
}

/// Returns what is known of an Envoy that leaves for a scope of its own, as if a run had stored it. `has`: the
/// configuration that the Envoy accepted before; `versions`: the last valid versions that it accepted.
fn known_of(scope: &FallbackScope, id: &ScopeId, has: Snapshot, versions: Vec<Version>) -> RestoredScope {
    let verdicts = scope.verdicts.quarantine.iter().map(|(content, verdict)| (content, verdict.clone()));
    RestoredScope {
        gateway: id.name.clone(),
        build: id.build.clone(),
        snapshot: has,
        versions: versions.into_iter().map(RestoredVersion::Known).collect(),
        verdicts: verdicts.collect(),
        accepted_by: AcceptedBy::default(),
        offers: ScopeOffers::default(),
    }
}

/// Checks whether new content is tried, or suspects are.
fn is_trying(scope: &FallbackScope) -> bool {
    scope.stage != Stage::Settled || scope.trials.current.is_some() || scope.trials.readmission.is_some()
}

/// Checks whether content may have ended an Envoy of a scope apart, so that the Envoy has to come back to it.
fn awaits_return(scope: &FallbackScope) -> bool {
    let mut verdicts = scope.verdicts.quarantine.iter();
    is_trying(scope) || verdicts.any(|(_, verdict)| verdict.message.contains(SILENCE))
}

/// Checks whether the Envoys of a scope apart have accepted exactly the configuration of the others.
fn is_like(scope: &FallbackScope, others: &FallbackScope) -> bool {
    let is_idle =
        !is_trying(scope) && scope.hold.refusals().next().is_none() && scope.members.outliers().next().is_none();
    let both = scope.configurations.everyone.as_ref().zip(others.configurations.everyone.as_ref());
    is_idle
        && others.stage == Stage::Settled
        && scope.derived.overlay == others.derived.overlay
        && both.is_some_and(|(own, other)| !differs(own, other))
}

/// Finds Envoys that are not sent the configuration of the others, because they refused it before. Returns true if
/// there are any.
fn refuse_again(scopes: &mut [FallbackScope]) -> bool {
    scopes.iter_mut().filter(|scope| !scope.id.is_apart()).fold(false, |any, scope| {
        let Configurations { everyone, previous, .. } = &scope.configurations;
        let everyone = everyone.as_ref();
        any | everyone.is_some_and(|everyone| scope.members.refuse_again(everyone, previous))
    })
}

/// Gives each Envoy that refuses what others accepted a scope of its own, or adds it to the scope of an Envoy that
/// refused the same. Returns true if there was any.
fn separate(scopes: &mut Vec<FallbackScope>, inputs: &mut StepInputs<'_>) -> bool {
    let mut any = false;
    let next = |scopes: &[FallbackScope]| {
        scopes.iter().enumerate().find_map(|(at, scope)| Some((at, next_apart(scopes, scope)?)))
    };
    while let Some((at, node)) = next(scopes) {
        let Some(main) = scopes.get(at) else { return any };
        let Some(outlier) = main.members.outlier(&node).cloned() else { return any };
        let accepted = AcceptedConfigurations::by(main, &node, &outlier);
        // The Envoy is not sent these again.
        let known = outlier.known().map(|(slot, version)| (slot.clone(), *version, outlier.message().to_owned()));
        let refused: Vec<_> = known.chain(main.hold.refused_by(&node)).collect();
        let to = match alike(scopes, &main.id.build, &outlier) {
            Some(known) => known,
            None if scopes.iter().filter(|scope| scope.id.is_apart()).count() >= SCOPES_APART_MAX => return any,
            None => {
                scopes.push(begin_apart(main, &node, &accepted, inputs));
                scopes.len() - 1
            }
        };
        let left = scopes.get_mut(at).and_then(|main| {
            main.forget_refusals_of(&node);
            Some((main.members.take(&node)?, main.evidence.accepted_by.take(&node)))
        });
        if let Some(((member, own), scope)) = left.zip(scopes.get_mut(to)) {
            scope.id.apart.iter_mut().for_each(|apart| apart.nodes.extend([node.clone()]));
            for (slot, version, message) in &refused {
                scope.hold.refuse_by(&node, &scope.id.build.clone(), slot, *version, message);
            }
            scope.members.put(&node, member);
            scope.evidence.accepted_by.put(&node, own);
            for (kind, resource) in all_of(&accepted.before).chain(all_of(&accepted.now)) {
                scope.evidence.note_accepted_by(&node, kind, resource);
            }
            scope.settle(Next::Replan, inputs);
            for (kind, resource) in all_of(&accepted.before).chain(all_of(&accepted.now)) {
                scope.hold.acknowledge((kind, resource.name.clone()), resource.version);
            }
        }
        scopes.get_mut(at).into_iter().for_each(|main| main.settle(Next::Replan, inputs));
        any = true;
    }
    any
}

/// Returns a scope for an Envoy that leaves the scope of its build, without the Envoy.
fn begin_apart(
    main: &FallbackScope,
    node: &Arc<str>,
    accepted: &AcceptedConfigurations,
    inputs: &mut StepInputs<'_>,
) -> FallbackScope {
    let gateway = &main.id.gateway;
    let label: Arc<str> = format!("{}@{node}", main.id.build).into();
    let fleet = FleetId { gateway: gateway.clone(), label: label.clone() };
    inputs.translator.open(&fleet, &FleetId::main(gateway));
    let mut scope = FallbackScope::new(gateway, &label, fleet);
    scope.id.apart = Some(Apart { from: main.id.build.clone(), nodes: BTreeSet::new(), empty_since_ms: None });
    let AcceptedConfigurations { before, now } = accepted;
    for (name, resource) in before.of(ResourceType::Route) {
        let forms = &main.evidence.forms;
        let form = forms.previous(name, &resource.version).or_else(|| forms.of(name, &resource.version));
        if let Some(form) = form {
            scope.evidence.forms.note(name, form.clone());
            scope.evidence.prove(name, resource.version);
        }
    }
    all_of(now).chain(all_of(before)).for_each(|(kind, resource)| scope.evidence.proof.prove_restored(kind, resource));
    // It is unknown what an Envoy has that has accepted no routes since it connected.
    let versions = match main.members.has_accepted_routes(node) {
        true => accepted_versions::accepted(main, &scope.evidence.proof, inputs),
        false => main.evidence.last_valid.iter().cloned().collect(),
    };
    known_of(main, &scope.id, now.clone(), versions).into_scope(&mut scope, inputs);
    scope.evidence.proof.prove_clusters_of(&main.evidence.proof);
    edited(&mut scope, &inputs.translator.route_keys(), inputs.translator);
    scope
}

/// What an Envoy that leaves the scope of its build has accepted there, and does not answer again.
struct AcceptedConfigurations {
    /// The configuration before its refusal.
    before: Snapshot,
    /// The configuration of the others, with the earlier version of what it refused.
    now: Snapshot,
}

impl AcceptedConfigurations {
    fn by(main: &FallbackScope, node: &str, outlier: &Outlier) -> Self {
        // An Envoy that has not accepted any routes yet has no earlier configuration.
        let everyone = main.configurations.everyone.as_ref();
        let mut before = match main.members.is_fresh(node) {
            true => Snapshot::default(),
            false => main.members.as_accepted(node, &outlier.accepted, everyone),
        };
        if !main.members.has_accepted_routes(node) {
            // What it has was not necessarily what the others had.
            let unknown: Vec<_> = before.of(ResourceType::Route).keys().cloned().collect();
            unknown.iter().for_each(|name| before.remove(ResourceType::Route, name));
        }
        let mut now = main.configurations.everyone.clone().unwrap_or_default();
        for ((kind, name), _) in outlier.refused() {
            match before.get(*kind, name) {
                Some(resource) => now.insert(*kind, resource.clone()),
                None => now.remove(*kind, name),
            }
        }
        Self { before, now }
    }
}

fn all_of(snapshot: &Snapshot) -> impl Iterator<Item = (ResourceType, &Arc<Resource>)> {
    TRIED.into_iter().flat_map(move |kind| snapshot.of(kind).values().map(move |resource| (kind, resource)))
}

/// Ends scopes apart that have had no Envoys for some time, and those with the configuration of the other Envoys.
/// Returns true if there were any.
fn end_needless(scopes: &mut Vec<FallbackScope>, inputs: &mut StepInputs<'_>) -> bool {
    let now_ms = inputs.now_ms;
    scopes.iter_mut().for_each(|scope| note_empty(scope, now_ms));
    end_apart(scopes, inputs, |scope, main| match scope.id.apart.as_ref().and_then(|apart| apart.empty_since_ms) {
        Some(since_ms) => !awaits_return(scope) || since_ms.saturating_add(APART_EMPTY_MS) <= now_ms,
        None => is_like(scope, main),
    })
}

fn note_empty(scope: &mut FallbackScope, now_ms: u64) {
    let is_empty = scope.members.is_empty();
    if let Some(apart) = &mut scope.id.apart {
        apart.empty_since_ms = is_empty.then(|| apart.empty_since_ms.unwrap_or(now_ms));
    }
}

/// Ends scopes apart, given with the scope of their build. Returns true if there were any.
fn end_apart(
    scopes: &mut Vec<FallbackScope>,
    inputs: &mut StepInputs<'_>,
    ends: impl Fn(&FallbackScope, &FallbackScope) -> bool,
) -> bool {
    let mut any = false;
    for at in (0..scopes.len()).rev() {
        let Some(scope) = scopes.get(at).filter(|scope| scope.id.is_apart()) else { continue };
        let build = scope.id.reported_build();
        let main = scopes.iter().position(|main| main.id.build == *build).unwrap_or(0);
        if !scopes.get(main).is_some_and(|main| ends(scope, main)) {
            continue;
        }
        let ended = scopes.remove(at);
        inputs.translator.close(&ended.id.fleet);
        inputs.translator.close(&ended.id.trial_fleet());
        scopes.get_mut(main).into_iter().for_each(|main| take_back(main, &ended, inputs));
        any = true;
    }
    any
}

/// Adds the Envoys of a scope apart that ends, and what they accepted.
fn take_back(scope: &mut FallbackScope, ended: &FallbackScope, inputs: &StepInputs<'_>) {
    for node in ended.members.nodes() {
        let Some(member) = ended.members.member(node) else { continue };
        scope.members.put(node, member.clone());
        scope.evidence.accepted_by.put(node, ended.evidence.accepted_by.of(node));
        for (slot, version, message) in ended.hold.refused_by(node) {
            scope.members.remember_refused(node, &slot, version, &message);
        }
    }
    let newest = ended.evidence.last_valid.iter().map(|version| &version.object);
    let desired = |object: &&Arc<Object>| inputs.objects.get(&object.key).is_some_and(|desired| desired == *object);
    for object in newest.filter(desired) {
        let change = scope.evidence.promote(&scope.id, &object.key, inputs);
        change.into_iter().for_each(|change| scope.records.record(change));
    }
}
