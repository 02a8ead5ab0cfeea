//! Last valid versions for an Envoy apart, and for a fleet of outliers: only those that the Envoys themselves accepted.
//!
//! The versions of its build were proven by other Envoys, which may accept what this one refuses. A stand-in that the
//! Envoy refuses would be a part of each of its trials, and objects without a mistake would be convicted with it.
//!
//! If it is unknown what the Envoy has, the scope begins with all versions. A refusal of a resource with versions that
//! this Envoy has not accepted proves nothing about other content: these versions are forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Version as Form};

use super::accused;
use crate::attribution::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::Version;
use crate::evidence::proof::Proof;
use crate::plan::fitness::alone;
use crate::scope::FallbackScope;

/// Returns the last valid versions of a scope with contents that are in this proof.
pub(crate) fn accepted(scope: &FallbackScope, proof: &Proof, inputs: &StepInputs<'_>) -> Vec<Version> {
    let all = scope.evidence.last_valid.iter();
    all.filter(|version| is_accepted(&version.object, &scope.id.gateway, proof, inputs)).cloned().collect()
}

/// Handles the refusal of a route configuration by an Envoy apart: last valid versions in it that the Envoy has not
/// accepted are forgotten. Returns true if there were any.
pub(super) fn forget_unaccepted(
    scope: &mut FallbackScope,
    (kind, name, refused): (ResourceType, &Arc<str>, Form),
    inputs: &StepInputs<'_>,
) -> bool {
    let is_of_outliers = scope.id.is_apart() || scope.members.believes_outliers();
    if !is_of_outliers || kind != ResourceType::Route {
        return false;
    }
    let forgotten = unaccepted_in(scope, name, refused, inputs);
    forgotten.iter().for_each(|key| {
        scope.evidence.last_valid.forget(key);
    });
    !forgotten.is_empty()
}

/// Returns the objects with last valid versions in a route configuration that no Envoy has accepted, without those on
/// trial.
pub(super) fn unaccepted_in(
    scope: &FallbackScope,
    name: &Arc<str>,
    form: Form,
    inputs: &StepInputs<'_>,
) -> Vec<ObjectKey> {
    let testing = scope.trials.testing();
    let on_trial: BTreeSet<_> =
        testing.iter().flat_map(|subject| subject.contents.values()).map(|node| &node.key).collect();
    let is_unaccepted = |key: &ObjectKey| {
        let mut versions = scope.evidence.last_valid.of(key, None);
        versions.any(|version| !is_accepted(&version.object, &scope.id.gateway, &scope.evidence.proof, inputs))
    };
    let stand_ins = accused::unproven_stand_ins(&SuspectInputs::of(scope), name, &form, inputs);
    stand_ins.into_iter().filter(|key| !on_trial.contains(key) && is_unaccepted(key)).collect()
}

/// Checks whether all contents that Envoys receive of a version are proven. Versions of objects without such contents
/// count as proven.
fn is_accepted(object: &Arc<Object>, gateway: &ObjectKey, proof: &Proof, inputs: &StepInputs<'_>) -> bool {
    let translator = &*inputs.translator;
    match &object.body {
        body if body.route().is_some() || matches!(body, Body::HttpProxy(_)) => {
            let plan = translator.try_route(&object.key, &alone(object), inputs.objects);
            plan.is_some_and(|plan| {
                let unproven = translator.parts_of(gateway, &plan, |part, context| {
                    let (with_policies, bare) = (part.encoded(context).1, part.bare_content(context));
                    !proof.is_proven(&with_policies) && !proof.is_proven(&bare)
                });
                let streams = translator.streams_of(gateway, &plan);
                unproven.is_empty() && streams.iter().all(|(content, _)| proof.is_proven(content))
            })
        }
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => {
            let plan = translator.try_policy(object, inputs.objects);
            plan.is_some_and(|plan| plan.contents().all(|(_, content)| proof.is_proven(&content)))
        }
        _ => true,
    }
}
