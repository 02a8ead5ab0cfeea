//! What the fallback knows and has decided, for tests: as plain data, so that nothing else is opened to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Detected, Node, ObjectKey, Step};

use crate::engine::Engine;

/// A decision about an object or a section of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// What is done.
    pub step: Step,
    /// Because of whom.
    pub causes: BTreeSet<ObjectKey>,
    /// Of what is backfilled: the generation that is served.
    pub generation: Option<i64>,
}

/// One Gateway's Envoys of one build.
#[derive(Clone, Debug)]
pub struct LineSeen {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// The build.
    pub build: Arc<str>,
    /// What is broken, and who found it.
    pub broken: BTreeMap<Node, (Detected, Arc<str>)>,
    /// What is done about it.
    pub decided: BTreeMap<Node, Decided>,
    /// Verdicts, whether or not they are about what is desired.
    pub verdicts: usize,
    /// The generation of each object that is last valid.
    pub last_valid: BTreeMap<ObjectKey, i64>,
    /// The UID of each of them.
    pub last_valid_uids: BTreeMap<ObjectKey, Arc<str>>,
    /// Resources that are held at what was acknowledged.
    pub held: BTreeSet<String>,
    /// Is everything held?
    pub held_as_a_whole: bool,
    /// Envoys that refuse what others of their build take.
    pub alone: BTreeSet<Arc<str>>,
    /// Is anything still under way?
    pub busy: bool,
    /// What is waited for, and until when at most, in milliseconds of Unix time.
    pub waits: Vec<(&'static str, u64)>,
}

/// Every line, in order.
pub fn lines(engine: &Engine) -> Vec<LineSeen> {
    let seen = engine.lines.iter().map(|line| {
        let decided = line.derived.plan.decisions.iter().map(|(node, decision)| {
            let generation = line.derived.served.get(&node.key).map(|(generation, _)| *generation);
            let generation = generation.filter(|_| decision.step == Step::Backfilled);
            (node.clone(), Decided { step: decision.step, causes: decision.causes.clone(), generation })
        });
        let broken = line.derived.broken.iter();
        let (mut last_valid, mut last_valid_uids) = (BTreeMap::new(), BTreeMap::new());
        for version in line.last_valid.iter() {
            // The newest comes last.
            last_valid.insert(version.object.key.clone(), version.object.metadata.generation);
            last_valid_uids.insert(version.object.key.clone(), version.object.metadata.uid.clone());
        }
        LineSeen {
            gateway: line.name.clone(),
            build: line.build.clone(),
            broken: broken.map(|(node, why)| (node.clone(), (why.detected, why.message.clone()))).collect(),
            decided: decided.collect(),
            verdicts: line.quarantine.len(),
            last_valid,
            last_valid_uids,
            held: line.hold.refusals().map(|refusal| refusal.resource.to_string()).collect(),
            held_as_a_whole: line.whole.held,
            alone: line.alone.keys().cloned().collect(),
            waits: line.waits(),
            busy: line.readmission.is_some()
                || line.trial.is_some()
                || line.search.is_some()
                || line.stage != crate::fallback::rollout::Stage::Settled,
        }
    });
    seen.collect()
}
