//! Assembly of the fallback report from all scopes: read only, computed on request.
//!
//! A scope represents its Gateway if it has Envoys, or if no scope of the Gateway has any. Equal findings of several
//! scopes about one object become one entry.

mod closed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::fault::without_field;
use holdfast_api::section::{self, ObjectSection, is_of_host};
use holdfast_check::time::Moment;
use holdfast_fallback::derive::Broken;
use holdfast_fallback::policies;
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{
    BackfilledObject, BrokenObject, ClosedBy, Deviations, EnvoyCounts, ExcludedObject, FallbackReport, GatewayState,
    Identity, ReplacedObject, Scope, ServedState, Status,
};
use holdfast_graph::{Detected, Node, ObjectKey, Step};
use holdfast_translate::route::RoutePlan;
use holdfast_xds::ResourceType;

use crate::engine::Engine;
use crate::report::ReplacementView;

impl Engine {
    /// Checks whether a Gateway serves, or is about to serve, something other than its desired configuration.
    pub fn is_in_fallback(&self, gateway: &str) -> bool {
        speaking(self.scopes.of(gateway))
            .any(|scope| matches!(scope.state(), ServedState::Fallback | ServedState::Held))
    }

    /// Returns the report of everything that is not served as desired.
    pub fn fallback(&self) -> FallbackReport {
        self.fallback_with(&self.replacements())
    }

    /// Returns the report, with the present replacements of rules.
    pub(super) fn fallback_with(&self, replacements: &[ReplacementView]) -> FallbackReport {
        let mut survey = FallbackSurvey::of(self);
        for (name, scopes) in self.scopes.gateways() {
            survey.gateway(name, scopes);
        }
        survey.unreadable();
        closed::add(&mut survey, replacements);
        survey.finish()
    }
}

struct FallbackSurvey<'a> {
    engine: &'a Engine,
    gateways: Vec<GatewayState>,
    broken: BTreeMap<ObjectKey, BrokenObject>,
    backfilled: BTreeMap<(Node, i64), BackfilledObject>,
    replaced: BTreeMap<(ObjectKey, Arc<str>, u16), ReplacedObject>,
    excluded: BTreeMap<Node, ExcludedObject>,
}

impl<'a> FallbackSurvey<'a> {
    fn of(engine: &'a Engine) -> Self {
        Self {
            engine,
            gateways: Vec::new(),
            broken: BTreeMap::new(),
            backfilled: BTreeMap::new(),
            replaced: BTreeMap::new(),
            excluded: BTreeMap::new(),
        }
    }

    fn gateway(&mut self, name: &Arc<str>, scopes: &[FallbackScope]) {
        let mut state = GatewayState {
            name: name.clone(),
            state: ServedState::Current,
            generation: self.engine.scopes.generation(name),
            envoys: EnvoyCounts::default(),
            held_envoys: BTreeMap::new(),
            acknowledged: None,
            deviations: Deviations::default(),
            settled: true,
            untranslated: BTreeMap::new(),
            oldest: None,
            object: scopes.first().and_then(|scope| self.gateway_object(scope)),
            closed: BTreeSet::new(),
            unrecovered: BTreeSet::new(),
            closes: false,
            unserved_listeners: BTreeSet::new(),
        };
        if scopes.is_empty() {
            (state.state, state.settled) = (ServedState::Unverified, false);
        }
        for scope in speaking(scopes) {
            state.state = state.state.max(scope.state());
            state.settled &= scope.is_settled();
            let counts = scope.envoys();
            state.envoys.acknowledged += counts.acknowledged;
            state.envoys.refused += counts.refused;
            state.envoys.pending += counts.pending;
            let held = scope.held_envoys().map(|(node, outlier)| (node.clone(), outlier.message().to_owned()));
            state.held_envoys.extend(held);
            state.deviations.held |= scope.state() == ServedState::Held;
            self.broken(scope);
            let closed = self.engine.translator.closed_hosts(&scope.id.fleet);
            state.closed.extend(closed.into_iter().map(|closed| self.identity(closed.route, None)));
            self.backends(scope);
            self.steps(scope, &mut state);
            state.deviations.broken.extend(scope.derived.broken.keys().map(|node| node.key.clone()));
            state.deviations.broken.extend(scope.held().into_iter().map(|(key, _)| key));
        }
        self.gateways.push(state);
    }

