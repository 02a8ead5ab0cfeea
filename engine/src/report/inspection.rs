//! Detailed views of the fallback for diagnosis: the plan of each scope with its inputs, refused content with Envoy's
//! messages, and stored state. Read only, computed on request.
//!
//! Envoy's messages are scrubbed before they reach this module. Contents of Secrets are never included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::apis::document::is_kept;
use holdfast_api::object::Object;
use holdfast_check::time::Moment;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_fallback::last_valid::Version;
use holdfast_fallback::readmission::Readmission;
use holdfast_fallback::rollout::Stage;
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::trials;
use holdfast_graph::{Affected, Content, Detected, Node, ObjectKey, Step, Verdict};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState};
use holdfast_translate::query::chain_units::UnservedListener;
use holdfast_xds::ResourceType;
use serde_json::{Value, json};

use super::survey::field;
use crate::engine::Engine;

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

/// The Envoys that refuse what others of their build accepted: by Gateway and node, the message of the last refusal.
pub type OutlierMessages = BTreeMap<(Arc<str>, Arc<str>), String>;

impl Engine {
    /// Returns the Envoys that refuse what others of their build accepted.
    pub fn outliers(&self) -> OutlierMessages {
        let of_scope = |scope: &FallbackScope| {
            let outliers = scope.members.outliers().map(|(node, outlier)| (node, outlier.message().to_owned()));
            // Envoys with a fallback of their own.
            let apart =
                scope.id.apart.iter().flat_map(|apart| scope.members.nodes().map(|node| (node, apart.clause())));
            let named = outliers.chain(apart).map(|(node, why)| ((scope.id.name.clone(), node.clone()), why));
            named.collect::<Vec<_>>()
        };
        self.scopes.iter().flat_map(of_scope).collect()
    }

    /// Returns the plan of every scope, with all its inputs.
    pub fn plans(&self) -> Value {
        let scopes: Vec<Value> = self.scopes.iter().map(|scope| plan(scope, self)).collect();
        json!({ "lines": scopes })
    }

    /// Returns refused content that is not served: resources that are held back, and refused parts of routes.
    pub fn failed(&self) -> Vec<Failed> {
        self.scopes.iter().flat_map(|scope| held_back(scope).into_iter().chain(self.refused_parts(scope))).collect()
    }

    /// Returns all messages of Envoys and of the probe about content that is refused now.
    pub fn raw_errors(&self) -> Value {
        let errors: Vec<Value> = self.scopes.iter().flat_map(errors).collect();
        json!({ "errors": errors })
    }

