//! Whom to blame: from an Envoy's refusal, or the probe's, to a verdict about content.
//!
//! Suspects are the parts that changed since the build last acknowledged the resource. On the probe each is tried alone,
//! then together; without a probe they are taken back in by halving, on one Envoy of the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_store::{Change, StoredVerdict};
use holdfast_xds::{Answer, Outcome, ResourceType, Version};

use super::ROUNDS_MAX;
use super::interaction::{Found, Interaction, in_order};
use super::line::{Around, Line};
use super::readmission::{Finding, Readmission, Subject};
use super::rollout::{Stage, Waiting, next};
use super::suspects::{self, Suspects};
use super::trials::{self, Item};
use crate::translate::overlay::{Closing, Manner, Overlay};
use crate::trial::{Outcome as TrialOutcome, Trial, Tried};

/// Parts of one refused resource that are tried alone, at most; of more the first by object.
pub(crate) const SUSPECTS_MAX: usize = 4096;
/// What is said of content that nobody answered to.
pub(crate) const SILENCE: &str = "Envoy died on it or fell silent";

/// What is under way on the probe.
#[derive(Debug, Default)]
pub(crate) struct Search {
    expected: BTreeMap<u64, Expected>,
    refused: Vec<(ResourceType, Arc<str>, Version, String)>,
    culprits: usize,
    interaction: Option<(Arc<str>, Version, Interaction)>,
    rounds: u32,
}

/// What a trial is about.
#[derive(Clone, Debug)]
enum Expected {
    Whole(ResourceType, Arc<str>, Version),
    Part(Node, Content),
    Together,
}

impl Search {
    /// A resource as a whole is on the probe.
    pub(crate) fn expect_whole(&mut self, id: u64, kind: ResourceType, name: Arc<str>, version: Version) {
        self.expected.insert(id, Expected::Whole(kind, name, version));
    }

    /// Is this trial one of ours?
    pub(crate) fn expects(&self, id: u64) -> bool {
        self.expected.contains_key(&id)
    }
}

impl Line {
    /// The probe has answered.
    pub(crate) fn tried(&mut self, tried: &Tried, around: &mut Around<'_>) {
        let Some(mut search) = self.search.take() else { return };
        let Some(expected) = search.expected.remove(&tried.id) else {
            self.search = Some(search);
            return;
        };
        let refused = match &tried.outcome {
            TrialOutcome::Accepted => None,
            TrialOutcome::Refused { message } => Some(message.clone()),
            TrialOutcome::Silent => Some(SILENCE.to_owned()),
            // Nothing is learnt; the Envoys of the fleet will tell.
            TrialOutcome::Unavailable => None,
        };
        let accepted = tried.outcome == TrialOutcome::Accepted;
        match (expected, refused) {
            (Expected::Whole(kind, name, version), None) => {
                self.proof.note_tried_version(version);
                if accepted {
                    self.note_tried(kind, &name, &version);
                }
            }
            (Expected::Whole(kind, name, version), Some(message)) => {
                search.refused.push((kind, name, version, message))
            }
            (Expected::Part(node, content), Some(message)) => {
                search.culprits += 1;
                self.convict(content, &node, Detected::Probe, &message, Vec::new(), around);
            }
            (Expected::Part(..), None) => {}
            (Expected::Together, refused) => {
                if let Some((_, _, interaction)) = &mut search.interaction {
                    if refused.is_some() { interaction.refused() } else { interaction.accepted() }
                }
            }
        }
        self.search_on(search, around);
    }

    /// Goes on where everything that was asked is answered.
    fn search_on(&mut self, mut search: Search, around: &mut Around<'_>) {
        if !search.expected.is_empty() {
            self.search = Some(search);
            return;
        }
        if let Some((name, version, mut interaction)) = search.interaction.take() {
            match interaction.next() {
                Some(Found::Try(items)) => {
                    let Some(context) = self.form(&name, &version).map(|form| form.context) else {
                        return self.searched(around);
                    };
                    let body = trials::together(items.iter(), context);
                    let id = next(around);
                    around.trials.push(Trial { id, kind: ResourceType::Route, name: name.clone(), body });
                    search.expected.insert(id, Expected::Together);
                    self.attribution.round();
                    search.interaction = Some((name, version, interaction));
                    self.search = Some(search);
                    return;
                }
                Some(Found::Blamed(culprit, witness)) => {
                    let message = match &witness {
                        Some(witness) => format!("refused together with {}", witness.rendered.route.key),
                        None => "refused together with what is served".to_owned(),
                    };
                    let witnesses = witness.iter().map(|witness| witness.content).collect();
                    let node = culprit.rendered.node();
                    self.convict(culprit.content, &node, Detected::Probe, &message, witnesses, around);
                }
                None => {}
            }
            return self.searched(around);
        }
        let refused = std::mem::take(&mut search.refused);
        if refused.is_empty() {
            if search.culprits == 0
                && search.rounds > 0
                && let Some(interaction) = self.together(around)
            {
                search.interaction = Some(interaction);
                return self.search_on(search, around);
            }
            return self.searched(around);
        }
        search.rounds += 1;
        for (kind, name, version, message) in refused {
            self.look_into(&mut search, kind, &name, version, &message, around);
        }
        self.search_on(search, around);
    }

