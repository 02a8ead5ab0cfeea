//! Statuses of unreadable objects: the problem is reported in the part of the status that can be determined.
//!
//! The parents of a route are those of the version that was read last, if it is known. No generation is reported, since
//! the generation is unknown.

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_api::status::Condition;
use holdfast_graph::ObjectKey;
use serde_json::{Value, json};

use crate::engine::Engine;

/// Reason of the condition.
const REASON: &str = "Invalid";

/// Returns the status of an object that exists, with the problem if it cannot be read. An object that is served in its
/// last readable version, and a route with the claims of that version, has a status already; the problem is added to it.
pub(super) fn status(engine: &Engine, key: &ObjectKey, status: Option<Value>) -> Option<Value> {
    let Some(fault) = engine.why_unreadable(key) else { return status };
    let message = message(fault);
    let Some(mut status) = status else { return status_of_unreadable(key, &message) };
    let kept = match kinds::ROUTES.contains(&&*key.kind) {
        true => "the hosts and matches of the version that was read last are kept",
        false => "the version that was read last is served",
    };
    not_accepted(&mut status, &format!("{message}; {kept}"));
    Some(status)
}

fn status_of_unreadable(key: &ObjectKey, message: &str) -> Option<Value> {
    let accepted = Condition::new("Accepted", false, REASON, message);
    match &*key.kind {
        // Without a known version, the parents are unknown: the condition is reported without a parent.
        kind if kinds::ROUTES.contains(&kind) => Some(json!({ "parents": [], "conditions": [accepted] })),
        kinds::GATEWAY | kinds::LISTENER_SET => Some(json!({ "conditions": [accepted], "listeners": [] })),
        kinds::HTTP_PROXY => {
            let valid = Condition::new("Valid", false, "ErrorPresent", message);
            Some(json!({ "conditions": [valid], "currentStatus": "invalid", "description": message }))
        }
        // The controller of an unreadable GatewayClass is unknown, and other kinds have no status.
        _ => None,
    }
}

fn message(fault: Option<&Fault>) -> String {
    match fault {
        Some(fault) if fault.field.is_empty() => format!("the object cannot be read: {}", fault.message),
        Some(fault) => format!("the object cannot be read: {}: {}", fault.field, fault.message),
        None => "the object cannot be read".to_owned(),
    }
}

/// Changes a status of an earlier version: the object is neither accepted nor valid, at the top and in each entry.
fn not_accepted(status: &mut Value, message: &str) {
    for list in ["parents", "ancestors"] {
        let entries = status.get_mut(list).and_then(Value::as_array_mut);
        entries.into_iter().flatten().for_each(|entry| negate(entry, message));
    }
    negate(status, message);
    if let Some(fields) = status.as_object_mut()
        && fields.contains_key("currentStatus")
    {
        fields.insert("currentStatus".into(), "invalid".into());
        fields.insert("description".into(), message.into());
    }
}

fn negate(status: &mut Value, message: &str) {
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        let reason = match condition.get("type").and_then(Value::as_str) {
            Some("Accepted") => REASON,
            Some("Valid") => "ErrorPresent",
            _ => continue,
        };
        condition.insert("status".into(), "False".into());
        condition.insert("reason".into(), reason.into());
        condition.insert("message".into(), message.into());
    }
}