    fn broken(&mut self, scope: &FallbackScope) {
        let mut findings: BTreeMap<&ObjectKey, Vec<(u8, &Node, &Broken)>> = BTreeMap::new();
        for (node, broken) in &scope.derived.broken {
            findings.entry(&node.key).or_default().push((firmness(scope.detected_of(broken)), node, broken));
        }
        for (key, mut found) in findings {
            found.sort_by_key(|(firmness, node, _)| (*firmness, *node));
            let Some(((_, first_node, first), others)) = found.split_first() else { continue };
            let message_of = |node: &Node, broken: &Broken| {
                without_field(&scope.message_of(broken), &field(node, broken)).to_owned()
            };
            let mut message = message_of(first_node, first);
            for (_, node, other) in others.iter().filter(|(_, _, other)| other.message != first.message) {
                message.push_str(&format!("; {}: {}", field(node, other), message_of(node, other)));
            }
            self.note(scope, key, scope.detected_of(first), field(first_node, first), message);
        }
        for (key, refusal) in scope.held() {
            if scope.derived.broken.keys().any(|node| node.key == key) {
                continue;
            }
            let detected = if &*refusal.node == "probe" { Detected::Probe } else { Detected::Nack };
            let field = if refusal.kind == ResourceType::Listener { "spec.listeners" } else { "" };
            let message = format!("{} {}: {}", refusal.kind.short_name(), refusal.resource, refusal.explained());
            self.note(scope, &key, detected, field.to_owned(), message);
        }
    }

    /// Adds Backends that cannot be used. Translation answers their requests with status 500, so no plan contains them.
    fn backends(&mut self, scope: &FallbackScope) {
        let engine = self.engine;
        for (key, why) in engine.translator.unusable_backends_of(&scope.id.gateway) {
            if !scope.derived.broken.keys().any(|node| node.key == *key) {
                let (field, message) = policies::parted(why);
                self.note(scope, key, Detected::Translation, field, message);
            }
        }
    }

    /// Adds the finding of one scope about an object; of several findings about one object, the firmest is reported.
    fn note(&mut self, scope: &FallbackScope, key: &ObjectKey, detected: Detected, field: String, message: String) {
        let since = Moment(scope.verdicts.since.get(key).copied().unwrap_or_else(|| self.engine.now()));
        let fresh = BrokenObject {
            object: self.identity(key, Some(scope)),
            generation: self.generation(key),
            detected_by: detected,
            field,
            message,
            gateways: BTreeSet::from([scope.id.name.clone()]),
            since,
            not_backfilled: scope.derived.not_backfilled.get(key).cloned(),
        };
        match self.broken.get_mut(key) {
            None => {
                self.broken.insert(key.clone(), fresh);
            }
            Some(known) => {
                let gateways = std::mem::take(&mut known.gateways);
                let since = known.since.min(fresh.since);
                let not_backfilled = known.not_backfilled.take().or_else(|| fresh.not_backfilled.clone());
                if firmness(detected) < firmness(known.detected_by) {
                    *known = fresh;
                }
                (known.since, known.not_backfilled) = (since, not_backfilled);
                known.gateways.extend(gateways);
                known.gateways.insert(scope.id.name.clone());
            }
        }
    }

