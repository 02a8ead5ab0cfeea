//! Whom to blame for what the fleet refused: the parts that changed since the build last acknowledged the resource.
//!
//! Without a probe they are taken back in by halving, on one Envoy of the fleet; with one the search is on the probe.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_xds::{ResourceType, Version};

use super::ROUNDS_MAX;
use super::accused;
use super::around::Around;
use super::chains;
use super::clusters;
use super::line::Line;
use super::readmission::{Readmission, Subject};
use super::rollout::Stage;
use super::search::Search;
use super::suspects::{self, Suspects};
use crate::features::redirect::ListenerContext;
use crate::translate::overlay::{Closing, Manner, Overlay};

/// Types of which it is asked who is at fault where one is refused; a certificate is one object's.
pub(super) const BLAMED: [ResourceType; 3] = [ResourceType::Cluster, ResourceType::Listener, ResourceType::Route];

impl Line {
    /// Who can be at fault for a version of a route configuration.
    pub(super) fn suspects(&self, name: &str, version: &Version) -> Option<(Suspects, ListenerContext)> {
        let form = self.form(name, version)?;
        let before = self.acknowledged(name).map(|form| &form.composition);
        Some((suspects::changed(before, &form.composition, &self.proof), form.context))
    }

    /// Who can be at fault for a refused resource, as they are taken in or left out together.
    pub(super) fn subjects(
        &self,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        around: &Around<'_>,
    ) -> Vec<Subject> {
        match kind {
            ResourceType::Route => {
                let by_object = around.settings.fallback.use_last_valid;
                let subjects = self.accused_subjects(name, &version, by_object);
                // Of an object with several units it is asked which of them.
                if let [only] = &subjects[..] { only.units() } else { subjects }
            }
            ResourceType::Cluster => self.cluster_suspects(name, around),
            ResourceType::Listener => self.chain_suspects(name, version, around),
            ResourceType::Endpoints | ResourceType::Secret => Vec::new(),
        }
    }

    /// A resource was refused in the fleet: who can be at fault goes back to last valid, and is taken in again.
    pub(crate) fn blame(
        &mut self,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        message: &str,
        around: &mut Around<'_>,
    ) {
        let subjects = self.subjects(kind, name, version, around);
        let (subjects, are_others_left) = match kind {
            ResourceType::Listener => Self::suspected_first(subjects, around),
            _ => (subjects, false),
        };
        let message = self.with_policies(message, kind, name, version, &subjects, around);
        let message = message.as_str();
        self.stage = Stage::Settled;
        self.remember_refused(kind, name, version, around);
        if !around.settings.fallback.isolate {
            self.hold_as_a_whole(around);
        } else if self.rounds <= ROUNDS_MAX && !self.is_explained(kind, name, version, &subjects) {
            self.attribution.begin(around.now_ms);
            match &subjects[..] {
                [only] if !are_others_left => {
                    let refuser = self.refuser(kind, name, version);
                    self.convict_subject(only, Detected::Nack, message, around);
                    self.note_refuser(only.clone(), refuser, around);
                }
                [] => {}
                _ => {
                    self.suspect(&subjects, around);
                    // A search that is under way goes on: what stands in for its suspects may be refused as well.
                    self.readmission.get_or_insert_default().add(subjects);
                }
            }
        }
        self.settle(around);
    }

    /// Is it a late answer about a form that is not wanted any more, with a content that was convicted meanwhile?
    fn is_explained(&self, kind: ResourceType, name: &str, version: Version, subjects: &[Subject]) -> bool {
        let is_firm = |verdict: &Verdict| verdict.detected != Detected::Suspected && verdict.witnesses.is_empty();
        let is_convicted = |content: &Content| self.quarantine.get(content).is_some_and(is_firm);
        self.wanted.get(kind, name).is_none_or(|wanted| wanted.version != version)
            && subjects.iter().flat_map(|subject| subject.contents.keys()).any(is_convicted)
    }

    /// A refusal with the names of the policies that may be behind it, where only routes are suspected of it: what a policy
    /// says cannot be tried apart from a route that is new as well.
    pub(super) fn with_policies(
        &self,
        message: &str,
        kind: ResourceType,
        name: &str,
        version: Version,
        subjects: &[Subject],
        around: &Around<'_>,
    ) -> String {
        let is_policy = |subject: &Subject| around.translator.policy(&subject.node.key).is_some();
        if kind != ResourceType::Route || subjects.iter().any(is_policy) {
            return message.to_owned();
        }
        match self.unheard(name, &version) {
            Some(policies) => format!("{message} (with what {policies} says, which is new as well)"),
            None => message.to_owned(),
        }
    }

    /// Who was edited meanwhile is not tried again, and nobody stays suspected whom nobody is going to try.
    pub(crate) fn drop_suspicions(&mut self, around: &Around<'_>) {
        if let Some(readmission) = &mut self.readmission {
            let (gateway, overlay) = (&self.gateway, &self.derived.overlay);
            readmission.retain(|subject| is_made(gateway, subject, overlay, around));
            if readmission.testing().is_none() && !self.is_at_second_witness() {
                self.end_trial();
            }
        }
        self.drop_void_second_trial(around);
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
        self.newest = snapshot.clone();
        self.note_forms(&self.fleet.clone(), &snapshot, around.translator);
        let refused = BLAMED.into_iter().flat_map(|kind| snapshot.of(kind).values().map(move |known| (kind, known)));
        let unexplained = refused.filter_map(|(kind, resource)| {
            let refusal = self.hold.refusal_of(kind, &resource.name, resource.version)?;
            let unexplained = !self.blamed.contains(&resource.version)
                && !self.subjects(kind, &resource.name, resource.version, around).is_empty();
            unexplained.then(|| (kind, resource.name.clone(), resource.version, refusal.message.clone()))
        });
        let Some((kind, name, version, message)) = unexplained.into_iter().next() else { return false };
        if self.rounds > ROUNDS_MAX || !self.blamed.insert(version) {
            return false;
        }
        if self.is_probed(around) {
            let mut search = Search::of_what_is_known();
            self.look_into(&mut search, kind, &name, version, &message, around);
            self.stage = Stage::Probing;
            self.wait_for_probe(around.now_ms);
            self.search_on(search, around);
        } else {
            self.blame(kind, &name, version, &message, around);
        }
        true
    }
}

/// Is a suspect desired as it is suspected, or made to be served instead of what is desired? Anything else is not tried.
pub(super) fn is_made(gateway: &ObjectKey, subject: &Subject, overlay: &Overlay, around: &Around<'_>) -> bool {
    let key = &subject.node.key;
    let plan = around.translator.route(key);
    let desired = plan.map(|plan| around.translator.contents(gateway, plan)).unwrap_or_default();
    let made = around.translator.contents_under(gateway, key, overlay, around.objects);
    desired.iter().chain(&made).any(|(content, _)| subject.contents.contains_key(content))
        || stands_in(gateway, subject, around)
        || clusters::is_made(gateway, subject, overlay, around)
        || chains::is_desired(gateway, subject, around)
        || accused::is_said(subject, overlay, around)
}

/// Is it an answer that may stand in for a unit that is desired?
pub(super) fn stands_in(gateway: &ObjectKey, subject: &Subject, around: &Around<'_>) -> bool {
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
pub(super) fn subjects(suspects: Suspects, by_object: bool) -> Vec<Subject> {
    let mut subjects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
    for (node, parts) in suspects {
        let whose = if by_object { Node::whole(node.key.clone()) } else { node.clone() };
        subjects.entry(whose).or_default().extend(parts.into_keys().map(|content| (content, node.clone())));
    }
    subjects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
}
