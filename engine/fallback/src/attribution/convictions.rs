//! Verdicts: recorded by content, and stored before anything that depends on them is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::section;
use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_store::{Change, StoredVerdict};
use holdfast_xds::{ResourceType, Version};

use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::scope::FallbackScope;

/// The message of a suspicion. Envoy's answer is about one of all changed contents, and is attached to that content
/// only.
pub(super) const SUSPECTED: &str = "changed together with the configuration that Envoy refused; it is tried \
                                    separately, and served again when Envoy accepts it";

impl FallbackScope {
    /// Convicts a subject that was refused as one. If it has more than one content, any of them may be at fault: the
    /// verdict is then about their combination, and becomes void as soon as one of them is edited.
    pub(super) fn convict_subject(
        &mut self,
        subject: &Subject,
        detected: Detected,
        message: &str,
        inputs: &StepInputs<'_>,
    ) {
        let is_desired =
            |(content, node): (&Content, &Node)| inputs.translator.is_desired(&self.id.fleet, &node.key, content);
        if subject.contents.len() < 2 || !subject.contents.iter().all(is_desired) {
            for (content, node) in &subject.contents {
                self.convict(*content, node, detected, message, Vec::new(), inputs);
            }
            return;
        }
        let mut convicted = BTreeSet::new();
        for (content, node) in &subject.contents {
            if !convicted.insert(node) {
                // The verdict about the first content of the unit covers the unit.
                self.acquit(content);
                continue;
            }
            let others = subject.contents.keys().filter(|other| *other != content).copied().collect();
            let beside: BTreeSet<&ObjectKey> =
                subject.contents.values().map(|other| &other.key).filter(|key| **key != node.key).collect();
            let names = beside.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let text = format!("{message} (refused together with {names}, which changed as well)");
            let message = if names.is_empty() { message } else { &text };
            self.convict(*content, node, detected, message, others, inputs);
        }
    }

    /// Records suspicions: these subjects may be at fault for a refusal, and are not served as desired until a trial
    /// has shown which of them are.
    pub(crate) fn suspect(&mut self, subjects: &[Subject], inputs: &StepInputs<'_>) {
        for (content, node) in subjects.iter().flat_map(|subject| &subject.contents) {
            self.convict(*content, node, Detected::Suspected, SUSPECTED, Vec::new(), inputs);
        }
    }

    /// Convicts the object of a refused certificate, or the first object of a validation context.
    pub(crate) fn convict_certificate(
        &mut self,
        name: &Arc<str>,
        version: Version,
        detected: Detected,
        message: &str,
        inputs: &StepInputs<'_>,
    ) {
        if !inputs.settings.fallback.isolate && !self.is_first_identity(name, inputs) {
            self.remember_refused(ResourceType::Secret, name, version, inputs);
            return self.hold_as_a_whole(inputs);
        }
        let resource = self.configurations.wanted.get(ResourceType::Secret, name);
        // The first origin of a validation context is an object with authorities, and not its owner.
        let origin = resource.and_then(|resource| resource.origins.iter().next().cloned());
        if let Some(key) = origin {
            let (content, node) = (Content(*version.as_bytes()), Node::whole(key));
            let refuser = self.refuser(ResourceType::Secret, name, version);
            self.convict(content, &node, detected, message, Vec::new(), inputs);
            self.note_refuser(Subject { contents: BTreeMap::from([(content, node.clone())]), node }, refuser, inputs);
        }
    }

    pub(crate) fn convict(
        &mut self,
        content: Content,
        node: &Node,
        detected: Detected,
        message: &str,
        witnesses: Vec<Content>,
        inputs: &StepInputs<'_>,
    ) {
        let field = section::field(&node.section);
        let verdict = Verdict {
            node: node.clone(),
            generation: generation(&node.key, inputs),
            detected,
            field: field.into(),
            message: message.into(),
            since: self.verdicts.began(&node.key, inputs),
            witnesses,
        };
        self.records.record(Change::Convict(self.id.stored(), stored(content, &verdict)));
        if detected == Detected::Probe {
            self.fairness.convicted_on_probe(&node.key);
        }
        self.verdicts.convict(content, verdict, inputs.now_ms);
    }

    pub(crate) fn acquit(&mut self, content: &Content) {
        self.verdicts.quarantine.acquit(content);
        self.records.record(Change::Acquit(self.id.stored(), content.0));
    }
}

fn generation(key: &ObjectKey, inputs: &StepInputs<'_>) -> i64 {
    inputs.objects.get(key).map_or(0, |object| object.metadata.generation)
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