    fn steps(&mut self, scope: &FallbackScope, state: &mut GatewayState) {
        let deviations = &mut state.deviations;
        for (node, decision) in &scope.derived.plan.decisions {
            let causing_objects: BTreeSet<String> = decision.causes.iter().map(ToString::to_string).collect();
            let object = self.identity(&node.key, Some(scope));
            if decision.step == Step::Backfilled {
                let Some((served_generation, since)) = scope.derived.served.get(&node.key).copied() else { continue };
                deviations.steps.insert(node.clone(), (Step::Backfilled, served_generation));
                state.oldest = state.oldest.into_iter().chain([Moment(since)]).min();
                let served = self.engine.translator.served_share(&scope.id.fleet, &node.key);
                let message = served.map(|plan| untranslated(&plan)).unwrap_or_default();
                if !message.is_empty() {
                    state.untranslated.insert(object.clone(), message);
                }
                let desired_generation = self.generation(&node.key);
                let known = self.backfilled.entry((node.clone(), served_generation)).or_insert(BackfilledObject {
                    object,
                    causing_objects: BTreeSet::new(),
                    desired_generation,
                    served_generation,
                    served_since: Moment(since),
                    section: node.section.clone(),
                    desired_sections: scope.derived.desired_rules.get(&node.key).cloned().unwrap_or_default(),
                });
                known.causing_objects.extend(causing_objects);
                known.served_since = known.served_since.min(Moment(since));
                continue;
            }
            // A hidden object is not served in any form.
            let is_hidden = scope.derived.overlay.hidden.contains(&node.key);
            let plan = self.engine.translator.served_share(&scope.id.fleet, &node.key).filter(|_| !is_hidden);
            let mut answers: Vec<(Arc<str>, u16, Scope)> = answers(node, plan.as_deref());
            if answers.is_empty()
                && plan.as_ref().is_some_and(|plan| plan.stream.is_none())
                && self.engine.translator.is_closed_above(&scope.id.fleet, &node.key)
            {
                answers.push(("".into(), self.engine.settings().closed_status, Scope::Object));
            }
            if node.key == scope.id.gateway || &*node.key.kind == kinds::LISTENER_SET {
                answers = self.closed_listeners(scope, node);
            }
            for (section, response, scope) in &answers {
                let own = Node::section(node.key.clone(), section.clone());
                deviations.steps.insert(own, (Step::Replaced, i64::from(*response)));
                let at = (node.key.clone(), section.clone(), *response);
                let known = self.replaced.entry(at).or_insert_with(|| ReplacedObject {
                    object: object.clone(),
                    causing_objects: BTreeSet::new(),
                    scope: *scope,
                    section: section.clone(),
                    response: *response,
                    closed_by: ClosedBy::Step,
                });
                known.causing_objects.extend(causing_objects.iter().cloned());
            }
            if answers.is_empty() {
                deviations.steps.insert(node.clone(), (Step::Excluded, 0));
                self.exclude(node, object, causing_objects);
            }
        }
    }

    /// Returns the listeners of a Gateway, in the given section, that policies close.
    fn closed_listeners(&self, scope: &FallbackScope, wanted: &Node) -> Vec<(Arc<str>, u16, Scope)> {
        let translator = &self.engine.translator;
        let (Some(plan), Some(levels)) =
            (translator.gateway(&scope.id.gateway), translator.served_levels(&scope.id.fleet))
        else {
            return Vec::new();
        };
        let closed = plan.listeners.iter().filter_map(|listener| {
            let unit = listener.unit(&scope.id.gateway);
            let is_meant = unit.key == wanted.key && (wanted.section.is_empty() || wanted.section == unit.section);
            let closed = levels.closing(listener).filter(|_| is_meant && !listener.forwards())?;
            let scope = match closed.scope {
                "virtualHost" => Scope::VirtualHost,
                _ => Scope::RouteConfiguration,
            };
            Some((unit.section, self.engine.settings().closed_status, scope))
        });
        closed.collect()
    }

    fn exclude(&mut self, node: &Node, object: Identity, causing_objects: BTreeSet<String>) {
        let fresh = || ExcludedObject {
            object,
            causing_objects: BTreeSet::new(),
            scope: scope(&node.section),
            section: node.section.clone(),
            closed_by: ClosedBy::Step,
        };
        self.excluded.entry(node.clone()).or_insert_with(fresh).causing_objects.extend(causing_objects);
    }

    /// Adds objects that cannot be read at all and have no earlier version in any scope: their places are unknown.
    fn unreadable(&mut self) {
        let gates = &self.engine.settings().fallback;
        let uses_last_valid = gates.isolate && gates.use_last_valid;
        for (key, since, fault) in self.engine.unreadable() {
            if self.broken.contains_key(key) {
                continue;
            }
            let object = self.identity(key, None);
            // Objects that other objects depend on are served in the version that was read last.
            let is_excluded = self.engine.objects().get(key).is_none();
            let broken = BrokenObject {
                object: object.clone(),
                generation: None,
                detected_by: Detected::Translation,
                field: fault.map(|fault| fault.field.clone()).unwrap_or_default(),
                message: fault.map_or_else(|| "its content cannot be read".into(), |fault| fault.message.clone()),
                gateways: BTreeSet::new(),
                since: Moment(since),
                not_backfilled: (uses_last_valid && is_excluded).then(|| "no last valid version exists".into()),
            };
            self.broken.insert(key.clone(), broken);
            if is_excluded {
                self.exclude(&Node::whole(key.clone()), object, BTreeSet::from([key.to_string()]));
            }
        }
    }

