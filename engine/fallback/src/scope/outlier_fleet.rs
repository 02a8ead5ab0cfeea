//! Fleets of outliers: every connected Envoy refuses content that other Envoys of its build accepted, and those have
//! disconnected.
//!
//! An example is a rollout of Envoys of the same build with other runtime flags. Acknowledgements of disconnected
//! Envoys prove nothing about the connected ones. After the answer timeout without another Envoy, the outliers are the
//! fleet: only their configuration counts as acknowledged, and the search for the object at fault begins as after any
//! refusal. If an Envoy that accepts the content connects later, it is the second witness, and the verdict becomes
//! void.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::{Resource, ResourceType, Version};

use super::FallbackScope;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::proof::Proof;
use crate::members::Outlier;
use crate::rollout::Stage;

/// Content that outliers refused, each version with the node of one of them.
type Refused = BTreeMap<(ResourceType, Arc<str>), BTreeMap<Version, Arc<str>>>;

impl FallbackScope {
    /// Ends the time in which a fleet of outliers waits for an Envoy that accepts the content they refuse; returns what
    /// follows if the time has ended.
    pub(crate) fn watch_outliers(&mut self, inputs: &StepInputs<'_>) -> Option<Next> {
        let (may_believe, patience) = (self.may_believe_outliers(inputs), inputs.settings.fallback.ack_timeout_ms);
        let is_over = self.members.wait_for_another(may_believe, inputs.now_ms, patience);
        is_over.then(|| self.believe_outliers())
    }

    /// Checks whether the refusals of a fleet of outliers may be accepted. With a probe they may not: the probe accepts
    /// the refused content, and is a witness.
    pub(crate) fn may_believe_outliers(&self, inputs: &StepInputs<'_>) -> bool {
        inputs.settings.fallback.isolate && !self.is_probed(inputs)
    }

    fn believe_outliers(&mut self) -> Next {
        let outliers = self.members.take_outliers();
        let everyone = self.configurations.everyone.clone().unwrap_or_default();
        let first = outliers.values().next();
        let served = first.and_then(|outlier| outlier.offered(&everyone)).unwrap_or(everyone);
        // It is unknown which routes Envoys have that have accepted none since they connected.
        let knows_routes = outliers.keys().any(|node| self.members.has_accepted_routes(node));
        let mut refused = Refused::new();
        for (node, outlier) in &outliers {
            for (slot, version) in outlier.refused() {
                refused.entry(slot.clone()).or_default().insert(*version, node.clone());
            }
        }
        self.end_trial();
        self.stage = Stage::Settled;
        for (slot, versions) in &refused {
            let (kind, name) = slot;
            let is_kept = |kept: &Resource| {
                !versions.contains_key(&kept.version) && (*kind != ResourceType::Route || knows_routes)
            };
            let kept = served.get(*kind, name).filter(|kept| is_kept(kept)).cloned();
            if *kind == ResourceType::Route {
                match kept.as_ref().and_then(|kept| self.evidence.forms.of(name, &kept.version)).cloned() {
                    Some(form) => drop(self.evidence.forms.acknowledged.insert(name.clone(), form)),
                    None => drop(self.evidence.forms.acknowledged.remove(name)),
                }
            }
            self.hold.replace_acknowledged(slot, kept);
            for (version, node) in versions {
                let message = outliers.get(node).map_or("", Outlier::message);
                self.hold.refuse_by(node, &self.id.build.clone(), slot, *version, message);
            }
        }
        self.records.note_acknowledged();
        self.configurations.everyone = Some(served);
        self.evidence.proof = Proof::default();
        let acknowledged: Vec<_> =
            self.hold.all_acknowledged().map(|(kind, resource)| (kind, resource.clone())).collect();
        acknowledged.iter().for_each(|(kind, resource)| self.evidence.proof.prove_restored(*kind, resource));
        for (kind, resource) in &acknowledged {
            outliers.keys().for_each(|node| self.evidence.note_accepted_by(node, *kind, resource));
        }
        self.members.believe_outliers();
        self.searches.edited();
        Next::Replan
    }
}
