//! The plan of a scope from its current state, also with contents on trial.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use holdfast_graph::{Content, ObjectKey};

use super::readmission::Readmission;
use crate::checker;
use crate::context::step_inputs::StepInputs;
use crate::plan::derive::{Derived, derive};
use crate::plan::reasons::reasons;
use crate::plan::untried::AcknowledgedRoutes;
use crate::plan::world::World;
use crate::scope::FallbackScope;

/// Derives the plan for the current state. Contents on trial count as good, and no stand-in version replaces
/// objects that are tried separately.
pub(crate) fn derived(
    scope: &FallbackScope,
    inputs: &StepInputs<'_>,
    on_trial: &BTreeSet<Content>,
    apart: &BTreeSet<ObjectKey>,
) -> Derived {
    let held;
    let settings = if scope.whole.held {
        // All changes go back to last valid versions, regardless of the gates.
        let mut settings = inputs.settings.clone();
        settings.fallback.isolate = true;
        settings.fallback.use_last_valid = true;
        settings.fallback.backfill_dependants = false;
        held = settings;
        &held
    } else {
        inputs.settings
    };
    let world = World {
        gateway: &scope.id.gateway,
        fleet: &scope.id.fleet,
        settings,
        objects: inputs.objects,
        unusable: inputs.unusable,
        translator: inputs.translator,
        quarantine: &scope.verdicts.quarantine,
        fairness: &scope.fairness,
        beside: (!on_trial.is_empty()).then_some(&scope.derived.broken),
        queued: scope.trials.readmission.as_ref().map(Readmission::owners).unwrap_or_default(),
        last_valid: &scope.evidence.last_valid,
        held: scope.whole.held.then_some(&scope.evidence.promotion.unpromoted),
        acknowledged: AcknowledgedRoutes::new(&scope.evidence.forms.acknowledged),
        proof: &scope.evidence.proof,
        on_trial,
        apart: Some(apart),
        since: &scope.verdicts.since,
        now_ms: inputs.now_ms,
        candidates: RefCell::default(),
        of_stand_ins: OnceCell::new(),
    };
    let mut derived = derive(&world, inputs.graph);
    checker::enforce(&mut derived, &world);
    derived.not_backfilled = reasons(&derived, &world);
    derived
}
