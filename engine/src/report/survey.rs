//! Assembly of the fallback report from all scopes: read only, computed on request.
//!
//! A scope represents its Gateway if it has Envoys, or if no scope of the Gateway has any. Equal findings of several
//! scopes about one object become one entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Detected, Node, ObjectKey, Step};
use holdfast_xds::ResourceType;

use crate::apis::gateway::listener_set;
use crate::apis::scheme;
use crate::engine::Engine;
use crate::fallback::derive::{Broken, HELD};
use crate::fallback::line::Line;
use crate::fallback::policies;
use crate::fallback::rollout::Stage;
use crate::fallback::view::{
    BackfilledObject, BrokenObject, Deviations, EnvoyCounts, ExcludedObject, FallbackReport, GatewayState, Identity,
    ReplacedObject, Scope, ServedState, Status,
};
use crate::fault::without_field;
use crate::hold::Refusal;
use crate::time::Moment;
use crate::translate::route::RoutePlan;

impl Line {
    /// Returns the objects behind resources that are held because no object could be blamed for their refusal.
    pub(crate) fn held(&self) -> Vec<(ObjectKey, &Refusal)> {
        let behind = |refusal: &Refusal| {
            let kind = match refusal.kind {
                // For a whole port or table, only the Gateway is known to be affected.
                ResourceType::Listener | ResourceType::Route => return self.gateway.clone(),
                ResourceType::Cluster | ResourceType::Endpoints => "Service",
                ResourceType::Secret => "Secret",
            };
            let resource = self.wanted.get(refusal.kind, &refusal.resource);
            let origins = resource.into_iter().flat_map(|resource| resource.origins.iter());
            let (own, others): (Vec<_>, Vec<_>) = origins.partition(|origin| *origin.kind == *kind);
            own.into_iter().chain(others).next().unwrap_or(&self.gateway).clone()
        };
        self.hold.refusals().map(|refusal| (behind(refusal), refusal)).collect()
    }

    /// Returns the message of a broken node. While everything is held, Envoy's message is about the held configuration
    /// as a whole.
    pub(crate) fn message_of(&self, broken: &Broken) -> String {
        let is_held = self.whole.held && &*broken.message == HELD;
        let newest = || self.remembered.back().and_then(|version| self.hold.refused_as(*version));
        match is_held.then(|| newest().or_else(|| self.hold.refused().next())).flatten() {
            Some(refusal) => {
                let (kind, name) = (refusal.kind.short_name(), &refusal.resource);
                format!("{}; Envoy refused {kind} {name}: {}", broken.message, refusal.message)
            }
            None => broken.message.to_string(),
        }
    }

    /// Returns what the Envoys of the scope are served.
    pub(crate) fn state(&self) -> ServedState {
        if self.whole.held || self.hold.refusals().next().is_some() {
            ServedState::Held
        } else if !self.derived.plan.is_empty() || !self.derived.broken.is_empty() {
            ServedState::Fallback
        } else {
            match self.stage {
                Stage::Settled => ServedState::Current,
                Stage::Probing => ServedState::Probing,
                Stage::Canary { .. } => ServedState::Trying,
                Stage::Following => ServedState::Following,
            }
        }
    }

    /// Checks whether at least one Envoy of the scope has acknowledged the wanted configuration.
    pub(crate) fn is_settled(&self) -> bool {
        self.stage == Stage::Settled && self.trial.is_none() && !self.envoys.is_empty() && !self.hold.awaits_answers()
    }

    /// Returns the number of Envoys by their state; the answer of one Envoy counts for all of its build.
    fn envoys(&self) -> EnvoyCounts {
        let refusing = self.hold.refusals().map(|refusal| &refusal.node).chain(self.alone.keys());
        let refused = refusing.filter(|node| self.envoys.contains_key(*node)).collect::<BTreeSet<_>>().len();
        let others = self.envoys.len() - refused;
        let pending = match &self.stage {
            Stage::Settled if self.hold.awaits_answers() => others,
            _ if self.everyone.is_none() => others,
            Stage::Canary { .. } => others.min(1),
            _ => 0,
        };
        EnvoyCounts { acknowledged: others - pending, refused, pending }
    }
}

/// Returns the scopes of a Gateway that represent it.
pub(crate) fn speaking(lines: &[Line]) -> impl Iterator<Item = &Line> {
    let no_envoys = lines.iter().all(|line| line.envoys.is_empty());
    lines.iter().filter(move |line| no_envoys || !line.envoys.is_empty())
}

impl Engine {
    /// Checks whether a Gateway serves, or is about to serve, something other than its desired configuration.
    pub fn is_in_fallback(&self, gateway: &str) -> bool {
        speaking(self.lines.of(gateway)).any(|line| matches!(line.state(), ServedState::Fallback | ServedState::Held))
    }

    /// Returns the report of everything that is not served as desired.
    pub fn fallback(&self) -> FallbackReport {
        let mut survey = Survey::of(self);
        for (name, lines) in self.lines.gateways() {
            survey.gateway(name, lines);
        }
        survey.unreadable();
        survey.finish()
    }
}

