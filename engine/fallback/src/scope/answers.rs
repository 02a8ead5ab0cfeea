//! Answers of the Envoys of the fleet: what an ACK proves, and how a NACK is processed. `blame.rs` attributes NACKs to
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_envoy::inspect::clusters::shape;
use holdfast_graph::{Content, Detected, Node, ObjectKey};
use holdfast_xds::{Answer, Outcome, Resource, ResourceType, Version};

use super::FallbackScope;
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::attribution::{blame, untried_at};
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::promotion::PromotionInputs;
use crate::evidence::subject::owners;
use crate::rollout::configurations::Configurations;
use crate::rollout::{Stage, Waiting};

impl FallbackScope {
    /// Processes an answer of an Envoy of the fleet.
    pub fn answered(&mut self, answer: &Answer, inputs: &mut StepInputs<'_>) {
        if self.members.answered(&answer.node, inputs.now_ms)
            && let Some(readmission) = &mut self.trials.readmission
        {
            readmission.unpark(u64::MAX);
        }
        if answer.kind == ResourceType::Route && answer.outcome == Outcome::Acknowledged {
            self.stage.canary_connected(&answer.node, true);
            if self.members.filled(&answer.node) {
                let next = self.start_trial(inputs);
                self.settle(next, inputs);
            }
        }
        for (name, version) in &answer.resources {
            let Some(version) = *version else { continue };
            let next = match &answer.outcome {
                Outcome::Acknowledged => self.acknowledge(answer, name, version, inputs),
                Outcome::Refused { message } => self.refuse(answer, name, version, message, inputs),
            };
            self.settle(next, inputs);
        }
        if answer.outcome == Outcome::Acknowledged && self.trials.waits_since_ms.is_some() {
            let next = self.start_trial(inputs);
            self.settle(next, inputs);
        }
        if matches!(answer.kind, ResourceType::Cluster | ResourceType::Listener) {
            // Objects may have waited for clusters or listeners that are acknowledged now.
            let waiting = self.evidence.promotion.unpromoted.clone();
            self.promote(&waiting, inputs);
        }
    }

    fn acknowledge(&mut self, answer: &Answer, name: &Arc<str>, version: Version, inputs: &mut StepInputs<'_>) -> Next {
        let mut next = Next::Nothing;
        let everyone = self.configurations.everyone.as_ref();
        self.members.came_back(&answer.node, (answer.kind, name), version, everyone);
        self.pardon_what_a_second_witness_takes(answer, name, version);
        self.hold.unavailable.taken(&answer.node, &(answer.kind, name.clone()), version);
        if answer.kind == ResourceType::Cluster {
            self.evidence.proof.prove_cluster(version);
        }
        if self.hold.acknowledge((answer.kind, name.clone()), version) {
            self.learn(answer.kind, name, version, inputs);
        }
        if inputs.follows {
            self.accepted_for_the_leader(answer, name, version);
        }
        if self.hold.refusal_of(answer.kind, name, version).is_some() {
            // Envoy acknowledges the repeat of a refused certificate without accepting it.
            return next;
        }
        if matches!(answer.kind, ResourceType::Listener | ResourceType::Route)
            && let Some(resource) = self.offered_as(answer.kind, name, version)
        {
            self.members.accepted(&answer.node, answer.kind, &resource);
            self.evidence.note_accepted_by(&answer.node, answer.kind, &resource);
        }
        if let Some(trial) = &mut self.trials.current
            && *trial.node == *answer.node
            && !inputs.follows
        {
            let slot = (answer.kind, name.clone());
            if trial.waiting.get(&slot) == Some(&version) {
                trial.waiting.remove(&slot);
            }
            if trial.waiting.is_empty() {
                next = self.trial_accepted(inputs);
            }
        }
        if self.stage.canary_acknowledged(&answer.node, answer.kind, name, version) {
            self.stage = Stage::Settled;
            next = next.and(Next::Advance);
        }
        next
    }

