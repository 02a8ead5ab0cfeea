//! Search on the probe: unproven resources are tried as a whole. The parts of a refused resource are tried alone; parts
//! that are accepted alone and refused together are searched in pairs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::refusal::{self, RefusalClass};
use holdfast_graph::Detected;
use holdfast_xds::{ResourceType, Version};

use super::accused::Accused;
use super::clusters::Known;
use super::together::Together;
use super::{accused, chains, clusters, together, trials};
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::context::trial::{Outcome, Trial, Tried};
use crate::evidence::subject::Subject;
use crate::rollout::{Stage, Waiting, next};
use crate::scope::FallbackScope;

/// Limit of parts of one refused resource that are tried alone; beyond the limit, only the first ones by object are
/// tried.
pub(crate) const SUSPECTS_MAX: usize = 4096;
/// Milliseconds without an answer of the probe after which a search on it ends.
pub(crate) const PROBE_SILENT_MS_MAX: u64 = 120_000;
/// Milliseconds for which a silent probe is not used, and the pause after an interrupted search on the probe.
pub(crate) const PROBE_PAUSE_MS: u64 = 60_000;
/// The message for content without an answer.
pub const SILENCE: &str = "Envoy exited or stopped answering after it received this configuration";

/// A search on the probe.
#[derive(Debug, Default)]
pub struct Search {
    expected: BTreeMap<u64, Expected>,
    refused: Vec<(ResourceType, Arc<str>, Version, String)>,
    culprits: usize,
    /// Policies and filters that were refused together with chains, each with the message. They are convicted if no
    /// chain is refused alone.
    doubtful: Vec<(Subject, String)>,
    together: Option<Together>,
    rounds: u32,
    /// Whether a part was left without an answer.
    is_cut_short: bool,
}

/// The subject of a trial.
#[derive(Clone, Debug)]
enum Expected {
    Whole(ResourceType, Arc<str>, Version),
    Part(Subject),
    /// A setting of a policy, or a filter, in chains that may be at fault themselves.
    Brought(Subject),
    Together,
}

impl Expected {
    /// Returns the type of the tried resource, as far as it is known: the resource of a part may be a listener.
    fn kind(&self) -> ResourceType {
        match self {
            Expected::Whole(kind, ..) => *kind,
            Expected::Part(_) | Expected::Brought(_) | Expected::Together => ResourceType::Listener,
        }
    }
}

impl Search {
    /// Creates a search for a resource that is known to be refused.
    pub(super) fn of_what_is_known() -> Self {
        Self { rounds: 1, ..Self::default() }
    }

    /// Records that a resource as a whole is on the probe.
    pub(crate) fn expect_whole(&mut self, id: u64, kind: ResourceType, name: Arc<str>, version: Version) {
        self.expected.insert(id, Expected::Whole(kind, name, version));
    }

    /// Checks whether this trial belongs to the search.
    pub fn expects(&self, id: u64) -> bool {
        self.expected.contains_key(&id)
    }

    fn try_part(
        &mut self,
        subject: Subject,
        kind: ResourceType,
        name: Arc<str>,
        body: Bytes,
        inputs: &mut StepInputs<'_>,
    ) {
        let id = next(inputs);
        inputs.trials.push(Trial { id, kind, name, body });
        self.expected.insert(id, Expected::Part(subject));
    }

    /// Starts a trial of a policy setting or of a filter. `doubtful`: whether its chains may be at fault themselves.
    fn try_brought(
        &mut self,
        subject: Subject,
        doubtful: bool,
        name: Arc<str>,
        body: Bytes,
        inputs: &mut StepInputs<'_>,
    ) {
        let id = next(inputs);
        inputs.trials.push(Trial { id, kind: ResourceType::Listener, name, body });
        self.expected.insert(id, if doubtful { Expected::Brought(subject) } else { Expected::Part(subject) });
    }