struct Survey<'a> {
    engine: &'a Engine,
    gateways: Vec<GatewayState>,
    broken: BTreeMap<ObjectKey, BrokenObject>,
    backfilled: BTreeMap<(Node, i64), BackfilledObject>,
    replaced: BTreeMap<(ObjectKey, Arc<str>, u16), ReplacedObject>,
    excluded: BTreeMap<Node, ExcludedObject>,
}

impl<'a> Survey<'a> {
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

    fn gateway(&mut self, name: &Arc<str>, lines: &[Line]) {
        let mut state = GatewayState {
            name: name.clone(),
            state: ServedState::Current,
            generation: self.engine.lines.generation(name),
            envoys: EnvoyCounts::default(),
            acknowledged: None,
            deviations: Deviations::default(),
            settled: true,
            untranslated: BTreeMap::new(),
            oldest: None,
            object: lines.first().and_then(|line| self.gateway_object(line)),
            closed: BTreeSet::new(),
            unrecovered: BTreeSet::new(),
        };
        if lines.is_empty() {
            (state.state, state.settled) = (ServedState::Unverified, false);
        }
        for line in speaking(lines) {
            state.state = state.state.max(line.state());
            state.settled &= line.is_settled();
            let counts = line.envoys();
            state.envoys.acknowledged += counts.acknowledged;
            state.envoys.refused += counts.refused;
            state.envoys.pending += counts.pending;
            state.deviations.held |= line.state() == ServedState::Held;
            self.broken(line);
            let closed = self.engine.translator.closed_hosts(&line.fleet);
            state.closed.extend(closed.into_iter().map(|(key, ..)| self.identity(key, None)));
            self.backends(line);
            self.steps(line, &mut state);
            state.deviations.broken.extend(line.derived.broken.keys().map(|node| node.key.clone()));
            state.deviations.broken.extend(line.held().into_iter().map(|(key, _)| key));
        }
        self.gateways.push(state);
    }

    fn broken(&mut self, line: &Line) {
        let mut findings: BTreeMap<&ObjectKey, Vec<(u8, &Node, &Broken)>> = BTreeMap::new();
        for (node, broken) in &line.derived.broken {
            findings.entry(&node.key).or_default().push((firmness(broken.detected), node, broken));
        }
        for (key, mut found) in findings {
            found.sort_by_key(|(firmness, node, _)| (*firmness, *node));
            let Some(((_, first_node, first), others)) = found.split_first() else { continue };
            let message_of =
                |node: &Node, broken: &Broken| without_field(&line.message_of(broken), &field(node, broken)).to_owned();
            let mut message = message_of(first_node, first);
            for (_, node, other) in others.iter().filter(|(_, _, other)| other.message != first.message) {
                message.push_str(&format!("; {}: {}", field(node, other), message_of(node, other)));
            }
            self.note(line, key, first.detected, field(first_node, first), message);
        }
        for (key, refusal) in line.held() {
            if line.derived.broken.keys().any(|node| node.key == key) {
                continue;
            }
            let detected = if &*refusal.node == "probe" { Detected::Probe } else { Detected::Nack };
            let field = if refusal.kind == ResourceType::Listener { "spec.listeners" } else { "" };
            let message = format!("{} {}: {}", refusal.kind.short_name(), refusal.resource, refusal.explained());
            self.note(line, &key, detected, field.to_owned(), message);
        }
    }

    /// Adds Backends that cannot be used. Translation answers their requests with status 500, so no plan contains them.
    fn backends(&mut self, line: &Line) {
        let engine = self.engine;
        for (key, why) in engine.translator.unusable_backends_of(&line.gateway) {
            if !line.derived.broken.keys().any(|node| node.key == *key) {
                let (field, message) = policies::parted(why);
                self.note(line, key, Detected::Translation, field, message);
            }
        }
    }

    /// Adds the finding of one scope about an object; of several findings about one object, the firmest is reported.
    fn note(&mut self, line: &Line, key: &ObjectKey, detected: Detected, field: String, message: String) {
        let since = Moment(line.since.get(key).copied().unwrap_or_else(|| self.engine.now()));
        let fresh = BrokenObject {
            object: self.identity(key, Some(line)),
            generation: self.generation(key),
            detected_by: detected,
            field,
            message,
            gateways: BTreeSet::from([line.name.clone()]),
            since,
        };
        match self.broken.get_mut(key) {
            None => {
                self.broken.insert(key.clone(), fresh);
            }
            Some(known) => {
                let gateways = std::mem::take(&mut known.gateways);
                let since = known.since.min(fresh.since);
                if firmness(detected) < firmness(known.detected_by) {
                    *known = fresh;
                }
                known.since = since;
                known.gateways.extend(gateways);
                known.gateways.insert(line.name.clone());
            }
        }
    }

