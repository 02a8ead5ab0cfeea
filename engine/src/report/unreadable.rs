//! Statuses of objects of which nothing can be read: what is wrong is told, in as much of a status as can be known.
//!
//! Which parents a route asks for is known of the version that stands in for it, where one does. No generation is told:
//! nobody knows which one it is.

use holdfast_graph::ObjectKey;
use serde_json::{Value, json};

use super::reference;
use crate::apis::gateway::listener_set;
use crate::engine::Engine;
use crate::fallback::conditions::condition;
use crate::fallback::view::FallbackReport;
use crate::fault::Fault;
use crate::status::{Condition, ObjectStatus};

/// The reason that is given.
const REASON: &str = "Invalid";

impl Engine {
    /// Puts them in their places among the others. Of a Gateway, ListenerSet or class that stays as it was read last the
    /// status is there already, and says so.
    pub(super) fn tell_of_unreadable(&self, report: &FallbackReport, statuses: &mut Vec<ObjectStatus>) {
        for (key, _, fault) in self.unreadable() {
            let message = message(fault);
            match statuses.iter_mut().find(|known| known.object == *key) {
                Some(known) => not_accepted(&mut known.status, &message),
                None => {
                    let status = self.status_of_unreadable(report, key, &message);
                    statuses.extend(status.map(|status| ObjectStatus { object: key.clone(), status }));
                }
            }
        }
        statuses.sort_by(|a, b| a.object.cmp(&b.object));
    }

    fn status_of_unreadable(&self, report: &FallbackReport, key: &ObjectKey, message: &str) -> Option<Value> {
        let accepted = Condition::new("Accepted", false, REASON, message);
        match &*key.kind {
            "HTTPRoute" | "GRPCRoute" => {
                let served = self.lines.iter().find_map(|line| self.translator.served_route(&line.fleet, key));
                let parents = served.into_iter().flat_map(|plan| &plan.parents).map(|parent| {
                    let fallback = condition(report, key, &parent.gateway.namespaced_name());
                    json!({
                        "parentRef": reference(parent),
                        "controllerName": self.settings().controller_name,
                        "conditions": std::iter::once(accepted.clone()).chain(fallback).collect::<Vec<_>>(),
                    })
                });
                let parents: Vec<Value> = parents.collect();
                // Whom it would be told for is not known: it is told all the same.
                Some(match parents.is_empty() {
                    true => json!({ "parents": [], "conditions": [accepted] }),
                    false => json!({ "parents": parents }),
                })
            }
            "Gateway" | listener_set::KIND => Some(json!({ "conditions": [accepted], "listeners": [] })),
            "HTTPProxy" => {
                let valid = Condition::new("Valid", false, "ErrorPresent", message);
                Some(json!({ "conditions": [valid], "currentStatus": "invalid", "description": message }))
            }
            // Whose a class is that nobody has read is not known, and other kinds have no status.
            _ => None,
        }
    }
}

fn message(fault: Option<&Fault>) -> String {
    match fault {
        Some(fault) if fault.field.is_empty() => format!("the object cannot be read: {}", fault.message),
        Some(fault) => format!("the object cannot be read: {}: {}", fault.field, fault.message),
        None => "the object cannot be read".to_owned(),
    }
}

fn not_accepted(status: &mut Value, message: &str) {
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    let accepted = conditions.and_then(|all| all.iter_mut().find(|condition| condition["type"] == "Accepted"));
    if let Some(Value::Object(accepted)) = accepted {
        accepted.insert("status".into(), "False".into());
        accepted.insert("reason".into(), REASON.into());
        accepted.insert("message".into(), format!("{message}; it is served as it was read last").into());
    }
}