    /// Returns the objects at fault at any Gateway, and all other objects that the graph reports as affected.
    pub fn affected(&self) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let nodes: BTreeSet<&Node> = self.scopes.iter().flat_map(|scope| scope.derived.broken.keys()).collect();
        let mut broken: BTreeSet<ObjectKey> = nodes.iter().map(|node| node.key.clone()).collect();
        broken.extend(self.unreadable().map(|(key, _, _)| key.clone()));
        let reached = nodes.into_iter().flat_map(|node| self.graph().affected(node));
        let affected = reached.map(|affected| affected.node.key).filter(|key| !broken.contains(key)).collect();
        (broken, affected)
    }

    /// Returns what the failure of an object reaches, nearest first: of the parts at fault, or of the whole object if
    /// none is.
    pub fn affected_by(&self, object: &ObjectKey) -> Vec<Affected> {
        let broken =
            self.scopes.iter().flat_map(|scope| scope.derived.broken.keys()).filter(|node| node.key == *object);
        let mut broken: BTreeSet<Node> = broken.cloned().collect();
        if broken.is_empty() {
            broken.insert(Node::whole(object.clone()));
        }
        broken.iter().flat_map(|node| self.graph().affected(node)).collect()
    }

    /// Returns the desired listeners that serve no request, and the hosts of listeners that close their connections, by
    /// Gateway (`namespace/name`).
    pub fn unserved_listeners(&self) -> BTreeMap<String, Vec<UnservedListener>> {
        let may_close = |listener: &ListenerPlan| listener.state != ListenerState::Serving || listener.forwards();
        let is_closed = |plan: &GatewayPlan| plan.all().any(may_close);
        let mut gateways = self.translator.plans().into_iter().filter(|(_, plan)| is_closed(plan)).peekable();
        // Collecting the faults of all routes takes time.
        let faults = if gateways.peek().is_some() { self.faults() } else { Vec::new() };
        gateways.map(|(key, _)| (key.namespaced_name(), self.translator.unserved_listeners(key, &faults))).collect()
    }

    /// Returns the units of the filter chains that forward connections, by Gateway (`namespace/name`) and chain name.
    pub fn streams(&self) -> BTreeMap<String, BTreeMap<String, Node>> {
        let forwards = |plan: &GatewayPlan| plan.all().any(|one| one.forwards() || one.stream.is_some());
        let gateways = self.translator.plans().into_iter().filter(|(_, plan)| forwards(plan));
        gateways.map(|(key, _)| (key.namespaced_name(), self.translator.chain_units(key))).collect()
    }

    /// Returns the Gateways at which a route, or the host of a root HTTPProxy, is served or should be served.
    pub fn gateways_of_route(&self, route: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.translator.route(route).iter().flat_map(|plan| plan.concerns()).cloned().collect()
    }

    /// Returns the served last valid version of each backfilled object, by object and generation.
    pub fn served_versions(&self) -> BTreeMap<(ObjectKey, i64), Arc<Object>> {
        let mut versions = BTreeMap::new();
        for scope in self.scopes.iter() {
            let decisions = scope.derived.plan.decisions.iter();
            for (node, _) in decisions.filter(|(_, decision)| decision.step == Step::Backfilled) {
                let Some((generation, _)) = scope.derived.served.get(&node.key).copied() else { continue };
                let is_it = |object: &&Arc<Object>| object.metadata.generation == generation;
                let laid_over = scope.derived.overlay.objects.get(&node.key).filter(is_it);
                // The earlier version of a policy is laid over as a plan.
                let mut known = scope.evidence.last_valid.of(&node.key, None).map(|version| &version.object);
                if let Some(object) = laid_over.or_else(|| known.find(is_it)) {
                    versions.insert((node.key.clone(), generation), object.clone());
                }
            }
        }
        versions
    }

    /// Returns the stored state of every scope, including changes that are about to be stored.
    pub fn remembered(&self) -> Value {
        self.scopes.iter().map(remembered).collect()
    }

    /// Returns refused parts of routes, each in a route configuration of its own, as for a trial.
    fn refused_parts<'a>(&'a self, scope: &'a FallbackScope) -> impl Iterator<Item = Failed> + 'a {
        let broken = scope.derived.broken.iter().filter(|(_, broken)| broken.detected != Detected::Translation);
        broken.flat_map(move |(node, broken)| {
            let routes = self.translator.route(&node.key).into_iter().flat_map(|plan| plan.routes.clone());
            let own = routes.filter(move |route| node.section.is_empty() || route.node() == *node);
            own.map(move |rendered| Failed {
                description: json!({
                    "gateway": scope.id.name, "build": scope.id.build, "object": node.key.to_string(),
                    "section": node.section, "detectedBy": broken.detected, "field": field(node, broken),
                    "message": broken.message, "since": broken.since.map(Moment), "route": rendered.route.name,
                }),
                kind: ResourceType::Route,
                body: trials::alone(&rendered, ListenerContext { https: false, port: 0 }),
            })
        })
    }
}

fn held_back(scope: &FallbackScope) -> Vec<Failed> {
    let failed = scope.hold.refusals().filter_map(|refusal| {
        let resource = scope.hold.desired(refusal.kind, &refusal.resource)?;
        let origins: Vec<String> = resource.origins.iter().map(ToString::to_string).collect();
        let description = json!({ "gateway": scope.id.name, "refusal": refusal, "origins": origins });
        Some(Failed { description, kind: refusal.kind, body: resource.body.clone() })
    });
    failed.collect()
}

