//! Verdicts as they are made: by content, stored before anything that rests on them is published.

use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_store::{Change, StoredVerdict};
use holdfast_xds::{ResourceType, Version};

use super::around::Around;
use super::line::Line;
use super::readmission::Subject;

impl Line {
    pub(super) fn convict_subject(
        &mut self,
        subject: &Subject,
        detected: Detected,
        message: &str,
        around: &Around<'_>,
    ) {
        for (content, node) in &subject.contents {
            self.convict(*content, node, detected, message, Vec::new(), around);
        }
    }

    /// A certificate is made of one object: where it is refused, that is at fault.
    pub(super) fn convict_certificate(
        &mut self,
        name: &Arc<str>,
        version: Version,
        detected: Detected,
        message: &str,
        around: &Around<'_>,
    ) {
        if !around.settings.fallback.isolate {
            self.remember_refused(ResourceType::Secret, name, version, around);
            return self.hold_as_a_whole(around);
        }
        let origin =
            self.wanted.get(ResourceType::Secret, name).and_then(|resource| resource.origins.iter().next().cloned());
        if let Some(key) = origin {
            self.convict(Content(*version.as_bytes()), &Node::whole(key), detected, message, Vec::new(), around);
        }
    }

    pub(super) fn convict(
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
        let generation = verdict.generation;
        if detected != Detected::Suspected && self.counted.insert(node.key.clone(), generation) != Some(generation) {
            self.quarantine.note_refusal(&node.key, around.now_ms);
        }
        self.quarantine.convict(content, verdict);
    }

    pub(super) fn acquit(&mut self, content: &Content) {
        self.quarantine.acquit(content);
        self.record(Change::Acquit(self.scope(), content.0));
    }
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