    /// A resource was refused by the probe: its parts are tried alone.
    fn look_into(
        &mut self,
        search: &mut Search,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        message: &str,
        around: &mut Around<'_>,
    ) {
        self.hold.refuse_version(kind, name, version, &self.build.clone(), message);
        self.attribution.begin(around.now_ms);
        if kind != ResourceType::Route {
            search.culprits += 1;
            return self.convict_resource(kind, name, version, Detected::Probe, message, around);
        }
        let Some((suspects, context)) = self.suspects(name, &version) else { return };
        self.attribution.round();
        let parts = suspects.into_iter().flat_map(|(node, parts)| {
            parts.into_iter().map(move |(content, suspect)| (node.clone(), content, suspect))
        });
        for (node, content, suspect) in parts.take(SUSPECTS_MAX) {
            let id = next(around);
            let body = trials::alone(&suspect.rendered, context);
            around.trials.push(Trial { id, kind, name: suspect.rendered.route.name.clone(), body });
            search.expected.insert(id, Expected::Part(node, content));
        }
    }

    /// The search for parts that do not go together, of the first route configuration that the probe refuses whole.
    fn together(&self, _: &Around<'_>) -> Option<(Arc<str>, Version, Interaction)> {
        let routes = self.wanted_or_refused();
        routes.into_iter().find_map(|(name, version)| {
            let form = self.form(&name, &version)?;
            let nothing = suspects::Suspects::new();
            let changed = self.suspects(&name, &version).map_or(nothing, |(suspects, _)| suspects);
            let changed: BTreeSet<Content> = changed.values().flat_map(|parts| parts.keys().copied()).collect();
            let items = form.composition.iter().flat_map(|(host, parts)| {
                parts.iter().map(|(content, rendered)| Item {
                    host: host.clone(),
                    content: *content,
                    rendered: rendered.clone(),
                })
            });
            let (items, unchanged) = in_order(
                items,
                |item| changed.contains(&item.content),
                |item| (item.rendered.route.precedence.age.clone(), item.host.clone()),
            );
            Some((name, version, Interaction::new(items, unchanged)?))
        })
    }

    fn wanted_or_refused(&self) -> Vec<(Arc<str>, Version)> {
        self.hold.refused_now(ResourceType::Route)
    }

    /// The probe has told all that it can: what is known now is put into force.
    fn searched(&mut self, around: &mut Around<'_>) {
        self.search = None;
        self.stage = Stage::Settled;
        self.settle(around);
    }

    /// The probe took a resource as a whole.
    fn note_tried(&mut self, kind: ResourceType, name: &Arc<str>, version: &Version) {
        if kind != ResourceType::Route {
            return;
        }
        let Some((suspects, _)) = self.suspects(name, version) else { return };
        for content in suspects.values().flat_map(|parts| parts.keys()) {
            self.proof.note_tried(*content);
        }
    }

    /// Who can be at fault for a version of a route configuration.
    fn suspects(
        &self,
        name: &str,
        version: &Version,
    ) -> Option<(Suspects, crate::features::redirect::ListenerContext)> {
        let form = self.form(name, version)?;
        let before = self.acknowledged(name).map(|form| &form.composition);
        Some((suspects::changed(before, &form.composition, &self.proof), form.context))
    }

