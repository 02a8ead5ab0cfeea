//! Attribution of refusals in the fleet: the suspects are the parts that changed since the build last acknowledged the
//! resource.
//!
//! Without a probe, suspects are readmitted by halving, on one Envoy of the fleet. With a probe, the search runs on the
//! probe.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node, Verdict};
use holdfast_translate::fleet::FleetId;
use holdfast_translate::overlay::{Closing, Manner, Overlay};
use holdfast_xds::{ResourceType, Version};

use super::chains;
use super::clusters;
use super::readmission::Readmission;
use super::search::{Search, on_probe};
use super::suspect_inputs::SuspectInputs;
use super::{accepted_versions, accused, untried_at};
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::evidence::suspects::Suspects;
use crate::rollout::Stage;
use crate::scope::FallbackScope;

/// Resource types with refusals that need a search for the object at fault. A certificate comes from one object.
pub(crate) const BLAMED: [ResourceType; 3] = [ResourceType::Cluster, ResourceType::Listener, ResourceType::Route];

impl FallbackScope {
    /// Handles a resource that was refused in the fleet: the suspects go back to their last valid versions, and are
    /// readmitted by trials.
    pub fn blame(
        &mut self,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        let subjects = subjects_of(&SuspectInputs::of(self), kind, name, version, inputs);
        let (subjects, are_others_left) = match kind {
            ResourceType::Listener => chains::suspected_first(subjects, inputs),
            _ => (subjects, false),
        };
        let message = accused::with_policies(&SuspectInputs::of(self), message, kind, name, version, &subjects, inputs);
        let message = message.as_str();
        self.stage = Stage::Settled;
        self.remember_refused(kind, name, version, inputs);
        if accepted_versions::forget_unaccepted(self, (kind, name, version), inputs) {
            return Next::Replan;
        }
        if !inputs.settings.fallback.isolate {
            self.hold_as_a_whole(inputs);
            // A late answer is about a form that is no longer desired: the desired one has not been tried.
            let snapshot = inputs.translator.snapshot(&self.id.fleet);
            let desired = snapshot.and_then(|snapshot| snapshot.get(kind, name));
            self.whole.changed |= self.whole.held && desired.is_none_or(|desired| desired.version != version);
        } else if self.searches.may_fall_back() && !self.is_explained(kind, name, version, &subjects) {
            self.searches.durations.begin(inputs.now_ms);
            match &subjects[..] {
                [only] if !are_others_left && !untried_at::is_doubtful(self, (kind, name, version), only, inputs) => {
                    let refuser = self.refuser(kind, name, version);
                    self.convict_subject(only, Detected::Nack, message, inputs);
                    self.note_refuser(only.clone(), refuser, inputs);
                }
                [] => {}
                _ => {
                    self.suspect(&subjects, inputs);
                    // A search in progress continues: stand-ins for its suspects may be refused as well.
                    self.trials.readmission.get_or_insert_default().add(subjects);
                }
            }
        }
        Next::Replan
    }

    /// Checks whether an answer is a late one about a form that is no longer wanted, with a content that was convicted
    /// after the form was sent.
    fn is_explained(&self, kind: ResourceType, name: &str, version: Version, subjects: &[Subject]) -> bool {
        let is_firm = |verdict: &Verdict| verdict.detected != Detected::Suspected && verdict.witnesses.is_empty();
        let is_convicted = |content: &Content| self.verdicts.quarantine.get(content).is_some_and(is_firm);
        self.configurations.wanted.get(kind, name).is_none_or(|wanted| wanted.version != version)
            && subjects.iter().flat_map(|subject| subject.contents.keys()).any(is_convicted)
    }

    /// Removes subjects that were edited since their refusal from the search, and clears suspicions that no trial is
    /// going to test.
    pub(crate) fn drop_suspicions(&mut self, inputs: &StepInputs<'_>) {
        if let Some(readmission) = &mut self.trials.readmission {
            let (fleet, overlay) = (&self.id.fleet, &self.derived.overlay);
            readmission.retain(|subject| is_made(fleet, subject, overlay, inputs));
            if readmission.testing().is_none() && !self.trials.is_second() {
                self.end_trial();
            }
        }
        self.drop_void_second_trial(inputs);
        let suspected = self.verdicts.quarantine.iter().filter(|(_, verdict)| verdict.detected == Detected::Suspected);
        let tried = self.trials.readmission.as_ref().map(Readmission::contents).unwrap_or_default();
        let dropped: Vec<Content> =
            suspected.map(|(content, _)| content).filter(|content| !tried.contains(content)).collect();
        for content in dropped {
            self.acquit(&content);
        }
    }

