//! Diagnostics pages as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::object::Object;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::engine::Engine;
use holdfast_engine::report::inspection::Failed;
use holdfast_fallback::checker::Objection;
use holdfast_graph::{Node, ObjectKey, Origins};
use holdfast_xds::{Resource, ResourceType, Snapshot};
use serde_json::{Value, json};

use crate::serve::core::{Core, ManifestPositions};
use crate::store::persist::Persisted;

/// The served configuration and the objects that it was made from.
pub struct Config {
    published: BTreeMap<Arc<str>, Snapshot>,
    objects: ObjectSnapshot,
    places: ManifestPositions,
}

impl Config {
    /// Takes the current state of the main loop. Cheap: contents are shared.
    pub fn of(core: &Core) -> Self {
        let (published, objects) = (core.published.clone(), core.engine.objects().clone());
        Self { published, objects, places: core.places.clone() }
    }

    /// All objects, and the resources of every Gateway with their origins. `gateway` and `kind` filter the resources.
    pub fn page(&self, gateway: Option<&str>, kind: Option<&str>) -> Value {
        let gateways: Vec<Value> = self
            .published
            .iter()
            .filter(|(name, _)| gateway.is_none_or(|wanted| wanted == &***name))
            .map(|(name, snapshot)| json!({ "name": name, "resources": resources(snapshot, kind) }))
            .collect();
        let objects: Vec<Value> = self.objects.sorted().into_iter().map(|object| self.object(object)).collect();
        json!({ "gateways": gateways, "objects": objects })
    }

    fn object(&self, object: &Object) -> Value {
        let place = self.places.get(&object.key);
        json!({
            "object": object.key.to_string(),
            "uid": object.metadata.uid,
            "generation": object.metadata.generation,
            "file": place.map(|place| &place.file),
            "line": place.map(|place| place.line),
        })
    }
}

/// The resources of a Gateway in the order in which Envoys receive them. `wanted` filters by type, such as `RDS`.
pub fn resources(snapshot: &Snapshot, wanted: Option<&str>) -> Vec<Value> {
    let wanted = |kind: &ResourceType| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.short_name()));
    let of = |kind: ResourceType| snapshot.of(kind).values().map(move |resource| describe(kind, resource));
    ResourceType::ALL.into_iter().filter(wanted).flat_map(of).collect()
}

/// One resource as JSON, without secrets.
pub fn describe(kind: ResourceType, resource: &Resource) -> Value {
    json!({
        "type": kind.short_name(),
        "typeUrl": kind.url(),
        "name": resource.name,
        "version": resource.version.to_string(),
        "bytes": resource.body.len(),
        "origins": origins(&resource.origins),
        "config": holdfast_xds::to_json(kind, &resource.body),
    })
}

fn origins(origins: &Origins) -> Vec<String> {
    origins.iter().map(ToString::to_string).collect()
}

/// The dependency graph, with the broken and the affected objects.
pub fn graph(engine: &Engine) -> Value {
    let (broken, affected) = engine.affected();
    let keys = |keys: BTreeSet<ObjectKey>| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({ "edges": engine.graph().view(), "broken": keys(broken), "affected": keys(affected) })
}

/// The dependency graph in Graphviz form.
pub fn dot(engine: &Engine) -> String {
    let (broken, affected) = engine.affected();
    engine.graph().dot(&broken, &affected)
}

/// The refused configurations that are not served, each with its content.
pub fn failed(failed: Vec<Failed>) -> Value {
    let entry = |mut failed: Failed| {
        if let Some(fields) = failed.description.as_object_mut() {
            fields.insert("config".into(), holdfast_xds::to_json(failed.kind, &failed.body));
        }
        failed.description
    };
    json!({ "failed": failed.into_iter().map(entry).collect::<Vec<_>>() })
}

/// The versions, configurations and verdicts to be stored, as the main loop knows them.
pub struct Remembered {
    scopes: Value,
    /// Whether the persistence has all of them, and writes to the folder that the next run reads.
    is_given: bool,
}

impl Remembered {
    /// Takes the current state of the main loop.
    pub fn of(core: &Core) -> Self {
        Self { scopes: core.engine.remembered(), is_given: core.has_given_all_to_the_store() }
    }
}

/// The contents of the store, and the state of its commits. The state of the persistence is read after the contents: if
/// nothing waits then, all of the contents are on the disk.
pub fn store(remembered: &Remembered, persisted: Option<&Persisted>) -> Value {
    let Remembered { scopes, is_given } = remembered;
    let Some(persisted) = persisted else {
        return json!({ "stored": false, "scopes": scopes });
    };
    let Persisted { commits, errors, refused, last_duration, statistics, waits, .. } = persisted;
    json!({
        "stored": true,
        "upToDate": *is_given && waits.is_none(),
        "failing": persisted.not_stored(),
        "commits": commits,
        "errors": errors,
        "refused": refused,
        "lastCommitSeconds": last_duration.as_secs_f64(),
        "generation": statistics.generation,
        "bytesOnDisk": statistics.bytes_on_disk,
        "versions": statistics.versions,
        "memoryOnly": statistics.memory_only,
        "unreadable": statistics.unreadable,
        "sealed": statistics.sealed,
        "scopes": scopes,
    })
}

/// The status of every object, and the served Gateways.
pub fn statuses(core: &Core) -> Value {
    json!({ "gateways": core.engine.gateways(), "objects": core.engine.statuses() })
}

/// All problems (faults of objects, refusals by Envoys, unreadable files), and the replacements that are served
/// instead.
pub fn faults(core: &Core) -> Value {
    let refused: Vec<Value> = core
        .engine
        .refusals()
        .into_iter()
        .map(|(gateway, refusal)| json!({ "gateway": gateway, "refusal": refusal }))
        .collect();
    let objections = core.engine.objections();
    let objections: Vec<Value> = objections
        .into_iter()
        .map(|(gateway, Objection { node, about, why, cause })| {
            let Node { key: object, section } = node;
            json!({
                "gateway": gateway, "object": object, "section": section, "about": about, "message": why, "cause": cause,
            })
        })
        .collect();
    let faults: Vec<Value> = core
        .engine
        .faults()
        .iter()
        .map(|fault| {
            let place = core.places.get(&fault.object);
            json!({ "fault": fault, "file": place.map(|place| &place.file), "line": place.map(|place| place.line) })
        })
        .collect();
    json!({
        "faults": faults,
        "replacements": core.engine.replacements(),
        "refusals": refused,
        "objections": objections,
        "problems": core.problems,
    })
}