    /// An Envoy of the fleet has answered. True where the plan is to be derived anew.
    pub(crate) fn answered(&mut self, answer: &Answer, around: &mut Around<'_>) {
        self.silent.remove(&answer.node);
        if answer.kind == ResourceType::Route && answer.outcome == Outcome::Acknowledged {
            self.canary_filled(&answer.node);
            if self.fresh.remove(&answer.node) {
                self.start_trial(around);
            }
        }
        for (name, version) in &answer.resources {
            let Some(version) = *version else { continue };
            match &answer.outcome {
                Outcome::Acknowledged => self.acknowledge(answer, name, version, around),
                Outcome::Refused { message } => self.refuse(answer, name, version, message, around),
            }
        }
        if answer.kind == ResourceType::Cluster {
            self.promote_waiting(around);
        }
    }

    fn acknowledge(&mut self, answer: &Answer, name: &Arc<str>, version: Version, around: &mut Around<'_>) {
        self.came_back(&answer.node, answer.kind, name, version);
        if self.hold.acknowledge((answer.kind, name.clone()), version) {
            self.learn(answer.kind, name, version, around);
        }
        if self.hold.refusal_of(answer.kind, name, version).is_some() {
            // The repeat of a refused certificate is acknowledged without being taken.
            return;
        }
        if let Some(trial) = &mut self.trial
            && *trial.node == *answer.node
        {
            let slot = (answer.kind, name.clone());
            if trial.waiting.get(&slot) == Some(&version) {
                trial.waiting.remove(&slot);
            }
            if trial.waiting.is_empty() {
                self.trial_accepted(around);
            }
        }
        if self.canary_acknowledged(&answer.node, answer.kind, name, version) {
            self.stage = Stage::Settled;
            self.advance(around);
        }
    }

    /// A form was acknowledged for the first time: what does that prove?
    fn learn(&mut self, kind: ResourceType, name: &Arc<str>, version: Version, around: &Around<'_>) {
        let mut proven = BTreeSet::new();
        match kind {
            ResourceType::Route => proven = self.prove(name, version),
            ResourceType::Endpoints => {}
            ResourceType::Secret => {
                self.note_acknowledged();
                // What was acknowledged may be a version that stands in.
                let desired = around.translator.certificates(&self.gateway);
                let acknowledged = Content(*version.as_bytes());
                for (key, _) in desired.iter().filter(|(_, content)| **content == acknowledged) {
                    self.promote_one(key, around);
                }
            }
            ResourceType::Listener => {
                self.note_acknowledged();
                self.promote_anchors(around);
            }
            ResourceType::Cluster => self.note_acknowledged(),
        }
        self.promote(&proven, around);
    }

    fn refuse(&mut self, answer: &Answer, name: &Arc<str>, version: Version, message: &str, around: &mut Around<'_>) {
        let on_trial = self.trial.as_ref().is_some_and(|trial| {
            *trial.node == *answer.node && trial.waiting.get(&(answer.kind, name.clone())) == Some(&version)
        });
        if on_trial {
            self.hold.refuse(answer, name, version, message);
            return self.trial_refused(message, around);
        }
        let others = self.envoys.keys().any(|node| !self.alone.contains_key(node));
        let was_alone = self.alone.contains_key(&answer.node) && others;
        if was_alone || self.hold.was_acknowledged(answer.kind, name, version) || self.proof.was_tried(&version) {
            // Others of its build take it: its own trouble.
            return self.went_astray(&answer.node, (answer.kind, name.clone()), version, message);
        }
        if !self.hold.refuse(answer, name, version, message) {
            return;
        }
        if answer.kind != ResourceType::Route {
            self.convict_resource(answer.kind, name, version, Detected::Nack, message, around);
            self.stage = Stage::Settled;
            return self.settle(around);
        }
        self.blame(name, version, message, around);
    }

    /// A refused route configuration of the fleet: who can be at fault goes back to last valid, and is taken in again.
    pub(crate) fn blame(&mut self, name: &Arc<str>, version: Version, message: &str, around: &mut Around<'_>) {
        let suspects = self.suspects(name, &version).map_or_else(Suspects::new, |(suspects, _)| suspects);
        let backfilled = &self.derived.overlay.objects;
        let suspects = suspects::without_stand_ins(suspects, |key| backfilled.contains_key(key));
        self.stage = Stage::Settled;
        self.remember_refused(ResourceType::Route, name, version, around);
        if !around.settings.fallback.isolate {
            self.hold_as_a_whole(around);
        } else if self.rounds <= ROUNDS_MAX {
            self.attribution.begin(around.now_ms);
            let subjects = subjects(suspects, around.settings.fallback.use_last_valid);
            // Of an object with several units it is asked which of them.
            let subjects = if let [only] = &subjects[..] { only.units() } else { subjects };
            match &subjects[..] {
                [only] => self.convict_subject(only, message, around),
                [] => {}
                _ => {
                    for subject in &subjects {
                        for (content, node) in &subject.contents {
                            self.convict(*content, node, Detected::Suspected, message, Vec::new(), around);
                        }
                    }
                    // A search that is under way goes on: what stands in for its suspects may be refused as well.
                    self.readmission.get_or_insert_default().add(subjects);
                }
            }
        }
        self.settle(around);
    }