    fn finish(self) -> FallbackReport {
        let mut report = FallbackReport {
            status: Status::NotTriggered,
            broken_objects: self.broken.into_values().collect(),
            backfilled_objects: self.backfilled.into_values().collect(),
            replaced_objects: self.replaced.into_values().collect(),
            excluded_objects: self.excluded.into_values().collect(),
            gateways: self.gateways,
        };
        let all_current = report.broken_objects.is_empty()
            && report.backfilled_objects.is_empty()
            && report.replaced_objects.is_empty()
            && report.excluded_objects.is_empty()
            && !report.gateways.iter().any(|gateway| gateway.deviations.held);
        if !all_current {
            report.status = Status::Triggered;
        }
        report
    }

    fn generation(&self, key: &ObjectKey) -> Option<i64> {
        if self.engine.is_unreadable(key) {
            return None;
        }
        self.engine.objects().get(key).map(|object| object.metadata.generation)
    }

    /// Returns the object of a Gateway, if it exists.
    fn gateway_object(&self, scope: &FallbackScope) -> Option<Identity> {
        self.engine.objects().get(&scope.id.gateway)?;
        Some(self.identity(&scope.id.gateway, Some(scope)))
    }

    fn identity(&self, key: &ObjectKey, scope: Option<&FallbackScope>) -> Identity {
        identity(self.engine, key, scope)
    }
}

/// Returns the identity of an object; for a deleted object, as far as `scope` has its last valid version.
pub fn identity(engine: &Engine, key: &ObjectKey, scope: Option<&FallbackScope>) -> Identity {
    let desired = engine.objects().get(key).map(|object| object.metadata.uid.clone());
    let stored = || scope?.evidence.last_valid.of(key, None).next().map(|version| version.object.metadata.uid.clone());
    let version = scheme::find(&key.group, &key.kind).and_then(|kind| kind.versions.first());
    Identity {
        group: key.group.clone(),
        kind: key.kind.clone(),
        version: version.copied().unwrap_or_default().into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        id: desired.or_else(stored).unwrap_or_default(),
    }
}

/// Returns the direct responses that are served instead of a closed node; empty if the node is left out. A refused field
/// of a host closes the host.
fn answers(node: &Node, plan: Option<&RoutePlan>) -> Vec<(Arc<str>, u16, Scope)> {
    let replaced = plan.into_iter().flat_map(|plan| &plan.replaced);
    let unit = if is_of_host(&node.section) { section::HOST } else { &*node.section };
    let own = replaced.filter(|replaced| unit.is_empty() || *unit == *replaced.section);
    let responses = own.filter_map(|replaced| Some((replaced.section.as_str(), replaced.response?)));
    responses.map(|(section, response)| (section.into(), response, scope(section))).collect()
}

/// Returns the sections of a plan that are not served as written, with the reasons.
fn untranslated(plan: &RoutePlan) -> String {
    let replaced = plan.replaced.iter().map(|replaced| format!("{}: {}", replaced.section, replaced.message));
    replaced.collect::<Vec<_>>().join("; ")
}

/// Returns the scope of a section within its object.
pub fn scope(section: &str) -> Scope {
    match ObjectSection::parse(section) {
        ObjectSection::Listener(_) => Scope::Listener,
        ObjectSection::Hostname(_) => Scope::Hostname,
        ObjectSection::Include(_) => Scope::Include,
        ObjectSection::Host | ObjectSection::Stream => Scope::Host,
        ObjectSection::Field(field) if is_of_host(field) => Scope::Host,
        ObjectSection::Rule(_) | ObjectSection::ProxyRoute(_) => Scope::Rule,
        // A field of a policy belongs to the policy as a whole.
        ObjectSection::Whole | ObjectSection::Field(_) => Scope::Object,
    }
}

/// Returns the field of a finding; for a verdict about the object as a whole, the unit in which the fault appears.
pub fn field(node: &Node, broken: &Broken) -> String {
    if broken.field.is_empty() { section::field(&node.section) } else { broken.field.to_string() }
}

/// Returns the rank of a finding by its source; the most certain source has the lowest rank.
fn firmness(detected: Detected) -> u8 {
    match detected {
        Detected::Nack => 0,
        Detected::Probe => 1,
        Detected::Translation => 2,
        Detected::Suspected => 3,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
pub mod tests;
