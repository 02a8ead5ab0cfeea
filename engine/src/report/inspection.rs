//! Detailed views of the fallback for diagnosis: the plan of each scope with its inputs, refused content with Envoy's
//! messages, and stored state. Read only, computed on request.
//!
//! Envoy's messages are scrubbed before they reach this module. Contents of Secrets are never included.

use std::collections::BTreeSet;

use bytes::Bytes;
use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_xds::ResourceType;
use serde_json::{Value, json};

use super::survey::field;
use crate::engine::Engine;
use crate::fallback::line::Line;
use crate::fallback::readmission::Readmission;
use crate::fallback::rollout::Stage;
use crate::fallback::trials;
use crate::features::redirect::ListenerContext;
use crate::time::Moment;

/// Refused content that is not served: its description, and the resource that contains it, not decoded yet.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The description: the refuser, the refused content and the reason.
    pub description: Value,
    /// The type of the resource.
    pub kind: ResourceType,
    /// The encoded resource.
    pub body: Bytes,
}

impl Engine {
    /// Returns the plan of every scope, with all its inputs.
    pub fn plans(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(|line| plan(line, self)).collect();
        json!({ "lines": lines })
    }

    /// Returns refused content that is not served: resources that are held back, and refused parts of routes.
    pub fn failed(&self) -> Vec<Failed> {
        self.lines.iter().flat_map(|line| held_back(line).into_iter().chain(self.refused_parts(line))).collect()
    }

    /// Returns all messages of Envoys and of the probe about content that is refused now.
    pub fn raw_errors(&self) -> Value {
        let errors: Vec<Value> = self.lines.iter().flat_map(errors).collect();
        json!({ "errors": errors })
    }

    /// Returns the objects at fault at any Gateway, and all other objects that the graph reports as affected.
    pub fn affected(&self) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let nodes: BTreeSet<&Node> = self.lines.iter().flat_map(|line| line.derived.broken.keys()).collect();
        let mut broken: BTreeSet<ObjectKey> = nodes.iter().map(|node| node.key.clone()).collect();
        broken.extend(self.unreadable().map(|(key, _, _)| key.clone()));
        let reached = nodes.into_iter().flat_map(|node| self.graph().affected(node));
        let affected = reached.map(|affected| affected.node.key).filter(|key| !broken.contains(key)).collect();
        (broken, affected)
    }

    /// Returns the stored state of every scope, including changes that are about to be stored.
    pub fn remembered(&self) -> Value {
        self.lines.iter().map(remembered).collect()
    }

    /// Returns refused parts of routes, each in a route configuration of its own, as for a trial.
    fn refused_parts<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = Failed> + 'a {
        let broken = line.derived.broken.iter().filter(|(_, broken)| broken.detected != Detected::Translation);
        broken.flat_map(move |(node, broken)| {
            let routes = self.translator.route(&node.key).into_iter().flat_map(|plan| plan.routes.clone());
            let own = routes.filter(move |route| node.section.is_empty() || route.node() == *node);
            own.map(move |rendered| Failed {
                description: json!({
                    "gateway": line.name, "build": line.build, "object": node.key.to_string(),
                    "section": node.section, "detectedBy": broken.detected, "field": field(node, broken),
                    "message": broken.message, "since": broken.since.map(Moment), "route": rendered.route.name,
                }),
                kind: ResourceType::Route,
                body: trials::alone(&rendered, ListenerContext { https: false, port: 0 }),
            })
        })
    }
}

fn held_back(line: &Line) -> Vec<Failed> {
    let failed = line.hold.refusals().filter_map(|refusal| {
        let resource = line.hold.desired(refusal.kind, &refusal.resource)?;
        let origins: Vec<String> = resource.origins.iter().map(ToString::to_string).collect();
        let description = json!({ "gateway": line.name, "refusal": refusal, "origins": origins });
        Some(Failed { description, kind: refusal.kind, body: resource.body.clone() })
    });
    failed.collect()
}