    /// Who was edited meanwhile is not tried again, and nobody stays suspected whom nobody is going to try.
    pub(crate) fn drop_suspicions(&mut self, around: &Around<'_>) {
        if let Some(readmission) = &mut self.readmission {
            let (gateway, overlay) = (&self.gateway, &self.derived.overlay);
            readmission.retain(|subject| {
                let key = &subject.node.key;
                let plan = around.translator.route(key);
                let desired = plan.map(|plan| around.translator.contents(gateway, plan)).unwrap_or_default();
                let made = around.translator.contents_under(gateway, key, overlay, around.objects);
                desired.iter().chain(&made).any(|(content, _)| subject.contents.contains_key(content))
                    || stands_in(gateway, subject, around)
            });
            if readmission.testing().is_none() {
                self.trial = None;
            }
        }
        let suspected = self.quarantine.iter().filter(|(_, verdict)| verdict.detected == Detected::Suspected);
        let tried = self.readmission.as_ref().map(Readmission::contents).unwrap_or_default();
        let dropped: Vec<Content> =
            suspected.map(|(content, _)| content).filter(|content| !tried.contains(content)).collect();
        for content in dropped {
            self.acquit(&content);
        }
    }

    /// What is wanted is known to be refused, and no verdict says why: the culprit is searched without sending it again.
    /// True where that is so.
    pub(crate) fn blame_what_is_known(&mut self, around: &mut Around<'_>) -> bool {
        if !around.settings.fallback.isolate || self.readmission.is_some() || self.search.is_some() {
            return false;
        }
        let Some(snapshot) = around.translator.snapshot(&self.fleet).cloned() else { return false };
        let known = |(name, resource): (&Arc<str>, &Arc<holdfast_xds::Resource>)| {
            let refusal = self.hold.refusal_of(ResourceType::Route, name, resource.version)?;
            Some((name.clone(), resource.version, refusal.message.clone()))
        };
        let Some((name, version, message)) = snapshot.of(ResourceType::Route).iter().find_map(known) else {
            return false;
        };
        self.note_forms(&self.fleet.clone(), &snapshot, around.translator);
        let explained = self.suspects(&name, &version).is_none_or(|(suspects, _)| suspects.is_empty());
        if explained || self.rounds > ROUNDS_MAX || !self.blamed.insert(version) {
            return false;
        }
        if self.is_probed(around) {
            let mut search = Search { rounds: 1, ..Search::default() };
            self.look_into(&mut search, ResourceType::Route, &name, version, &message, around);
            self.stage = Stage::Probing;
            self.search_on(search, around);
        } else {
            self.blame(&name, version, &message, around);
        }
        true
    }

    /// An Envoy is lost, or silent for too long, on what it was offered first.
    pub(crate) fn lost(&mut self, node: &str, message: &str, around: &mut Around<'_>) {
        if self.trial_lost(node, message, around) {
            return;
        }
        let waiting = match &self.stage {
            Stage::Canary { waiting, .. } => waiting.clone(),
            _ => Waiting::new(),
        };
        if !self.canary_lost(node) {
            return self.advance(around);
        }
        let routes = waiting.into_iter().filter(|((kind, _), _)| *kind == ResourceType::Route);
        for ((kind, name), version) in routes {
            self.hold.refuse_version(kind, &name, version, &self.build.clone(), message);
            self.blame(&name, version, message, around);
        }
    }

    /// The Envoy took the suspects that were on trial.
    pub(crate) fn trial_accepted(&mut self, around: &mut Around<'_>) {
        self.trial = None;
        self.trial_strikes = 0;
        let Some(readmission) = &mut self.readmission else { return };
        if let Finding::Cleared(subjects) = readmission.accepted() {
            for content in subjects.iter().flat_map(|subject| subject.contents.keys()) {
                self.acquit(content);
            }
        }
        self.settle(around);
    }

