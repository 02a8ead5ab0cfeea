//! Content that other Envoys of the build accepted, and that one Envoy has not accepted itself.
//!
//! A refusal of such an Envoy proves nothing about the new content beside it: after a restart, and after the connection
//! of an Envoy, content that this Envoy refuses can be in each configuration that it is offered. Such an Envoy convicts
//! nothing until it has accepted the configuration of all Envoys. If it refuses that one, it is an outlier.

use std::sync::Arc;

use holdfast_xds::{ResourceType, Version};

use super::accepted_versions;
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::rollout::untried::{SHARED, has_untried_of_everyone};
use crate::scope::FallbackScope;

/// Checks whether an Envoy refused a resource in which nothing is new to its build, and something is to itself.
pub(crate) fn is_accepted_by_others_only(
    scope: &FallbackScope,
    node: &str,
    kind: ResourceType,
    name: &Arc<str>,
    version: Version,
) -> bool {
    let resource = SuspectInputs::of(scope).form_of(kind, name, version);
    SHARED.contains(&kind)
        && !scope.members.is_remote(node)
        && resource.is_some_and(|resource| {
            scope.evidence.has_untried_at(node, kind, resource)
                && scope.evidence.is_known_good(&scope.hold, kind, resource)
        })
}

/// Checks whether a refused resource has content that others accepted and that the Envoy has not accepted itself. Also
/// true if that is unknown: an answer may be about an earlier version than the wanted one.
pub(super) fn is_partly_untried_at_refuser(
    scope: &FallbackScope,
    kind: ResourceType,
    name: &Arc<str>,
    version: Version,
) -> bool {
    let Some(refusal) = scope.hold.refusal_of(kind, name, version).filter(|refusal| !refusal.is_learned()) else {
        return false;
    };
    if !SHARED.contains(&kind) || scope.members.is_remote(&refusal.node) {
        return false;
    }
    let form = scope.evidence.forms.known(name, &version).filter(|_| kind == ResourceType::Route);
    match (form, SuspectInputs::of(scope).form_of(kind, name, version)) {
        (Some(form), _) => scope.evidence.has_untried_routes_at(&refusal.node, name, form),
        (None, Some(resource)) => scope.evidence.has_untried_at(&refusal.node, kind, resource),
        (None, None) => true,
    }
}

/// Checks whether a refusal may be about something else than this suspect: content that others accepted, or a last
/// valid version of another object that no Envoy has accepted in this run. The suspect is then tried alone before it is
/// convicted.
pub(super) fn is_doubtful(
    scope: &FallbackScope,
    (kind, name, version): (ResourceType, &Arc<str>, Version),
    suspect: &Subject,
    inputs: &StepInputs<'_>,
) -> bool {
    let has_unaccepted = || {
        let unaccepted = accepted_versions::unaccepted_in(scope, name, version, inputs);
        kind == ResourceType::Route && unaccepted.iter().any(|key| *key != suspect.node.key)
    };
    is_partly_untried_at_refuser(scope, kind, name, version) || has_unaccepted()
}

/// Checks whether suspects wait until this Envoy has accepted the configuration of all Envoys. They wait no longer
/// than the answer timeout.
pub(super) fn waits_for_acceptance(scope: &mut FallbackScope, node: &str, inputs: &StepInputs<'_>) -> bool {
    if !has_untried_of_everyone(scope, node) {
        scope.trials.waits_since_ms = None;
        return false;
    }
    let since_ms = *scope.trials.waits_since_ms.get_or_insert(inputs.now_ms);
    inputs.now_ms < since_ms.saturating_add(inputs.settings.fallback.ack_timeout_ms)
}

/// Ends the wait if nothing waits for a trial any longer, so that the next suspects have the whole time.
pub(super) fn end_wait(scope: &mut FallbackScope, now_ms: u64) {
    if !scope.has_verdict_to_confirm(now_ms) {
        scope.trials.waits_since_ms = None;
    }
}