fn errors(scope: &FallbackScope) -> Vec<Value> {
    let (gateway, build) = (&scope.id.name, &scope.id.build);
    let held = scope.hold.refusals().chain(scope.refused_before_hold());
    let held = held.map(|refusal| json!({ "gateway": gateway, "refusal": refusal }));
    let outliers = scope.members.outliers().map(
        |(node, outlier)| json!({ "gateway": gateway, "build": build, "onlyBy": node, "message": outlier.message() }),
    );
    let verdicts = scope.verdicts.quarantine.iter().map(
        |(content, verdict)| json!({ "gateway": gateway, "build": build, "verdict": verdict_json(content, verdict) }),
    );
    held.chain(outliers).chain(verdicts).collect()
}

fn plan(scope: &FallbackScope, engine: &Engine) -> Value {
    let broken = scope.derived.broken.iter().map(|(node, broken)| {
        let since = scope.verdicts.since.get(&node.key).copied().or(broken.since);
        json!({
            "object": node.key.to_string(), "section": node.section, "detectedBy": broken.detected,
            "field": field(node, broken), "message": broken.message, "since": since.map(Moment),
            "notBackfilled": scope.derived.not_backfilled.get(&node.key),
        })
    });
    let decisions = scope.derived.plan.decisions.iter().map(|(node, decision)| {
        json!({
            "object": node.key.to_string(), "section": node.section, "step": decision.step,
            "causes": decision.causes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let stage = match &scope.stage {
        Stage::Settled => json!("settled"),
        Stage::Probing { .. } => json!("probing"),
        Stage::Following => json!("following"),
        Stage::Canary { node, waiting, .. } => json!({ "trying": node, "unanswered": waiting.len() }),
    };
    let testing = scope.trials.readmission.as_ref().and_then(Readmission::testing).unwrap_or_default();
    json!({
        "gateway": scope.id.name,
        "build": scope.id.build,
        "state": scope.state(),
        "stage": stage,
        "envoys": scope.members.nodes().collect::<Vec<_>>(),
        "gates": {
            "isolate": engine.settings().fallback.isolate,
            "useLastValid": engine.settings().fallback.use_last_valid,
            "backfillDependants": engine.settings().fallback.backfill_dependants,
            "replace": engine.settings().replacement.is_some(),
        },
        "heldAsAWhole": scope.whole.held,
        "fallbacksSinceTheLastEdit": scope.searches.rounds,
        "broken": broken.collect::<Vec<_>>(),
        "decisions": decisions.collect::<Vec<_>>(),
        "onTrial": testing
            .iter()
            .map(|subject| json!({ "object": subject.node.key.to_string(), "section": subject.node.section }))
            .collect::<Vec<_>>(),
        "quarantine": scope.verdicts.quarantine.iter().map(|(content, verdict)| verdict_json(content, verdict)).collect::<Vec<_>>(),
        "lastValid": scope.evidence.last_valid.iter().map(version_json).collect::<Vec<_>>(),
    })
}

fn verdict_json(content: Content, verdict: &Verdict) -> Value {
    json!({
        "content": content, "object": verdict.node.key.to_string(), "section": verdict.node.section,
        "generation": verdict.generation, "detectedBy": verdict.detected, "field": verdict.field,
        "message": verdict.message, "since": Moment(verdict.since), "witnesses": verdict.witnesses,
    })
}

fn version_json(version: &Version) -> Value {
    let metadata = &version.object.metadata;
    json!({
        "object": version.object.key.to_string(), "uid": metadata.uid, "generation": metadata.generation,
        "since": Moment(version.since),
    })
}

fn remembered(scope: &FallbackScope) -> Value {
    let acknowledged = scope.hold.acknowledged_snapshot();
    let resources = ResourceType::ALL.into_iter().flat_map(|kind| {
        acknowledged.of(kind).values().map(move |resource| {
            json!({
                "type": kind.short_name(), "name": resource.name, "version": resource.version.to_string(),
                "bytes": resource.body.len(),
            })
        })
    });
    // Versions of other kinds are known in memory only.
    let kept = scope.evidence.last_valid.iter().filter(|version| is_kept(&version.object.body));
    json!({
        "gateway": scope.id.name,
        "build": scope.id.build,
        "objects": kept.map(version_json).collect::<Vec<_>>(),
        "resources": resources.collect::<Vec<_>>(),
        "verdicts": scope.verdicts.quarantine.iter().map(|(content, verdict)| verdict_json(content, verdict)).collect::<Vec<_>>(),
    })
}