    /// The Envoy refused the suspects that were on trial.
    pub(crate) fn trial_refused(&mut self, message: &str, around: &mut Around<'_>) {
        self.trial = None;
        self.trial_strikes = 0;
        let Some(readmission) = &mut self.readmission else { return };
        if let Finding::Convicted(subject) = readmission.refused() {
            match subject.units() {
                units if units.len() > 1 => readmission.search_in(units),
                _ => self.convict_subject(&subject, message, around),
            }
        }
        self.settle(around);
    }

    fn convict_subject(&mut self, subject: &Subject, message: &str, around: &Around<'_>) {
        for (content, node) in &subject.contents {
            self.convict(*content, node, Detected::Nack, message, Vec::new(), around);
        }
    }

    /// A resource that is made of one object, and refused: the object is at fault.
    fn convict_resource(
        &mut self,
        kind: ResourceType,
        name: &str,
        version: Version,
        detected: Detected,
        message: &str,
        around: &Around<'_>,
    ) {
        if !around.settings.fallback.isolate {
            self.remember_refused(kind, &name.into(), version, around);
            return self.hold_as_a_whole(around);
        }
        if kind != ResourceType::Secret {
            // Held at what was acknowledged.
            return self.remember_refused(kind, &name.into(), version, around);
        }
        let origin = self.wanted.get(kind, name).and_then(|resource| resource.origins.iter().next().cloned());
        if let Some(key) = origin {
            self.convict(Content(*version.as_bytes()), &Node::whole(key), detected, message, Vec::new(), around);
        }
    }

    fn convict(
        &mut self,
        content: Content,
        node: &Node,
        detected: Detected,
        message: &str,
        witnesses: Vec<Content>,
        around: &Around<'_>,
    ) {
        let field = if node.section.is_empty() { String::new() } else { format!("spec.{}", node.section) };
        let verdict = Verdict {
            node: node.clone(),
            generation: generation(&node.key, around),
            detected,
            field: field.into(),
            message: message.into(),
            since: self.since.get(&node.key).copied().unwrap_or_else(|| around.now()),
            witnesses,
        };
        self.record(Change::Convict(self.scope(), stored(content, &verdict)));
        if detected != Detected::Suspected && self.counted.insert(node.key.clone()) {
            self.quarantine.note_refusal(&node.key, around.now_ms);
        }
        self.quarantine.convict(content, verdict);
    }

    fn acquit(&mut self, content: &Content) {
        self.quarantine.acquit(content);
        self.record(Change::Acquit(self.scope(), content.0));
    }
}

/// Is it an answer that may stand in for a unit that is desired?
fn stands_in(gateway: &ObjectKey, subject: &Subject, around: &Around<'_>) -> bool {
    subject.contents.iter().any(|(content, node)| {
        [Manner::AsWritten, Manner::Narrowed].into_iter().any(|how| {
            let closed = BTreeMap::from([(node.section.clone(), Closing { how, message: "".into() })]);
            let over = Overlay { closed: BTreeMap::from([(node.key.clone(), closed)]), ..Overlay::default() };
            let plan = around.translator.try_route(&node.key, &over, around.objects);
            plan.is_some_and(|plan| {
                around.translator.contents(gateway, &plan).iter().any(|(made, of)| made == content && of == node)
            })
        })
    })
}

/// Suspects as they are taken in or left out together.
fn subjects(suspects: Suspects, by_object: bool) -> Vec<Subject> {
    let mut subjects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
    for (node, parts) in suspects {
        let whose = if by_object { Node::whole(node.key.clone()) } else { node.clone() };
        subjects.entry(whose).or_default().extend(parts.into_keys().map(|content| (content, node.clone())));
    }
    subjects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
}

fn generation(key: &ObjectKey, around: &Around<'_>) -> i64 {
    around.objects.get(key).map_or(0, |object| object.metadata.generation)
}

fn stored(content: Content, verdict: &Verdict) -> StoredVerdict {
    StoredVerdict {
        content: content.0,
        key: verdict.node.key.clone(),
        section: verdict.node.section.clone(),
        generation: verdict.generation,
        detected_by: verdict.detected.to_string().into(),
        field: verdict.field.clone(),
        message: verdict.message.clone(),
        since: verdict.since,
        witnesses: verdict.witnesses.iter().map(|content| content.0).collect(),
    }
}
