//! The state of a scope from which suspects are found; read only.

use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_xds::{Resource, ResourceType, Version};

use super::envoy_trials::EnvoyTrials;
use crate::context::scope_id::ScopeId;
use crate::evidence::Evidence;
use crate::plan::derive::Derived;
use crate::rollout::configurations::Configurations;
use crate::scope::FallbackScope;

/// The state of a scope from which suspects are found.
pub(crate) struct SuspectInputs<'a> {
    pub(crate) id: &'a ScopeId,
    pub(crate) evidence: &'a Evidence,
    pub(crate) hold: &'a Hold,
    pub(crate) derived: &'a Derived,
    pub(crate) configurations: &'a Configurations,
    pub(crate) trials: &'a EnvoyTrials,
}

impl<'a> SuspectInputs<'a> {
    /// Returns this state of a scope.
    pub(crate) fn of(scope: &'a FallbackScope) -> Self {
        Self {
            id: &scope.id,
            evidence: &scope.evidence,
            hold: &scope.hold,
            derived: &scope.derived,
            configurations: &scope.configurations,
            trials: &scope.trials,
        }
    }

    /// Returns a version of a resource that is wanted, or that is offered to an Envoy.
    pub(super) fn form_of(&self, kind: ResourceType, name: &str, version: Version) -> Option<&'a Arc<Resource>> {
        let on_trial = self.trials.current.as_ref().and_then(|trial| trial.snapshot.get(kind, name));
        let Configurations { wanted, newest, .. } = self.configurations;
        let known = [self.hold.desired(kind, name), wanted.get(kind, name), on_trial, newest.get(kind, name)];
        known.into_iter().flatten().find(|resource| resource.version == version)
    }
}