    /// Starts a trial of parts together.
    pub(super) fn try_together(
        &mut self,
        kind: ResourceType,
        name: Arc<str>,
        body: Bytes,
        inputs: &mut StepInputs<'_>,
    ) {
        let id = next(inputs);
        inputs.trials.push(Trial { id, kind, name, body });
        self.expected.insert(id, Expected::Together);
    }
}

/// Returns the stage of a configuration that is on the probe, with the deadline for the next answer of the probe.
pub(super) fn on_probe(now_ms: u64) -> Stage {
    Stage::Probing { until_ms: now_ms.saturating_add(PROBE_SILENT_MS_MAX) }
}

impl FallbackScope {
    /// Checks whether there is a probe of the same build.
    pub fn is_probed(&self, inputs: &StepInputs<'_>) -> bool {
        let is_same = |build: &Arc<str>| self.id.build.is_empty() || **build == *self.id.build;
        inputs.probe.is_some_and(is_same) && !self.searches.is_probe_paused(inputs.now_ms)
    }

    /// Restarts the deadline for the next answer of the probe, if the configuration is on the probe.
    fn wait_for_probe(&mut self, now_ms: u64) {
        if self.stage.is_on_probe() {
            self.stage = on_probe(now_ms);
        }
    }

    /// Sends the unproven resources to the probe, each as a whole.
    pub(crate) fn probe(&mut self, unproven: &Waiting, inputs: &mut StepInputs<'_>) {
        let mut search = Search::default();
        for ((kind, name), version) in unproven {
            let Some(resource) = self.configurations.wanted.get(*kind, name).cloned() else { continue };
            let id = next(inputs);
            inputs.trials.push(Trial { id, kind: *kind, name: name.clone(), body: resource.body.clone() });
            search.expect_whole(id, *kind, name.clone(), *version);
        }
        self.searches.current = Some(search);
        self.stage = on_probe(inputs.now_ms);
    }

    /// Processes an answer of the probe.
    pub fn tried(&mut self, tried: &Tried, inputs: &mut StepInputs<'_>) -> Next {
        let Some(mut search) = self.searches.current.take() else { return Next::Nothing };
        self.wait_for_probe(inputs.now_ms);
        let Some(expected) = search.expected.remove(&tried.id) else {
            self.searches.current = Some(search);
            return Next::Nothing;
        };
        // A round of the search among parts together has no other effect than the next round; all other answers may
        // close routes.
        if !matches!(expected, Expected::Together) {
            self.meanwhile.repeat();
        }
        let kind = expected.kind();
        let refused = match &tried.outcome {
            Outcome::Accepted => None,
            // A refusal for a reason of the probe's host proves nothing either.
            Outcome::Refused { message } if refusal::class(kind, message) != RefusalClass::Content => None,
            Outcome::Refused { message } => Some(message.clone()),
            Outcome::Silent => Some(SILENCE.to_owned()),
            // An unavailable probe proves nothing; the Envoys of the fleet will answer.
            Outcome::Unavailable => None,
        };
        let accepted = tried.outcome == Outcome::Accepted;
        let judged = accepted || refused.is_some();
        match (expected, refused) {
            (Expected::Whole(kind, name, version), None) => {
                if accepted {
                    self.evidence.proof.note_tried_version(version);
                    let body =
                        SuspectInputs::of(self).form_of(kind, &name, version).map(|resource| resource.body.clone());
                    self.evidence.note_tried(kind, &name, version, body.as_ref());
                } else {
                    self.evidence.proof.note_unjudged(version);
                }
            }
            (Expected::Whole(ResourceType::Cluster, name, version), Some(message)) => {
                let resource = SuspectInputs::of(self).form_of(ResourceType::Cluster, &name, version);
                let alike = resource.map(|resource| self.configurations.alike(resource));
                for (name, version) in alike.unwrap_or_else(|| vec![(name, version)]) {
                    search.refused.push((ResourceType::Cluster, name, version, message.clone()));
                }
            }
            (Expected::Whole(kind, name, version), Some(message)) => {
                search.refused.push((kind, name, version, message))
            }
            (Expected::Part(subject), Some(message)) => {
                search.culprits += 1;
                self.convict_subject(&subject, Detected::Probe, &message, inputs);
            }
            (Expected::Brought(subject), Some(message)) => search.doubtful.push((subject, message)),
            (Expected::Part(subject), None) if accepted => self.fairness.cleared(&subject),
            (Expected::Part(..) | Expected::Brought(..), None) => search.is_cut_short |= !judged,
            (Expected::Together, None) if !judged => search.is_cut_short = true,
            (Expected::Together, refused) => {
                if let Some(together) = &mut search.together {
                    if refused.is_some() { together.refused() } else { together.accepted() }
                }
            }
        }
        self.search_on(search, inputs)
    }