    /// Searches for the object at fault if the wanted configuration is known to be refused and no verdict explains
    /// this. The refused content is not sent again. Returns what follows if a search was started.
    pub(crate) fn blame_what_is_known(&mut self, inputs: &mut StepInputs<'_>) -> Option<Next> {
        if !inputs.settings.fallback.isolate || self.trials.readmission.is_some() || self.searches.current.is_some() {
            return None;
        }
        let snapshot = inputs.translator.snapshot(&self.id.fleet).cloned()?;
        self.configurations.newest = snapshot.clone();
        self.evidence.note_forms(&self.hold, &self.id.fleet.clone(), &snapshot, inputs.translator);
        let refused = BLAMED.into_iter().flat_map(|kind| snapshot.of(kind).values().map(move |known| (kind, known)));
        let unexplained = refused.filter_map(|(kind, resource)| {
            let refusal = self.hold.refusal_of(kind, &resource.name, resource.version)?;
            let unexplained = !self.searches.has_blamed(&resource.version)
                && !subjects_of(&SuspectInputs::of(self), kind, &resource.name, resource.version, inputs).is_empty();
            unexplained.then(|| (kind, resource.name.clone(), resource.version, refusal.message.clone()))
        });
        let (kind, name, version, message) = unexplained.into_iter().next()?;
        if !self.searches.note_blamed(version) {
            return None;
        }
        if self.is_probed(inputs) {
            let mut search = Search::of_what_is_known();
            self.look_into(&mut search, kind, &name, version, &message, inputs);
            self.stage = on_probe(inputs.now_ms);
            return Some(self.search_on(search, inputs));
        }
        Some(self.blame(kind, &name, version, &message, inputs))
    }
}

/// Returns the suspects of a refused resource, in the groups that are served or closed together.
pub(crate) fn subjects_of(
    state: &SuspectInputs<'_>,
    kind: ResourceType,
    name: &Arc<str>,
    version: Version,
    inputs: &StepInputs<'_>,
) -> Vec<Subject> {
    match kind {
        ResourceType::Route => {
            let by_object = inputs.settings.fallback.use_last_valid;
            let subjects = accused::accused_subjects(state, name, &version, by_object, inputs);
            // If one object with several units is the only suspect, the search is among its units.
            if let [only] = &subjects[..] { only.units() } else { subjects }
        }
        ResourceType::Cluster => clusters::cluster_suspects(state, name, inputs),
        ResourceType::Listener => chains::chain_suspects(state, name, version, inputs),
        ResourceType::Endpoints | ResourceType::Secret => Vec::new(),
    }
}

/// Checks whether the suspected content is desired, or is served instead of desired content. Other suspects are not
/// tried.
pub(super) fn is_made(fleet: &FleetId, subject: &Subject, overlay: &Overlay, inputs: &StepInputs<'_>) -> bool {
    let key = &subject.node.key;
    let gateway = &fleet.gateway;
    let plan = inputs.translator.route(key);
    let desired = plan.map(|plan| inputs.translator.contents_under_any_levels(fleet, plan)).unwrap_or_default();
    let made = inputs.translator.contents_under(fleet, key, overlay, inputs.objects);
    desired.iter().chain(&made).any(|(content, _)| subject.contents.contains_key(content))
        || is_replacement(fleet, subject, inputs)
        || clusters::is_made(gateway, subject, overlay, inputs)
        || chains::is_desired(gateway, subject, inputs)
        || accused::has_suspected_setting(subject, overlay, inputs)
}

/// Checks whether the subject is a direct response that may replace a desired unit.
pub(super) fn is_replacement(fleet: &FleetId, subject: &Subject, inputs: &StepInputs<'_>) -> bool {
    subject.contents.iter().any(|(content, node)| {
        [Manner::AsWritten, Manner::Narrowed].into_iter().any(|how| {
            let closed = BTreeMap::from([(node.section.clone(), Closing { how, message: "".into() })]);
            let over = Overlay { closed: BTreeMap::from([(node.key.clone(), closed)]), ..Overlay::default() };
            let plan = inputs.translator.try_route(&node.key, &over, inputs.objects);
            plan.is_some_and(|plan| {
                let made = inputs.translator.contents_under_any_levels(fleet, &plan);
                made.iter().any(|(made, of)| made == content && of == node)
            })
        })
    })
}

/// Groups suspects into the subjects that are served or closed together.
pub(crate) fn subjects(suspects: Suspects, by_object: bool) -> Vec<Subject> {
    let mut subjects: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
    for (node, parts) in suspects {
        let unit = if by_object { Node::whole(node.key.clone()) } else { node.clone() };
        subjects.entry(unit).or_default().extend(parts.into_keys().map(|content| (content, node.clone())));
    }
    subjects.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
}
