//! Hold of a whole Gateway, with the gate off: a refusal takes the Gateway back to its last valid configuration, until
//! something changes.

use std::sync::Arc;

use holdfast_graph::{Content, Detected, Verdict};
use holdfast_store::{Change, StoredVerdict};
use holdfast_xds::{ResourceType, Version};

use crate::context::step_inputs::StepInputs;
use crate::plan::derive::is_chain;
use crate::scope::FallbackScope;

/// The state of a hold of a whole Gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Whether everything is held that no Envoy has acknowledged.
    pub held: bool,
    /// Whether anything has changed since.
    pub changed: bool,
}

impl FallbackScope {
    /// Holds everything that no Envoy has acknowledged, if the Gateway has an acknowledged configuration.
    pub(crate) fn hold_as_a_whole(&mut self, inputs: &StepInputs<'_>) {
        let gateway = self.id.gateway.clone();
        self.verdicts.quarantine.note_refusal(&gateway, inputs.now_ms);
        if self.hold.has_acknowledged_routes() {
            self.whole = Whole { held: true, changed: false };
        }
    }

    /// Stores a resource that was refused as a whole, and for which no object can be blamed, beyond this run.
    pub(crate) fn remember_refused(
        &mut self,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        inputs: &StepInputs<'_>,
    ) {
        let Some(refusal) = self.hold.refusal_of(kind, name, version) else { return };
        let verdict = StoredVerdict {
            content: *version.as_bytes(),
            key: self.id.gateway.clone(),
            section: format!("{}/{name}", kind.short_name()).into(),
            generation: 0,
            detected_by: Detected::Nack.to_string().into(),
            field: "".into(),
            message: refusal.message.clone().into(),
            since: inputs.now(),
            witnesses: Vec::new(),
        };
        self.records.record(Change::Convict(self.id.stored(), verdict));
        if let Some(oldest) = self.verdicts.remember(version) {
            self.records.record(Change::Acquit(self.id.stored(), *oldest.as_bytes()));
        }
    }

    /// Restores a refused resource that an earlier run stored in this way; returns false if the verdict is about other
    /// content.
    pub(crate) fn restore_refused(&mut self, content: &Content, verdict: &Verdict) -> bool {
        if verdict.node.key != self.id.gateway || is_chain(&verdict.node) {
            return false;
        }
        let known = |kind: &ResourceType| {
            let rest = verdict.node.section.strip_prefix(kind.short_name())?;
            Some((*kind, rest.strip_prefix('/')?.to_owned()))
        };
        if let Some((kind, name)) = ResourceType::ALL.iter().find_map(known) {
            let version = Version::from_bytes(content.0);
            self.hold.refuse_version(kind, &name.into(), version, &self.id.build.clone(), &verdict.message);
            self.verdicts.remember_stored(version);
        }
        true
    }

    /// Releases the hold if held content has changed and need not wait: everything is tried again.
    pub(crate) fn release_hold(&mut self, inputs: &StepInputs<'_>) {
        let waits = self.verdicts.quarantine.wait_until(&self.id.gateway, inputs.now_ms).is_some();
        if self.whole.held && self.whole.changed && !waits {
            self.whole = Whole::default();
        }
    }

    /// Checks whether the current configuration of the fleet contains a resource that was refused before.
    pub(crate) fn is_refused_already(&self, inputs: &StepInputs<'_>) -> bool {
        inputs.translator.snapshot(&self.id.fleet).is_some_and(|snapshot| self.hold.refuses_any_of(snapshot))
    }
}
