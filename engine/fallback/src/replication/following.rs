//! State of a scope at a follower: a follower convicts and promotes nothing. Its plan is the same pure function of what
//! the leader has shared. Content that is not known to be good waits for the leader. Endpoints are current during the
//! wait, and everything that must no longer be served is closed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use holdfast_envoy::inspect::clusters::shape;
use holdfast_graph::{Content, Detected, Node};
use holdfast_store::Change;
use holdfast_store::shards::{Offer, OnTrial};
use holdfast_xds::{Answer, Resource, ResourceType, Snapshot, Version};

use crate::attribution::admission::{Purpose, TrialRun, Tried};
use crate::attribution::readmission::Readmission;
use crate::attribution::verdicts::edited;
use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::LastValid;
use crate::evidence::subject::Subject;
use crate::evidence::suspects;
use crate::persistence::restored::{RestoredScope, restore_version};
use crate::persistence::restored_version::RestoredVersion;
use crate::rollout::{Stage, TRIED, Waiting};
use crate::scope::FallbackScope;

/// The state of a scope that the leader has shared, as far as it is needed after it was applied.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The resources that the leader's Envoys acknowledged.
    pub(crate) snapshot: Snapshot,
    /// The resources that the leader offers to all Envoys and that no Envoy has acknowledged.
    offers: HashSet<Offer>,
    /// The trial that the leader requests from this replica.
    trial: Option<OnTrial>,
    /// Whether the shared state is newer than what this replica's Envoys were offered last.
    is_new: bool,
}

/// Returns the number of a type in an offer.
pub(crate) fn number(kind: ResourceType) -> u8 {
    let at = ResourceType::ALL.iter().position(|known| *known == kind).unwrap_or(usize::MAX);
    u8::try_from(at).unwrap_or(u8::MAX)
}

/// Returns the type with this number.
pub(super) fn kind_of(number: u8) -> Option<ResourceType> {
    ResourceType::ALL.get(usize::from(number)).copied()
}

/// Returns the identity of a resource in an offer. Clusters that differ only in their names have the same identity.
fn offer(kind: ResourceType, resource: &Resource) -> Offer {
    let content = match kind {
        ResourceType::Cluster => shape(&resource.body).0,
        _ => *resource.version.as_bytes(),
    };
    Offer { kind: number(kind), content }
}

impl Shared {
    fn offers(&self, kind: ResourceType, resource: &Resource) -> bool {
        !self.offers.is_empty() && self.offers.contains(&offer(kind, resource))
    }

    /// Checks whether every Envoy of the leader has its offered configuration. Certificates are always listed as
    /// offers.
    fn is_settled(&self) -> bool {
        let secret = number(ResourceType::Secret);
        !self.snapshot.of(ResourceType::Listener).is_empty() && self.offers.iter().all(|offer| offer.kind == secret)
    }
}

impl FallbackScope {
    /// Replaces the known state with what the leader has shared.
    pub fn take_in(&mut self, learned: Option<&RestoredScope>, inputs: &StepInputs<'_>) {
        self.verdicts.clear();
        let mut last_valid = LastValid::default();
        let is_there = |version: &RestoredVersion| {
            let here = inputs.objects.get(version.key());
            here.is_some_and(|here| *here.metadata.uid == *version.uid()) || inputs.unusable.contains(version.key())
        };
        let versions = learned.into_iter().flat_map(|learned| &learned.versions).filter(|version| is_there(version));
        versions.for_each(|version| restore_version(version, &mut last_valid, inputs));
        self.evidence.last_valid = last_valid;
        for (content, verdict) in learned.into_iter().flat_map(|learned| &learned.verdicts) {
            if !self.restore_refused(content, verdict) {
                self.verdicts.restore(*content, verdict.clone());
            }
        }
        let Some(learned) = learned else {
            self.shared = Shared::default();
            return;
        };
        for kind in ResourceType::ALL {
            for resource in learned.snapshot.of(kind).values() {
                self.hold.learn(kind, resource);
                if self.shared.snapshot.get(kind, &resource.name) != Some(resource) {
                    self.evidence.proof.prove_restored(kind, resource);
                }
            }
        }
        let (offers, trial) = (learned.offers.all.iter().copied().collect(), learned.offers.trial.clone());
        self.shared = Shared { snapshot: learned.snapshot.clone(), offers, trial, is_new: true };
        let (last_valid, objects) = (&self.evidence.last_valid, inputs.objects);
        self.evidence.promotion.unpromoted.retain(|key| {
            let newest = last_valid.of(key, None).next();
            !objects.get(key).is_some_and(|object| newest.is_some_and(|newest| newest.object.body == object.body))
        });
    }