fn errors(line: &Line) -> Vec<Value> {
    let (gateway, build) = (&line.name, &line.build);
    let held = line.hold.refusals().map(|refusal| json!({ "gateway": gateway, "refusal": refusal }));
    let alone = line
        .alone
        .iter()
        .map(|(node, message)| json!({ "gateway": gateway, "build": build, "onlyBy": node, "message": message }));
    let verdicts = line.quarantine.iter().map(
        |(content, verdict)| json!({ "gateway": gateway, "build": build, "verdict": verdict_json(content, verdict) }),
    );
    held.chain(alone).chain(verdicts).collect()
}

fn plan(line: &Line, engine: &Engine) -> Value {
    let broken = line.derived.broken.iter().map(|(node, broken)| {
        let since = line.since.get(&node.key).copied().or(broken.since);
        json!({
            "object": node.key.to_string(), "section": node.section, "detectedBy": broken.detected,
            "field": field(node, broken), "message": broken.message, "since": since.map(Moment),
        })
    });
    let decisions = line.derived.plan.decisions.iter().map(|(node, decision)| {
        json!({
            "object": node.key.to_string(), "section": node.section, "step": decision.step,
            "causes": decision.causes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let stage = match &line.stage {
        Stage::Settled => json!("settled"),
        Stage::Probing => json!("probing"),
        Stage::Following => json!("following"),
        Stage::Canary { node, waiting, .. } => json!({ "trying": node, "unanswered": waiting.len() }),
    };
    let testing = line.readmission.as_ref().and_then(Readmission::testing).unwrap_or_default();
    json!({
        "gateway": line.name,
        "build": line.build,
        "state": line.state(),
        "stage": stage,
        "envoys": line.envoys.keys().collect::<Vec<_>>(),
        "gates": {
            "isolate": engine.settings().fallback.isolate,
            "useLastValid": engine.settings().fallback.use_last_valid,
            "backfillDependants": engine.settings().fallback.backfill_dependants,
            "replace": engine.settings().replacement.is_some(),
        },
        "heldAsAWhole": line.whole.held,
        "fallbacksSinceTheLastEdit": line.rounds,
        "broken": broken.collect::<Vec<_>>(),
        "decisions": decisions.collect::<Vec<_>>(),
        "onTrial": testing
            .iter()
            .map(|subject| json!({ "object": subject.node.key.to_string(), "section": subject.node.section }))
            .collect::<Vec<_>>(),
        "quarantine": line.quarantine.iter().map(|(content, verdict)| verdict_json(content, verdict)).collect::<Vec<_>>(),
        "lastValid": versions(line),
    })
}

fn verdict_json(content: Content, verdict: &Verdict) -> Value {
    json!({
        "content": content, "object": verdict.node.key.to_string(), "section": verdict.node.section,
        "generation": verdict.generation, "detectedBy": verdict.detected, "field": verdict.field,
        "message": verdict.message, "since": Moment(verdict.since), "witnesses": verdict.witnesses,
    })
}

fn versions(line: &Line) -> Vec<Value> {
    let version = |version: &crate::fallback::last_valid::Version| {
        let metadata = &version.object.metadata;
        json!({
            "object": version.object.key.to_string(), "uid": metadata.uid, "generation": metadata.generation,
            "since": Moment(version.since),
        })
    };
    line.last_valid.iter().map(version).collect()
}

fn remembered(line: &Line) -> Value {
    let acknowledged = line.hold.acknowledged_snapshot();
    let resources = ResourceType::ALL.into_iter().flat_map(|kind| {
        acknowledged.of(kind).values().map(move |resource| {
            json!({
                "type": kind.short_name(), "name": resource.name, "version": resource.version.to_string(),
                "bytes": resource.body.len(),
            })
        })
    });
    json!({
        "gateway": line.name,
        "build": line.build,
        "objects": versions(line),
        "resources": resources.collect::<Vec<_>>(),
        "verdicts": line.quarantine.iter().map(|(content, verdict)| verdict_json(content, verdict)).collect::<Vec<_>>(),
    })
}
