//! Last valid versions for an Envoy apart: only those that the Envoy itself accepted.
//!
//! The versions of its build were proven by other Envoys, which may accept what this one refuses. A stand-in that the
//! Envoy refuses would be a part of each of its trials, and objects without a mistake would be convicted with it.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;

use super::FallbackScope;
use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::{LastValid, Version};
use crate::evidence::proof::Proof;
use crate::plan::fitness::alone;

/// Limit of refusals of an Envoy apart with unknown configuration; the versions that it has not accepted are forgotten
/// then, since each of its trials may contain one that it refuses.
const REFUSALS_WHILE_UNSURE_MAX: u32 = 3;

/// Returns the last valid versions of a scope with contents that are in this proof.
pub(super) fn accepted(scope: &FallbackScope, proof: &Proof, inputs: &StepInputs<'_>) -> Vec<Version> {
    let all = scope.evidence.last_valid.iter();
    all.filter(|version| is_accepted(&version.object, &scope.id.gateway, proof, inputs)).cloned().collect()
}

/// Counts a refusal of an Envoy apart. After several ones, last valid versions that it has not accepted are forgotten.
pub(super) fn note_refusal(scope: &mut FallbackScope, inputs: &StepInputs<'_>) {
    let apart = scope.id.apart.as_mut();
    let Some(refusals) = apart.and_then(|apart| apart.refusals_while_unsure.as_mut()) else { return };
    *refusals += 1;
    if *refusals < REFUSALS_WHILE_UNSURE_MAX {
        return;
    }
    scope.id.apart.iter_mut().for_each(|apart| apart.refusals_while_unsure = None);
    let mut last_valid = LastValid::default();
    for version in accepted(scope, &scope.evidence.proof, inputs) {
        last_valid.promote(&version.object, version.since);
    }
    scope.evidence.last_valid = last_valid;
}

/// Checks whether all contents that Envoys receive of a version are proven. Versions of objects without such contents
/// count as proven.
fn is_accepted(object: &Arc<Object>, gateway: &ObjectKey, proof: &Proof, inputs: &StepInputs<'_>) -> bool {
    let translator = &*inputs.translator;
    match &object.body {
        Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::HttpProxy(_) => {
            let plan = translator.try_route(&object.key, &alone(object), inputs.objects);
            plan.is_some_and(|plan| {
                let unproven = translator.parts_of(gateway, &plan, |part, context| {
                    let (with_policies, bare) = (part.encoded(context).1, part.bare_content(context));
                    !proof.is_proven(&with_policies) && !proof.is_proven(&bare)
                });
                unproven.is_empty()
            })
        }
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => {
            let plan = translator.try_policy(object, inputs.objects);
            plan.is_some_and(|plan| plan.contents().all(|(_, content)| proof.is_proven(&content)))
        }
        _ => true,
    }
}