    fn steps(&mut self, line: &Line, state: &mut GatewayState) {
        let deviations = &mut state.deviations;
        for (node, decision) in &line.derived.plan.decisions {
            let causing_objects: BTreeSet<String> = decision.causes.iter().map(ToString::to_string).collect();
            let object = self.identity(&node.key, Some(line));
            if decision.step == Step::Backfilled {
                let Some((served_generation, since)) = line.derived.served.get(&node.key).copied() else { continue };
                deviations.steps.insert(node.clone(), (Step::Backfilled, served_generation));
                state.oldest = state.oldest.into_iter().chain([Moment(since)]).min();
                let served = self.engine.translator.served_share(&line.fleet, &node.key);
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
                });
                known.causing_objects.extend(causing_objects);
                known.served_since = known.served_since.min(Moment(since));
                continue;
            }
            // A hidden object is not served in any form.
            let is_hidden = line.derived.overlay.hidden.contains(&node.key);
            let plan = self.engine.translator.served_share(&line.fleet, &node.key).filter(|_| !is_hidden);
            let mut answers: Vec<(Arc<str>, u16, Scope)> = answers(node, plan.as_deref());
            if answers.is_empty() && plan.is_some() && self.engine.translator.is_closed_above(&line.fleet, &node.key) {
                answers.push(("".into(), self.engine.settings().closed_status, Scope::Object));
            }
            if node.key == line.gateway || &*node.key.kind == listener_set::KIND {
                answers = self.closed_listeners(line, node);
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
    fn closed_listeners(&self, line: &Line, wanted: &Node) -> Vec<(Arc<str>, u16, Scope)> {
        let translator = &self.engine.translator;
        let (Some(plan), Some(levels)) = (translator.gateway(&line.gateway), translator.served_levels(&line.fleet))
        else {
            return Vec::new();
        };
        let closed = plan.listeners.iter().filter_map(|listener| {
            let unit = listener.unit(&line.gateway);
            let is_meant = unit.key == wanted.key && (wanted.section.is_empty() || wanted.section == unit.section);
            let closed = levels.closing(listener).filter(|_| is_meant)?;
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
        };
        self.excluded.entry(node.clone()).or_insert_with(fresh).causing_objects.extend(causing_objects);
    }

    /// Adds objects that cannot be read at all and have no earlier version in any scope: their places are unknown.
    fn unreadable(&mut self) {
        for (key, since, fault) in self.engine.unreadable() {
            if self.broken.contains_key(key) {
                continue;
            }
            let object = self.identity(key, None);
            let broken = BrokenObject {
                object: object.clone(),
                generation: None,
                detected_by: Detected::Translation,
                field: fault.map(|fault| fault.field.clone()).unwrap_or_default(),
                message: fault.map_or_else(|| "its content cannot be read".into(), |fault| fault.message.clone()),
                gateways: BTreeSet::new(),
                since: Moment(since),
            };
            self.broken.insert(key.clone(), broken);
            // Objects that other objects depend on are served in the version that was read last.
            if self.engine.objects().get(key).is_none() {
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
    fn gateway_object(&self, line: &Line) -> Option<Identity> {
        self.engine.objects().get(&line.gateway)?;
        Some(self.identity(&line.gateway, Some(line)))
    }

    fn identity(&self, key: &ObjectKey, line: Option<&Line>) -> Identity {
        identity(self.engine, key, line)
    }
}

/// Returns the identity of an object; for a deleted object, as far as `line` has its last valid version.
pub(crate) fn identity(engine: &Engine, key: &ObjectKey, line: Option<&Line>) -> Identity {
    let desired = engine.objects().get(key).map(|object| object.metadata.uid.clone());
    let stored = || line?.last_valid.of(key, None).next().map(|version| version.object.metadata.uid.clone());
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

/// Returns the direct responses that are served instead of a closed node; empty if the node is left out.
fn answers(node: &Node, plan: Option<&RoutePlan>) -> Vec<(Arc<str>, u16, Scope)> {
    let replaced = plan.into_iter().flat_map(|plan| &plan.replaced);
    let own = replaced.filter(|replaced| node.section.is_empty() || *node.section == *replaced.section);
    let responses = own.filter_map(|replaced| Some((replaced.section.as_str(), replaced.response?)));
    responses.map(|(section, response)| (section.into(), response, scope(section))).collect()
}

/// Returns the sections of a plan that are not served as written, with the reasons.
fn untranslated(plan: &RoutePlan) -> String {
    let replaced = plan.replaced.iter().map(|replaced| format!("{}: {}", replaced.section, replaced.message));
    replaced.collect::<Vec<_>>().join("; ")
}

/// Returns the scope of a section within its object.
pub(crate) fn scope(section: &str) -> Scope {
    match section {
        "" => Scope::Object,
        section if section.starts_with("listeners") => Scope::Listener,
        section if section.starts_with("hostnames") => Scope::Hostname,
        section if section.starts_with("includes") => Scope::Include,
        "virtualhost" | "tcpproxy" => Scope::Host,
        section if section.starts_with("rules") || section.starts_with("routes") => Scope::Rule,
        // A field of a policy.
        _ => Scope::Object,
    }
}

/// Returns the field of a finding; for a verdict about the object as a whole, the unit in which the fault appears.
pub(crate) fn field(node: &Node, broken: &Broken) -> String {
    if broken.field.is_empty() && !node.section.is_empty() {
        format!("spec.{}", node.section)
    } else {
        broken.field.to_string()
    }
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
pub(crate) mod tests;
