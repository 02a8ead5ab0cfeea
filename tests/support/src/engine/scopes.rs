//! State and decisions of the fallback as plain data, so that tests need no access to its internals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Detected, Node, ObjectKey, Step};

use holdfast_engine::engine::Engine;
use holdfast_fallback::scope::FallbackScope;

/// A decision about an object or a section of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The step.
    pub step: Step,
    /// The objects that caused the decision.
    pub causes: BTreeSet<ObjectKey>,
    /// Served generation of a backfilled object.
    pub generation: Option<i64>,
}

/// State of one scope: one Gateway's Envoys of one build.
#[derive(Clone, Debug)]
pub struct ScopeSeen {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// The build.
    pub build: Arc<str>,
    /// Broken parts, with the method of detection and the message.
    pub broken: BTreeMap<Node, (Detected, Arc<str>)>,
    /// Decisions about broken parts.
    pub decided: BTreeMap<Node, Decided>,
    /// Number of verdicts, including those on content that is no longer desired.
    pub verdicts: usize,
    /// Generation of the last valid version of each object.
    pub last_valid: BTreeMap<ObjectKey, i64>,
    /// UID of the last valid version of each object.
    pub last_valid_uids: BTreeMap<ObjectKey, Arc<str>>,
    /// Resources that are held at their acknowledged version.
    pub held: BTreeSet<String>,
    /// The Gateway is held as a whole.
    pub held_as_a_whole: bool,
    /// Envoys that refuse resources that others of their build accept, with or without a scope of their own.
    pub alone: BTreeSet<Arc<str>>,
    /// The Envoys, if they have a scope apart from others of their build.
    pub apart: BTreeSet<Arc<str>>,
    /// A rollout, a trial or a search is in progress.
    pub busy: bool,
    /// Conditions that are waited for, each with its deadline in milliseconds of Unix time.
    pub waits: Vec<(&'static str, u64)>,
}

/// Returns the state of every scope, in order.
pub fn scopes(engine: &Engine) -> Vec<ScopeSeen> {
    let seen = engine.scopes.iter().map(|scope| {
        let decided = scope.derived.plan.decisions.iter().map(|(node, decision)| {
            let generation = scope.derived.served.get(&node.key).map(|(generation, _)| *generation);
            let generation = generation.filter(|_| decision.step == Step::Backfilled);
            (node.clone(), Decided { step: decision.step, causes: decision.causes.clone(), generation })
        });
        let broken = scope.derived.broken.iter();
        let (mut last_valid, mut last_valid_uids) = (BTreeMap::new(), BTreeMap::new());
        for version in scope.evidence.last_valid.iter() {
            // The newest version is the last.
            last_valid.insert(version.object.key.clone(), version.object.metadata.generation);
            last_valid_uids.insert(version.object.key.clone(), version.object.metadata.uid.clone());
        }
        ScopeSeen {
            gateway: scope.id.name.clone(),
            build: scope.id.build.clone(),
            broken: broken
                .map(|(node, why)| (node.clone(), (scope.detected_of(why), scope.message_of(why).into())))
                .collect(),
            decided: decided.collect(),
            verdicts: scope.verdicts.quarantine.len(),
            last_valid,
            last_valid_uids,
            held: scope.hold.refusals().map(|refusal| refusal.resource.to_string()).collect(),
            held_as_a_whole: scope.whole.held,
            alone: alone(engine, scope),
            apart: scope.members.nodes().filter(|_| scope.id.is_apart()).cloned().collect(),
            waits: scope.waits(),
            busy: scope.trials.readmission.is_some()
                || scope.trials.current.is_some()
                || scope.searches.current.is_some()
                || scope.stage != holdfast_fallback::rollout::Stage::Settled,
        }
    });
    seen.collect()
}

fn alone(engine: &Engine, scope: &FallbackScope) -> BTreeSet<Arc<str>> {
    let apart = engine.scopes.of(&scope.id.name).iter();
    let apart = apart.filter(|apart| apart.id.is_apart() && apart.id.reported_build() == &scope.id.build);
    let outliers = scope.members.outliers().map(|(node, _)| node);
    apart.flat_map(|apart| apart.members.nodes()).chain(outliers).cloned().collect()
}