    /// Advances the rollout of the wanted configuration as far as the leader has; returns whether all Envoys may be
    /// offered it.
    pub(crate) fn follow(&mut self, inputs: &StepInputs<'_>) -> bool {
        let waits = self.configurations.unproven(&self.evidence, &self.hold).into_keys().any(|(kind, name)| {
            self.configurations.wanted.get(kind, &name).is_none_or(|resource| !self.is_shared(kind, resource))
        });
        if !waits {
            self.shared.is_new = false;
            return true;
        }
        self.configurations.begin_to_try(&self.evidence.forms, inputs.now_ms);
        self.stage = Stage::Following;
        let is_first =
            self.configurations.everyone.is_none() && !self.shared.snapshot.of(ResourceType::Listener).is_empty();
        if std::mem::take(&mut self.shared.is_new) && (is_first || self.shared.is_settled()) {
            self.take_what_the_leader_has();
        }
        false
    }

    /// Prepares the trial that the leader requests on one Envoy of this replica.
    pub(crate) fn try_for_the_leader(&mut self, inputs: &mut StepInputs<'_>) {
        let before = self.trials.current.take();
        let there = |trial: &&OnTrial| self.members.is_connected(&trial.node);
        let Some(OnTrial { node, contents, apart }) = self.shared.trial.as_ref().filter(there).cloned() else {
            if before.is_some() {
                inputs.translator.close(&self.id.trial_fleet());
            }
            self.trials.accepted.clear();
            return;
        };
        let contents = contents.into_iter().map(Content).collect();
        let tried = Tried { contents, apart: apart.into_iter().collect() };
        let purpose = Purpose::Leader { before: before.map(|before| before.waiting) };
        self.prepare_trial(node, tried, purpose, inputs);
    }

    /// Begins the trial that the leader requests. `before`: the resources that the Envoy had not answered in the trial
    /// before this one.
    pub(crate) fn begin_trial_for_the_leader(&mut self, trial: TrialRun, before: Option<Waiting>) {
        let waiting = &trial.waiting;
        // The leader requests a trial of content that an Envoy of another replica refused.
        for (slot, version) in waiting {
            if self.hold.refusal_of(slot.0, &slot.1, *version).is_some_and(|refusal| refusal.is_learned()) {
                self.hold.pardon(slot, *version);
            }
        }
        if before.is_none_or(|before| before != *waiting) {
            self.hold.expect(&trial.snapshot, waiting);
        }
        self.trials.accepted.retain(|slot, version| waiting.get(slot) == Some(version));
        // Another Envoy may have refused the content before: this one is the second.
        let is_refused = waiting.iter().any(|((kind, name), version)| {
            self.hold.refusal_of(*kind, name, *version).is_some_and(|refusal| refusal.is_by(&trial.node))
        });
        self.trials.current = Some(trial);
        if is_refused {
            self.end_what_is_tried();
        }
    }

    /// Records that the Envoy of a trial for the leader accepts a resource on trial.
    pub(crate) fn accepted_for_the_leader(&mut self, answer: &Answer, name: &Arc<str>, version: Version) {
        let slot = (answer.kind, name.clone());
        let is_awaited = self
            .trials
            .current
            .as_ref()
            .is_some_and(|trial| *trial.node == *answer.node && trial.waiting.get(&slot) == Some(&version));
        // Envoy acknowledges the repeat of a refused certificate without accepting it.
        let refusal = self.hold.refusal_of(answer.kind, name, version);
        if is_awaited && !refusal.is_some_and(|refusal| refusal.is_by(&answer.node)) {
            self.trials.accepted.insert(slot, version);
        }
    }

    /// Ends a refused trial for the leader: the Envoy gets the same configuration as all others again.
    pub(crate) fn end_what_is_tried(&mut self) {
        if let (Some(trial), Some(everyone)) = (&mut self.trials.current, &self.configurations.everyone) {
            trial.snapshot = everyone.clone();
        }
    }

    /// Returns the trial that is requested from an Envoy of another replica.
    pub(crate) fn remote_trial(&self) -> Option<OnTrial> {
        let trial = self.trials.current.as_ref().filter(|trial| self.members.is_remote(&trial.node))?;
        Some(OnTrial {
            node: trial.node.clone(),
            contents: trial.contents.iter().map(|content| content.0).collect(),
            apart: trial.apart.iter().cloned().collect(),
        })
    }