    /// Continues the search after all expected answers have arrived.
    pub(super) fn search_on(&mut self, mut search: Search, inputs: &mut StepInputs<'_>) -> Next {
        if !search.expected.is_empty() {
            self.searches.current = Some(search);
            return Next::Nothing;
        }
        if search.is_cut_short {
            // The remaining subjects may or may not be at fault: they are searched later, or when the probe changes.
            self.searches.search_later(inputs.now_ms);
            return self.searched(inputs);
        }
        let doubtful = std::mem::take(&mut search.doubtful);
        if search.culprits == 0 {
            for (subject, message) in doubtful {
                search.culprits += 1;
                self.convict_subject(&subject, Detected::Probe, &message, inputs);
            }
        }
        if let Some(together) = search.together.take() {
            if let Some(together) = self.try_on(together, &mut search, inputs) {
                self.searches.durations.round();
                search.together = Some(together);
                self.searches.current = Some(search);
                return Next::Nothing;
            }
            return self.searched(inputs);
        }
        let refused = std::mem::take(&mut search.refused);
        if refused.is_empty() {
            if search.culprits == 0
                && search.rounds > 0
                && let Some(together) = together::together(&SuspectInputs::of(self), inputs)
            {
                search.together = Some(together);
                return self.search_on(search, inputs);
            }
            return self.searched(inputs);
        }
        search.rounds += 1;
        for (kind, name, version, message) in refused {
            self.look_into(&mut search, kind, &name, version, &message, inputs);
        }
        self.search_on(search, inputs)
    }

    /// Handles a resource that the probe refused: its parts are tried alone.
    pub(super) fn look_into(
        &mut self,
        search: &mut Search,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) {
        self.hold.refuse_version(kind, name, version, &self.id.build.clone(), message);
        self.searches.durations.begin(inputs.now_ms);
        if kind == ResourceType::Secret {
            search.culprits += 1;
            return self.convict_certificate(name, version, Detected::Probe, message, inputs);
        }
        if kind != ResourceType::Route {
            self.remember_refused(kind, name, version, inputs);
        }
        if !inputs.settings.fallback.isolate && kind != ResourceType::Route {
            search.culprits += 1;
            return self.hold_as_a_whole(inputs);
        }
        self.searches.durations.round();
        match kind {
            ResourceType::Cluster => self.look_into_cluster(search, name, message, inputs),
            ResourceType::Listener => self.look_into_listener(search, name, version, message, inputs),
            _ => self.look_into_routes(search, name, &version, message, inputs),
        }
    }