    /// Returns a resource in a version that Envoys are or were offered.
    fn offered_as(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> Option<Arc<Resource>> {
        let Configurations { everyone, previous, wanted, .. } = &self.configurations;
        let snapshots = everyone.iter().chain([previous, wanted]).chain(self.trials.snapshot());
        let known = snapshots.filter_map(|snapshot| snapshot.get(kind, name)).chain(self.hold.acknowledged(kind, name));
        known.into_iter().find(|resource| resource.version == version).cloned()
    }

    /// Records what the first acknowledgement of a form proves.
    fn learn(&mut self, kind: ResourceType, name: &Arc<str>, version: Version, inputs: &StepInputs<'_>) {
        let mut proven = BTreeSet::new();
        match kind {
            ResourceType::Route => {
                self.records.note_acknowledged();
                proven = self.evidence.prove(name, version);
            }
            ResourceType::Endpoints => {}
            ResourceType::Secret => {
                self.records.note_acknowledged();
                // The acknowledged certificate may be a stand-in version.
                let desired = inputs.translator.certificates(&self.id.gateway);
                let acknowledged = Content(*version.as_bytes());
                let proven = desired.into_iter().filter(|(_, content)| *content == acknowledged).map(|(key, _)| key);
                self.promote_all(&proven.collect::<Vec<_>>(), inputs);
            }
            ResourceType::Listener => {
                self.records.note_acknowledged();
                if let Some(body) = self.hold.acknowledged(kind, name).map(|resource| resource.body.clone()) {
                    for content in self.evidence.listener_forms.proven_by(name, version, &body) {
                        self.evidence.proof.prove(content);
                    }
                }
                let proven = self.promotion_inputs(inputs).proven_anchors();
                self.promote_all(&proven, inputs);
            }
            ResourceType::Cluster => {
                self.records.note_acknowledged();
                if let Some(resource) = self.hold.acknowledged(kind, name) {
                    self.evidence.proof.prove(shape(&resource.body));
                    self.evidence.proof.prove(Content(*version.as_bytes()));
                }
            }
        }
        self.promote(&proven, inputs);
    }

    /// Promotes those of the objects that have all parts acknowledged: their current version becomes last valid.
    pub(super) fn promote(&mut self, keys: &BTreeSet<ObjectKey>, inputs: &StepInputs<'_>) {
        let is_broken = |key: &ObjectKey| self.derived.broken.contains_key(&Node::whole(key.clone()));
        for (key, proven) in self.promotion_inputs(inputs).proven(keys, is_broken) {
            self.evidence.promotion.unpromoted.remove(&key);
            self.promote_all(&proven, inputs);
        }
    }

    fn promote_all(&mut self, keys: &[ObjectKey], inputs: &StepInputs<'_>) {
        for key in keys {
            self.evidence.promote(&self.id, key, inputs).into_iter().for_each(|change| self.records.record(change));
        }
    }

    fn promotion_inputs<'a, 'b>(&'a self, inputs: &'a StepInputs<'b>) -> PromotionInputs<'a, 'b> {
        PromotionInputs {
            gateway: &self.id.gateway,
            unpromoted: &self.evidence.promotion.unpromoted,
            proof: &self.evidence.proof,
            hold: &self.hold,
            plan: &self.derived.plan,
            wanted: &self.configurations.wanted,
            inputs,
        }
    }

    fn refuse(
        &mut self,
        answer: &Answer,
        name: &Arc<str>,
        version: Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        if let Some(next) = self.refused_by_host(answer, name, version, message, inputs) {
            return next;
        }
        let on_trial = self.trials.current.as_ref().is_some_and(|trial| {
            *trial.node == *answer.node && trial.waiting.get(&(answer.kind, name.clone())) == Some(&version)
        });
        if on_trial {
            self.hold.refuse(answer, name, version, message);
            if inputs.follows {
                self.end_what_is_tried();
                return Next::Nothing;
            }
            let owners = owners(self.trials.testing());
            self.fairness.budget.refused(&owners, inputs.now_ms);
            return self.trial_refused(Some((answer.kind, name, version)), message, inputs);
        }
        let others = self.members.has_any_but_outliers();
        // If the other Envoys are disconnected, the refusal is accepted after a delay and not at once.
        let was_outlier = self.members.is_outlier(&answer.node) && (others || self.may_believe_outliers(inputs));
        if was_outlier
            || self.hold.was_acknowledged(answer.kind, name, version)
            || self.evidence.proof.was_tried(&version)
            || untried_at::is_accepted_by_others_only(self, &answer.node, answer.kind, name, version)
        {
            // Other Envoys of its build accept the resource: the problem is local to this Envoy.
            // It keeps its configuration, and no object is convicted.
            let slot = (answer.kind, name.clone());
            let Configurations { everyone, previous, .. } = &self.configurations;
            let last = self.members.as_accepted(&answer.node, previous, everyone.as_ref());
            self.members.keeps(&answer.node, slot, version, message, &last);
            self.members.count_refusal(&answer.node, inputs.now_ms);
            // The older configuration that the Envoy keeps may lack a current guard or current endpoints.
            self.close_in_outliers(inputs);
            self.configurations.keep_served_endpoints(&self.id.fleet, &self.members, self.trials.snapshot(), inputs);
            return Next::Nothing;
        }
        if !self.hold.refuse(answer, name, version, message) {
            return Next::Nothing;
        }
        if inputs.follows {
            // The resource is held at its acknowledged form until the leader has decided.
            return Next::Replan;
        }
        let subjects = blame::subjects_of(&SuspectInputs::of(self), answer.kind, name, version, inputs);
        self.fairness.budget.refused(&owners(&subjects), inputs.now_ms);
        if answer.kind == ResourceType::Secret {
            self.convict_certificate(name, version, Detected::Nack, message, inputs);
            self.stage = Stage::Settled;
            return Next::Replan;
        }
        self.blame(answer.kind, name, version, message, inputs)
    }

    /// Handles the loss of an Envoy, or its silence after the deadline, during an offer that only this Envoy received.
    pub fn lost(&mut self, node: &str, message: &str, inputs: &mut StepInputs<'_>) {
        if inputs.follows {
            return self.settle(Next::Advance, inputs);
        }
        if let Some(next) = self.trial_lost(node, message, inputs) {
            return self.settle(next, inputs);
        }
        let waiting = match &self.stage {
            Stage::Canary { waiting, .. } => waiting.clone(),
            _ => Waiting::new(),
        };
        if !self.stage.canary_lost(node, self.members.others_answer(node)) {
            if self.stage.has_struck_out(node) && !self.members.others_answer(node) {
                let is_there = self.members.is_connected(node);
                let next = self.suspect_unanswered(&waiting, is_there, inputs);
                return self.settle(next, inputs);
            }
            return self.settle(Next::Advance, inputs);
        }
        // The loss is attributed to the type that is sent first: no resource that names it was sent yet.
        let others: Waiting = waiting.into_iter().filter(|((kind, _), _)| *kind != ResourceType::Secret).collect();
        let first = others.keys().next().map(|(kind, _)| *kind);
        for ((kind, name), version) in others.into_iter().filter(|((kind, _), _)| Some(*kind) == first) {
            self.hold.refuse_version(kind, &name, version, &self.id.build.clone(), message);
            let next = self.blame(kind, &name, version, message, inputs);
            self.settle(next, inputs);
        }
    }
}
