//! Merging of a status with the existing one: own entries are replaced, entries of other controllers are kept
//! unchanged, and each condition has the time of its last transition.

use serde_json::{Map, Value, json};

/// Lists with entries of several controllers that are written as a whole: their names, and the field that identifies
/// the subject of an entry.
const SHARED: [(&str, &str); 2] = [("parents", "parentRef"), ("ancestors", "ancestorRef")];
/// Maximum number of entries of these lists.
const ENTRIES_MAX: [usize; 2] = [32, 16];

/// Returns the status to write; `None` where the existing one is equivalent. `now` is RFC 3339.
///
/// Entries of other controllers come first, unchanged; where the list has no room for all entries, own entries are
/// dropped.
pub fn written(current: &Value, wanted: &Value, controller: &str, now: &str) -> Option<Value> {
    let mut new = wanted.clone();
    timed(&mut new, current, now);
    for ((list, _), max) in SHARED.into_iter().zip(ENTRIES_MAX) {
        let Some(Value::Array(own)) = new.get_mut(list) else { continue };
        let others = entries(current, list).filter(|entry| !is_of(entry, controller)).cloned();
        let mut all: Vec<Value> = others.collect();
        all.append(own);
        all.truncate(max);
        *own = all;
    }
    (!contains(current, &new)).then_some(new)
}

/// Returns the status without own entries; `None` where there are none.
pub fn withdrawn(current: &Value, controller: &str) -> Option<Value> {
    let (list, _) =
        SHARED.into_iter().find(|(list, _)| entries(current, list).any(|entry| is_of(entry, controller)))?;
    let others: Vec<&Value> = entries(current, list).filter(|entry| !is_of(entry, controller)).collect();
    Some(json!({ list: others }))
}

fn entries<'a>(status: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    status.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn is_of(entry: &Value, controller: &str) -> bool {
    entry.get("controllerName").and_then(Value::as_str) == Some(controller)
}

/// Sets the time of each condition: that of an equal condition at the same position, else `now`.
fn timed(new: &mut Value, old: &Value, now: &str) {
    match new {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let before = old.get(name).unwrap_or(&Value::Null);
                match value {
                    Value::Array(entries) if name == "conditions" => {
                        for condition in entries.iter_mut().filter_map(Value::as_object_mut) {
                            let time = since(condition, before).unwrap_or_else(|| now.to_owned());
                            condition.insert("lastTransitionTime".into(), time.into());
                        }
                    }
                    other => timed(other, before, now),
                }
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                let before = same_place(entry, old).cloned().unwrap_or_default();
                timed(entry, &before, now);
            }
        }
        _ => {}
    }
}

/// Returns since when a condition has its current status.
fn since(condition: &Map<String, Value>, before: &Value) -> Option<String> {
    let same = |old: &&Value| ["type", "status"].iter().all(|field| old.get(*field) == condition.get(*field));
    let old = before.as_array()?.iter().find(same)?;
    old.get("lastTransitionTime").and_then(Value::as_str).map(str::to_owned)
}

/// Returns the entry of a list with the same subject: by its reference, or by its name.
fn same_place<'a>(entry: &Value, list: &'a Value) -> Option<&'a Value> {
    let fields = ["parentRef", "ancestorRef", "controllerName", "name"];
    let known: Vec<&str> = fields.into_iter().filter(|field| entry.get(*field).is_some()).collect();
    let same = |old: &&Value| !known.is_empty() && known.iter().all(|field| old.get(*field) == entry.get(*field));
    list.as_array()?.iter().find(same)
}