    /// Tries each policy and each part that changed alone.
    fn look_into_routes(
        &mut self,
        search: &mut Search,
        name: &Arc<str>,
        version: &Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) {
        let Some(Accused { policies, additions, parts, context }) =
            accused::accused(&SuspectInputs::of(self), name, version, true)
        else {
            return;
        };
        if let ([only], true) = (&policies[..], parts.is_empty()) {
            search.culprits += 1;
            return self.convict_subject(only, Detected::Probe, message, inputs);
        }
        for Subject { node, contents } in policies.into_iter().take(SUSPECTS_MAX) {
            for content in contents.into_keys() {
                let plan = || accused::plan(&node.key, &self.derived.overlay, inputs);
                let added = additions.get(&content).map(|addition| addition.trial());
                let rendered = added.or_else(|| plan()?.trial(&node.key, &content));
                let Some(rendered) = rendered else { continue };
                let subject = Subject { node: node.clone(), contents: BTreeMap::from([(content, node.clone())]) };
                let (name, body) = (rendered.route.name.clone(), trials::alone(&rendered, context));
                search.try_part(subject, ResourceType::Route, name, body, inputs);
            }
        }
        let parts = parts.into_iter().flat_map(|(node, parts)| {
            parts.into_iter().map(move |(content, suspect)| (node.clone(), content, suspect))
        });
        for (node, content, suspect) in parts.take(SUSPECTS_MAX) {
            let subject = Subject { node: node.clone(), contents: BTreeMap::from([(content, node)]) };
            let name = suspect.rendered.route.name.clone();
            search.try_part(
                subject,
                ResourceType::Route,
                name,
                trials::alone(&accused::part_alone(&SuspectInputs::of(self), &suspect.rendered), context),
                inputs,
            );
        }
    }

    /// Tries each changed object with the other ones in their earlier versions.
    fn look_into_cluster(&mut self, search: &mut Search, name: &Arc<str>, message: &str, inputs: &mut StepInputs<'_>) {
        let suspects = clusters::cluster_suspects(&SuspectInputs::of(self), name, inputs);
        if let [only] = &suspects[..] {
            search.culprits += 1;
            return self.convict_subject(only, Detected::Probe, message, inputs);
        }
        for subject in suspects.iter().take(SUSPECTS_MAX) {
            match clusters::known_with(&SuspectInputs::of(self), name, std::slice::from_ref(subject), &suspects, inputs)
            {
                Known::Good => {}
                Known::Refused => {
                    search.culprits += 1;
                    self.convict_subject(subject, Detected::Probe, message, inputs);
                }
                Known::Nothing(bodies) => {
                    for body in bodies {
                        search.try_part(subject.clone(), ResourceType::Cluster, name.clone(), body, inputs);
                    }
                }
            }
        }
    }

    /// Tries each changed filter chain alone, without the filters and policy settings that no Envoy has accepted. Each
    /// such filter or policy setting is tried in all chains. A refusal of such a trial can be the fault of one of the
    /// chains, if that chain changed too.
    fn look_into_listener(
        &mut self,
        search: &mut Search,
        name: &Arc<str>,
        version: Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) {
        let suspects = chains::chain_suspects(&SuspectInputs::of(self), name, version, inputs);
        if let [only] = &suspects[..] {
            search.culprits += 1;
            return self.convict_subject(only, Detected::Probe, message, inputs);
        }
        let (chains, brought): (Vec<_>, Vec<_>) = suspects.iter().cloned().partition(chains::is_chain);
        for subject in suspects.iter().take(SUSPECTS_MAX) {
            let these = std::slice::from_ref(subject);
            if brought.contains(subject) {
                let Some(body) =
                    chains::listener_with(&SuspectInputs::of(self), name, version, these, &brought, inputs)
                else {
                    continue;
                };
                search.try_brought(subject.clone(), !chains.is_empty(), name.clone(), body, inputs);
            } else {
                let Some(body) =
                    chains::listener_with(&SuspectInputs::of(self), name, version, these, &suspects, inputs)
                else {
                    continue;
                };
                search.try_part(subject.clone(), ResourceType::Listener, name.clone(), body, inputs);
            }
        }
    }

    /// Ends the search: the current verdicts are put into force.
    fn searched(&mut self, inputs: &StepInputs<'_>) -> Next {
        self.searches.current = None;
        self.stage = Stage::Settled;
        self.fairness.searched(inputs.now_ms);
        Next::Replan
    }
}
