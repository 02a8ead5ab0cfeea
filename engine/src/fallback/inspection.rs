//! The fallback in every detail, for people who look for a reason: each line's plan with what it rests on, what was
//! refused with its content and in Envoy's words, and what is remembered. Read only, when asked.
//!
//! Words of Envoys are scrubbed before they come here. Contents of Secrets are never part of it.

use std::collections::BTreeSet;

use bytes::Bytes;
use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_xds::ResourceType;
use serde_json::{Value, json};

use super::line::Line;
use super::readmission::Readmission;
use super::rollout::Stage;
use super::survey::field;
use super::trials;
use crate::engine::Engine;
use crate::features::redirect::ListenerContext;
use crate::time::Moment;

/// Something that was refused, and is not served: what is told of it, and the resource that holds it, not decoded yet.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Who refused what, and why.
    pub told: Value,
    /// Type of the resource.
    pub kind: ResourceType,
    /// Its bytes.
    pub body: Bytes,
}

impl Engine {
    /// The plan of every line, and everything that it was derived from.
    pub fn plans(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(|line| plan(line, self)).collect();
        json!({ "lines": lines })
    }

    /// What was refused and is not served: resources that are held back, and refused parts of routes.
    pub fn failed(&self) -> Vec<Failed> {
        self.lines.iter().flat_map(|line| held_back(line).into_iter().chain(self.refused_parts(line))).collect()
    }

    /// All that Envoys and the probe said about what is refused now.
    pub fn raw_errors(&self) -> Value {
        let errors: Vec<Value> = self.lines.iter().flat_map(errors).collect();
        json!({ "errors": errors })
    }

    /// Objects at fault at any Gateway, and all others that the graph says are affected.
    pub fn affected(&self) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let nodes: BTreeSet<&Node> = self.lines.iter().flat_map(|line| line.derived.broken.keys()).collect();
        let mut broken: BTreeSet<ObjectKey> = nodes.iter().map(|node| node.key.clone()).collect();
        broken.extend(self.unreadable().map(|(key, _, _)| key.clone()));
        let reached = nodes.into_iter().flat_map(|node| self.graph().affected(node));
        let affected = reached.map(|affected| affected.node.key).filter(|key| !broken.contains(key)).collect();
        (broken, affected)
    }

    /// What every line remembers: what it has stored, or will have in a moment.
    pub fn remembered(&self) -> Value {
        self.lines.iter().map(remembered).collect()
    }

    /// Parts that somebody refuses, each in a route configuration of its own, as it is tried.
    fn refused_parts<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = Failed> + 'a {
        let broken = line.derived.broken.iter().filter(|(_, broken)| broken.detected != Detected::Translation);
        broken.flat_map(move |(node, broken)| {
            let routes = self.translator.route(&node.key).into_iter().flat_map(|plan| plan.routes.clone());
            let own = routes.filter(move |route| node.section.is_empty() || route.node() == *node);
            own.map(move |rendered| Failed {
                told: json!({
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
        let told = json!({ "gateway": line.name, "refusal": refusal, "origins": origins });
        Some(Failed { told, kind: refusal.kind, body: resource.body.clone() })
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
    let verdicts = line
        .quarantine
        .iter()
        .map(|(content, verdict)| json!({ "gateway": gateway, "build": build, "verdict": told(content, verdict) }));
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
        "quarantine": line.quarantine.iter().map(|(content, verdict)| told(content, verdict)).collect::<Vec<_>>(),
        "lastValid": versions(line),
    })
}

fn told(content: Content, verdict: &Verdict) -> Value {
    json!({
        "content": content, "object": verdict.node.key.to_string(), "section": verdict.node.section,
        "generation": verdict.generation, "detectedBy": verdict.detected, "field": verdict.field,
        "message": verdict.message, "since": Moment(verdict.since), "witnesses": verdict.witnesses,
    })
}

fn versions(line: &Line) -> Vec<Value> {
    let version = |version: &super::last_valid::Version| {
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
        "verdicts": line.quarantine.iter().map(|(content, verdict)| told(content, verdict)).collect::<Vec<_>>(),
    })
}
