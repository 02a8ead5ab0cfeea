//! Hold of a whole Gateway, with the gate off: a refusal takes the Gateway back to its last valid configuration, until
//! something changes.

use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_envoy::encode::names;
use holdfast_graph::{Content, Detected, Node, Verdict};
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

    /// Restores the refusal of a certificate, which is not sent again although its Secret is deleted and written again.
    pub(crate) fn restore_refused_certificate(&mut self, content: &Content, verdict: &Verdict) {
        let Verdict { node, message, .. } = verdict;
        if &*node.key.kind == kinds::SECRET && node.section.is_empty() {
            let (name, version) = (names::secret(&node.key).into(), Version::from_bytes(content.0));
            self.hold.refuse_version(ResourceType::Secret, &name, version, &self.id.build.clone(), message);
        }
    }

    /// Releases the hold if held content has changed and need not wait: everything is tried again.
    pub(crate) fn release_hold(&mut self, inputs: &StepInputs<'_>) {
        let waits = self.verdicts.quarantine.wait_until(&self.id.gateway, inputs.now_ms).is_some();
        if self.whole.held && self.whole.changed && !waits {
            self.whole = Whole::default();
        }
    }

    /// Checks whether a Secret is the client certificate for backends and no Envoy has acknowledged any version of it.
    ///
    /// Such a certificate has no form that could be held. Without it, Envoy would wait for it before it uses new clusters,
    /// connect without it, and let requests pass where authorization fails open: the certificate itself is convicted, so
    /// that translation closes what needs it.
    pub(crate) fn is_first_identity(&self, name: &Arc<str>, inputs: &StepInputs<'_>) -> bool {
        let identity = inputs.translator.identity(&self.id.gateway).secret();
        identity.is_some_and(|secret| *names::secret(secret) == **name)
            && self.hold.acknowledged(ResourceType::Secret, name).is_none()
    }

    /// Convicts a client certificate that was refused before and is desired again. Returns whether there is one.
    pub(crate) fn convict_first_identity(&mut self, inputs: &StepInputs<'_>) -> bool {
        let Some(secret) = inputs.translator.identity(&self.id.gateway).secret() else { return false };
        let name: Arc<str> = names::secret(secret).into();
        if !self.is_first_identity(&name, inputs) {
            return false;
        }
        let snapshot = inputs.translator.snapshot(&self.id.fleet);
        let wanted = snapshot.and_then(|snapshot| snapshot.get(ResourceType::Secret, &name));
        let refusal = wanted.and_then(|wanted| self.hold.refusal_of(ResourceType::Secret, &name, wanted.version));
        let Some((wanted, message)) = wanted.zip(refusal.map(|refusal| refusal.message.clone())) else { return false };
        let (content, node) = (Content(*wanted.version.as_bytes()), Node::whole(secret.clone()));
        self.convict(content, &node, Detected::Nack, &message, Vec::new(), inputs);
        true
    }

    /// Checks whether the current configuration of the fleet contains a resource that was refused before.
    pub(crate) fn is_refused_already(&self, inputs: &StepInputs<'_>) -> bool {
        inputs.translator.snapshot(&self.id.fleet).is_some_and(|snapshot| self.hold.refuses_any_of(snapshot))
    }
}