    /// Checks whether the leader offers a resource to all Envoys, or whether all its parts are proven.
    fn is_shared(&self, kind: ResourceType, resource: &Resource) -> bool {
        if self.shared.offers(kind, resource) {
            return true;
        }
        let form = self.evidence.forms.of(&resource.name, &resource.version).filter(|_| kind == ResourceType::Route);
        form.is_some_and(|form| {
            form.policy_settings.iter().all(|setting| self.evidence.proof.is_known_good(&setting.content()))
                && suspects::all_known_good(None, &form.composition, &self.evidence.proof)
        })
    }

    /// Replaces the configuration of this replica's Envoys with the newer one of the leader's Envoys, while the wanted
    /// configuration of this replica is not known to be good. What must no longer be served is closed in it, as in
    /// every configuration that waits.
    fn take_what_the_leader_has(&mut self) {
        let mut snapshot = self.shared.snapshot.clone();
        // Sensitive resources may not have been shared, but this replica can read them itself.
        for name in self.configurations.wanted.of(ResourceType::Secret).keys().cloned().collect::<Vec<_>>() {
            if snapshot.get(ResourceType::Secret, &name).is_some() {
                continue;
            }
            let wanted = self.configurations.wanted.get(ResourceType::Secret, &name);
            let offered = wanted.filter(|secret| self.shared.offers(ResourceType::Secret, secret));
            let had =
                || self.configurations.everyone.as_ref().and_then(|everyone| everyone.get(ResourceType::Secret, &name));
            if let Some(secret) = offered.or_else(had).cloned() {
                snapshot.insert(ResourceType::Secret, secret);
            }
        }
        for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
            // Clusters and endpoints are removed only when everything is as wanted.
            for resource in self.configurations.everyone.iter().flat_map(|everyone| everyone.of(kind).values()) {
                if snapshot.get(kind, &resource.name).is_none() {
                    snapshot.insert(kind, resource.clone());
                }
            }
        }
        if let Some(before) = self.configurations.everyone.replace(snapshot) {
            self.configurations.previous = before;
        }
    }

    /// Returns what is offered to all Envoys and not acknowledged yet, for followers.
    pub(crate) fn offered_to_all(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        for (kind, resource) in TRIED.into_iter().flat_map(|kind| {
            self.configurations
                .everyone
                .iter()
                .flat_map(move |everyone| everyone.of(kind).values().map(move |known| (kind, known)))
        }) {
            // The content of certificates may be known to this replica only.
            if kind == ResourceType::Secret || !self.hold.is_acknowledged(kind, resource) {
                offers.push(offer(kind, resource));
            }
        }
        offers.sort_unstable();
        offers.dedup();
        offers
    }

    /// Makes this replica a follower: every search and trial ends.
    pub(crate) fn step_down(&mut self, inputs: &mut StepInputs<'_>) {
        self.searches.current = None;
        self.trials.drop_all();
        self.stage = Stage::Settled;
        self.searches.durations.end(inputs.now_ms);
        self.members.disconnect_remote();
    }

    /// Makes this replica the leader, with all state that it has.
    pub(crate) fn step_up(&mut self, inputs: &mut StepInputs<'_>) {
        self.stage = Stage::Settled;
        self.searches.edited();
        self.records.note_acknowledged();
        let mut suspects: BTreeMap<Node, Subject> = BTreeMap::new();
        for (content, verdict) in
            self.verdicts.quarantine.iter().filter(|(_, verdict)| verdict.detected == Detected::Suspected)
        {
            let by_object = inputs.settings.fallback.use_last_valid;
            let unit = if by_object { Node::whole(verdict.node.key.clone()) } else { verdict.node.clone() };
            let fresh = || Subject { node: unit.clone(), contents: BTreeMap::new() };
            let subject = suspects.entry(unit.clone()).or_insert_with(fresh);
            subject.contents.insert(content, verdict.node.clone());
        }
        if !suspects.is_empty() {
            let mut readmission = Readmission::default();
            readmission.add(suspects.into_values().collect());
            self.trials.readmission = Some(readmission);
        }
        edited(self, &inputs.translator.route_keys(), inputs.translator);
    }

    /// Removes the stored versions of objects that were deleted while another replica was the leader.
    pub(crate) fn forget_what_went(&mut self, learned: &RestoredScope, inputs: &StepInputs<'_>) {
        for version in &learned.versions {
            let key = version.key();
            if inputs.objects.get(key).is_none() && !inputs.unusable.contains(key) {
                self.records.record(Change::Forget(key.clone()));
            }
        }
    }
}
