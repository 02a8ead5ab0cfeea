//! The state of a scope, as reports show it: what its Envoys are served, and what is held.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_envoy::hold::Refusal;
use holdfast_envoy::refusal::RefusalClass;
use holdfast_graph::{Detected, ObjectKey};
use holdfast_xds::ResourceType;

use super::view::{EnvoyCounts, ServedState};
use crate::members::Outlier;
use crate::plan::derive::{Broken, HELD};
use crate::rollout::Stage;
use crate::scope::FallbackScope;

impl FallbackScope {
    /// Returns the objects behind resources that are held because no object could be blamed for their refusal.
    pub fn held(&self) -> Vec<(ObjectKey, &Refusal)> {
        let behind = |refusal: &Refusal| {
            let kind = match refusal.kind {
                // For a whole port or table, only the Gateway is known to be affected.
                ResourceType::Listener | ResourceType::Route => return self.id.gateway.clone(),
                ResourceType::Cluster | ResourceType::Endpoints => kinds::SERVICE,
                ResourceType::Secret => kinds::SECRET,
            };
            // A resource that was never acknowledged is not published at all.
            let resource = self.hold.desired(refusal.kind, &refusal.resource);
            let origins = resource.into_iter().flat_map(|resource| resource.origins.iter());
            let (own, others): (Vec<_>, Vec<_>) = origins.partition(|origin| *origin.kind == *kind);
            own.into_iter().chain(others).next().unwrap_or(&self.id.gateway).clone()
        };
        self.hold.refusals().map(|refusal| (behind(refusal), refusal)).collect()
    }

    /// Returns the message of a broken node. While everything is held, Envoy's message is about the held configuration
    /// as a whole. For Envoys apart, the message names them.
    pub fn message_of(&self, broken: &Broken) -> String {
        let message = self.message_for_all(broken);
        match self.detected_of(broken) {
            Detected::Translation | Detected::Probe => message,
            _ => self.id.apart.iter().fold(message, |message, apart| format!("{message} ({})", apart.clause())),
        }
    }

    fn message_for_all(&self, broken: &Broken) -> String {
        let Some(refusal) = self.refusal_while_held(broken) else { return broken.message.to_string() };
        let (kind, name) = (refusal.kind.short_name(), &refusal.resource);
        let refused = format!("Envoy refused {kind} {name}: {}", refusal.message);
        match self.is_only_change(refusal) {
            true => refused,
            false => format!("{}; {refused}", broken.message),
        }
    }

    /// Returns how a broken node was detected. While everything is held, the object with the only change is known to be
    /// the refused one.
    pub fn detected_of(&self, broken: &Broken) -> Detected {
        match self.refusal_while_held(broken) {
            Some(refusal) if self.is_only_change(refusal) => Detected::Nack,
            _ => broken.detected,
        }
    }

    /// Returns the refusal because of which everything is held, and the node with it.
    fn refusal_while_held(&self, broken: &Broken) -> Option<&Refusal> {
        let is_held = self.whole.held && &*broken.message == HELD;
        let newest = || self.verdicts.newest_remembered().and_then(|version| self.hold.refused_as(version));
        is_held.then(|| newest().or_else(|| self.hold.refused().next())).flatten()
    }

    /// Returns the refusals because of which everything is held, of contents that are no longer desired in this state.
    pub fn refused_before_hold(&self) -> impl Iterator<Item = &Refusal> {
        let is_desired = |refusal: &Refusal| self.hold.refusals().any(|other| other == refusal);
        let all = self.whole.held.then(|| self.hold.refused());
        all.into_iter().flatten().filter(move |refusal| !is_desired(refusal))
    }

    /// Checks whether only one object has changes that no Envoy has acknowledged, and all refusals are about content. A
    /// listener can be refused without a change of an object, because its port is taken.
    fn is_only_change(&self, refusal: &Refusal) -> bool {
        let keys: BTreeSet<&ObjectKey> = self.derived.broken.keys().map(|node| &node.key).collect();
        let mut all = self.hold.refusals().chain([refusal]);
        keys.len() == 1 && all.all(|refusal| refusal.class == RefusalClass::Content)
    }

    /// Returns what the Envoys of the scope are served.
    pub fn state(&self) -> ServedState {
        if self.whole.held || self.hold.refusals().next().is_some() {
            ServedState::Held
        } else if !self.derived.plan.is_empty() || !self.derived.broken.is_empty() {
            ServedState::Fallback
        } else {
            match self.stage {
                Stage::Settled if self.held_envoys().next().is_some() => ServedState::Partial,
                Stage::Settled => ServedState::Current,
                Stage::Probing { .. } => ServedState::Probing,
                Stage::Canary { .. } => ServedState::Trying,
                Stage::Following => ServedState::Following,
            }
        }
    }

    /// Returns the connected Envoys that refuse what others of their build accepted, by node.
    pub fn held_envoys(&self) -> impl Iterator<Item = (&Arc<str>, &Outlier)> {
        self.members.outliers().filter(|(node, _)| self.members.is_connected(node))
    }

    /// Checks whether at least one Envoy of the scope has acknowledged the wanted configuration.
    pub fn is_settled(&self) -> bool {
        self.stage == Stage::Settled
            && self.trials.current.is_none()
            && !self.members.is_empty()
            && !self.hold.awaits_answers()
    }

    /// Returns the number of Envoys by their state; the answer of one Envoy counts for all of its build.
    pub fn envoys(&self) -> EnvoyCounts {
        let outliers = self.held_envoys().map(|(node, _)| node);
        let refusing = self.hold.refusals().map(|refusal| &refusal.node).chain(outliers);
        let refused = refusing.filter(|node| self.members.is_connected(node)).collect::<BTreeSet<_>>().len();
        let others = self.members.nodes().count() - refused;
        let pending = match &self.stage {
            Stage::Settled if self.hold.awaits_answers() => others,
            _ if self.configurations.everyone.is_none() => others,
            Stage::Canary { .. } => others.min(1),
            _ => 0,
        };
        EnvoyCounts { acknowledged: others - pending, refused, pending }
    }
}

/// Returns the scopes of a Gateway that represent it.
pub fn speaking(scopes: &[FallbackScope]) -> impl Iterator<Item = &FallbackScope> {
    let no_envoys = scopes.iter().all(|scope| scope.members.is_empty());
    scopes.iter().filter(move |scope| no_envoys || !scope.members.is_empty())
}