/// Returns whether a status already contains all of the new one. Additional fields of other controllers are ignored.
fn contains(current: &Value, new: &Value) -> bool {
    match (current, new) {
        (Value::Object(current), Value::Object(new)) => new.iter().all(|(name, value)| {
            let there = current.get(name);
            // The API server omits empty fields.
            there.is_some_and(|there| contains(there, value)) || (there.is_none() && is_empty(value))
        }),
        (Value::Array(there), Value::Array(wanted)) if wanted.iter().all(|entry| entry.get("type").is_some()) => {
            // A list of conditions may also contain those of other controllers.
            let of = |entry: &Value| there.iter().find(|known| known.get("type") == entry.get("type")).cloned();
            wanted.iter().all(|entry| of(entry).is_some_and(|known| contains(&known, entry)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| contains(there, wanted))
        }
        _ => current == new,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "holdfast.dev/gateway-controller";

    fn parent(controller: &str, status: &str, time: Option<&str>) -> Value {
        let mut condition = json!({"type": "Accepted", "status": status, "reason": "R", "message": "m"});
        if let Some(time) = time {
            condition["lastTransitionTime"] = time.into();
        }
        json!({"parentRef": {"name": "web"}, "controllerName": controller, "conditions": [condition]})
    }

    #[test]
    fn a_condition_keeps_its_time_as_long_as_its_status_is_the_same() {
        let old = json!({"parents": [parent(OURS, "True", Some("then"))]});
        assert_eq!(written(&old, &json!({"parents": [parent(OURS, "True", None)]}), OURS, "now"), None);
        let mut other_message = parent(OURS, "True", None);
        other_message["conditions"][0]["message"] = "other".into();
        let new = written(&old, &json!({ "parents": [other_message] }), OURS, "now").unwrap_or_default();
        assert_eq!(new["parents"][0]["conditions"][0]["lastTransitionTime"], "then");
        let new = written(&old, &json!({"parents": [parent(OURS, "False", None)]}), OURS, "now").unwrap_or_default();
        assert_eq!(new["parents"][0]["conditions"][0]["lastTransitionTime"], "now");
    }

    #[test]
    fn entries_of_other_controllers_stay_as_they_are() {
        let other = parent("example.com/other", "False", Some("then"));
        let old = json!({"parents": [parent(OURS, "True", Some("then")), other]});
        let new = written(&old, &json!({"parents": [parent(OURS, "False", None)]}), OURS, "now").unwrap_or_default();
        assert_eq!(new, json!({"parents": [other, parent(OURS, "False", Some("now"))]}));
        assert_eq!(withdrawn(&new, OURS), Some(json!({ "parents": [other] })));
        assert_eq!(withdrawn(&json!({ "parents": [other] }), OURS), None);
    }

    #[test]
    fn lists_are_no_longer_than_they_may_be() {
        let others: Vec<Value> = (0..16).map(|n| parent(&format!("example.com/{n}"), "True", Some("then"))).collect();
        let old = json!({ "ancestors": others });
        assert_eq!(written(&old, &json!({"ancestors": [parent(OURS, "True", None)]}), OURS, "now"), None);
    }

    #[test]
    fn conditions_of_others_count_for_nothing() {
        let own = json!({"type": "Accepted", "status": "True"});
        let old = json!({"conditions": [{"type": "Theirs", "status": "False", "lastTransitionTime": "then"},
            {"type": "Accepted", "status": "True", "lastTransitionTime": "then"}], "more": 1});
        assert_eq!(written(&old, &json!({"conditions": [own], "addresses": []}), OURS, "now"), None);
        let new = written(&old, &json!({"conditions": [{"type": "Accepted", "status": "False"}]}), OURS, "now");
        assert_eq!(
            new,
            Some(json!({"conditions": [{"type": "Accepted", "status": "False", "lastTransitionTime": "now"}]}))
        );
    }

    #[test]
    fn conditions_of_listeners_are_found_by_their_names() {
        let listener = |name: &str, time: Option<&str>| {
            let mut condition = json!({"type": "Programmed", "status": "True"});
            if let Some(time) = time {
                condition["lastTransitionTime"] = time.into();
            }
            json!({"name": name, "conditions": [condition]})
        };
        let old = json!({"listeners": [listener("a", Some("then")), listener("b", Some("later"))]});
        let new = written(&old, &json!({"listeners": [listener("b", None), listener("c", None)]}), OURS, "now");
        assert_eq!(new, Some(json!({"listeners": [listener("b", Some("later")), listener("c", Some("now"))]})));
    }
}
