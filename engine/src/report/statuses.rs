//! The statuses of all objects.
//!
//! A status depends on the object, on its plan, and on the state of other objects. The statuses of a collection are
//! kept for the next one; see [`kept`].

mod includes;
mod inputs;
pub(crate) mod kept;
mod routes;

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::without_field;
use holdfast_api::object::Object;
use holdfast_api::section::{ObjectSection, is_of_host};
use holdfast_api::status::features::supported;
use holdfast_api::status::{Condition, ObjectStatus};
use holdfast_fallback::served_state::speaking;
use holdfast_graph::{Detected, ObjectKey};
use holdfast_translate::finding::Finding;
use serde_json::{Value, json};

use self::inputs::StatusInputs;
use super::objects_read::objects_read;
use super::survey::field;
use super::{backends, conditions, extensions, unreadable};
use crate::engine::Engine;

/// Returns the status of every object that has one, in order.
pub(super) fn all(engine: &Engine) -> Vec<ObjectStatus> {
    let inputs = StatusInputs::of(engine);
    existing(engine).iter().filter_map(|key| status_of(engine, key, &inputs)).collect()
}

/// Returns the objects that exist, readable or not, in order.
fn existing(engine: &Engine) -> BTreeSet<ObjectKey> {
    let readable = engine.objects().iter().map(|object| &object.key);
    readable.chain(engine.unreadable().map(|(key, ..)| key)).cloned().collect()
}

/// Returns the status of an object; `None` if it has none.
fn status_of(engine: &Engine, key: &ObjectKey, inputs: &StatusInputs<'_>) -> Option<ObjectStatus> {
    let readable = engine.objects().get(key).and_then(|object| Some((object, status(engine, object, inputs)?)));
    let (uid, status) = match readable {
        Some((object, status)) => (object.metadata.uid.clone(), Some(status)),
        None => (Arc::default(), None),
    };
    let status = unreadable::status(engine, key, status)?;
    Some(ObjectStatus { object: key.clone(), uid, status })
}

/// Returns the status of a readable object; `None` if it has none.
fn status(engine: &Engine, object: &Arc<Object>, inputs: &StatusInputs<'_>) -> Option<Value> {
    let (key, generation) = (&object.key, object.metadata.generation);
    let report = &inputs.report;
    Some(match &object.body {
        Body::GatewayClass(class) if class.controller_name == engine.settings().controller_name => {
            class_status(engine, key, generation)
        }
        Body::Gateway(_) => {
            let plan = engine.translator.gateway(key)?;
            let fallback = conditions::condition(report, key, &plan.name);
            engine.gateway_status(key, plan, engine.translator.attached(), fallback, generation)
        }
        Body::ListenerSet(_) => engine.set_status(report, key, engine.translator.attached(), generation)?,
        body if body.route().is_some() => {
            let plan = engine.translator.route(key)?;
            routes::route_status(engine, inputs, key, plan, generation)?
        }
        Body::HttpProxy(_) => proxy_status(engine, inputs, key, generation)?,
        Body::ExtensionService(_) => {
            let findings = engine.translator.extension_findings(key)?;
            holdfast_translate::httpproxy::status::of_extension(findings.iter(), generation)
        }
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => engine.policy_status(report, key, generation)?,
        Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) => {
            backends::backend_policy_status(engine, report, object)?
        }
        Body::Backend(_) => backends::backend_status(engine, report, object)?,
        Body::DirectResponse(_) => extensions::answer_status(engine, report, key, generation)?,
        Body::GatewayExtension(extension) => extensions::extension_status(engine, report, key, extension, generation),
        _ => return None,
    })
}

fn class_status(engine: &Engine, key: &ObjectKey, generation: i64) -> Value {
    let accepted = match engine.translator.class_fault(key) {
        Some(fault) => {
            let message = format!("{}: {}", fault.field, fault.message);
            Condition::new("Accepted", false, "InvalidParameters", message)
        }
        None => Condition::new("Accepted", true, "Accepted", "the class is served by Holdfast"),
    };
    let features = supported(engine.settings().provision).into_iter();
    let features: Vec<Value> = features.map(|name| json!({ "name": name })).collect();
    let conditions = [Some(accepted), engine.problems.as_deref().map(objects_read)].into_iter().flatten();
    let conditions: Vec<Condition> = conditions.map(|condition| condition.of_generation(generation)).collect();
    json!({ "conditions": conditions, "supportedFeatures": features })
}

fn proxy_status(engine: &Engine, inputs: &StatusInputs<'_>, key: &ObjectKey, generation: i64) -> Option<Value> {
    let mut findings = engine.translator.proxy_findings(key)?;
    let gateway = holdfast_translate::httpproxy::listeners::gateway(engine.settings()).namespaced_name();
    findings.extend(refused(engine, key, &gateway));
    let own = conditions::condition(&inputs.report, key, &gateway);
    let fallback = own.or_else(|| includes::condition(&inputs.closed_includes, key));
    let fallback = fallback.map(|condition| condition.of_generation(generation));
    Some(holdfast_translate::httpproxy::status::status(findings.iter(), fallback.as_ref(), generation))
}

/// Returns the parts of an HTTPProxy that Envoys refuse: no other part of its status reports them.
fn refused(engine: &Engine, key: &ObjectKey, gateway: &str) -> BTreeSet<Finding> {
    let scopes = speaking(engine.scopes.of(gateway));
    let broken = scopes.flat_map(|scope| scope.derived.broken.iter().map(move |(node, broken)| (scope, node, broken)));
    let is_verdict = |detected| matches!(detected, Detected::Nack | Detected::Probe);
    let own = broken.filter(|(scope, node, broken)| node.key == *key && is_verdict(scope.detected_of(broken)));
    let found = own.map(|(scope, node, broken)| {
        let kind = match ObjectSection::parse(&node.section) {
            ObjectSection::Include(_) => "IncludeError",
            _ if is_of_host(&node.section) => "VirtualHostError",
            _ => "RouteError",
        };
        let field = field(node, broken);
        let message = scope.message_of(broken);
        let message = without_field(&message, &field);
        Finding::error(key, &field, kind, "RefusedByEnvoy", format!("{field}: {message}"))
    });
    found.collect()
}
