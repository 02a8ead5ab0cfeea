//! What policies have in common: what they are attached to, and content that must not get lost.
//!
//! A policy protects others: one that cannot be read is kept with its targets, so that they can be closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apis::decode::Found;
use crate::fault::{Class, at};

/// Targets of one policy that is enforced; the CRD allows as many references.
pub const TARGETS_MAX: usize = 16;
/// Targets of one policy that are read, so that what it is over the other limit for is closed at every one of them.
pub const TARGETS_READ_MAX: usize = 1024;

/// A policy of any kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy<T> {
    /// What it is attached to.
    pub targets: Targets,
    /// What it says; `None` where that could not be read.
    pub spec: Option<T>,
    /// What could not be read. The faults are told already.
    pub unread: Vec<Unread>,
}

/// A part of a policy that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unread {
    /// The field, as in `spec.rbac.action`.
    pub field: String,
    /// Why, in a sentence.
    pub message: String,
}

/// What a policy is attached to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// By name, each with its place in the list.
    pub references: Vec<(usize, TargetRef)>,
    /// By labels, each with its place in the list.
    pub selectors: Vec<(usize, TargetSelector)>,
}

/// An object of the policy's namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Group.
    #[serde(default)]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// A listener of a Gateway, or a rule of a route.
    pub section_name: Option<Arc<str>>,
}

/// Objects of the policy's namespace, by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSelector {
    /// Group.
    #[serde(default)]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Labels that they all have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// A listener of a Gateway, or a rule of a route.
    pub section_name: Option<Arc<str>>,
}

/// Reads a policy: targets one by one, then the rest.
pub(in crate::apis) fn read<T: DeserializeOwned>(document: &mut Value, found: &mut Found) -> Policy<T> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let mut policy = Policy { targets: Targets::default(), spec: None, unread: Vec::new() };
    match spec.as_object_mut() {
        Some(fields) => {
            policy.targets.references = entries(fields.remove("targetRefs"), "spec.targetRefs", found);
            policy.targets.selectors = entries(fields.remove("targetSelectors"), "spec.targetSelectors", found);
            policy.spec = found.typed("spec", &spec);
        }
        None => found.invalid("spec", "spec must be set to an object"),
    }
    // What is wrong with its text, version or metadata was found before.
    policy.unread = whole_or_not(found, 0);
    policy
}

/// What was not read since `before`. In a policy nothing is passed over: a field that nobody knows may be the one that
/// protects.
pub(super) fn whole_or_not(found: &mut Found, before: usize) -> Vec<Unread> {
    let since = found.faults.iter_mut().skip(before);
    since
        .map(|fault| {
            fault.class = Class::Invalid;
            Unread { field: fault.field.clone(), message: fault.message.clone() }
        })
        .collect()
}

fn entries<T: Attaching>(value: Option<Value>, field: &str, found: &mut Found) -> Vec<(usize, T)> {
    let entries = match value {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            found.invalid(field, "must be a list");
            vec![other]
        }
    };
    if entries.len() > TARGETS_MAX {
        let unread = match entries.len().checked_sub(TARGETS_READ_MAX) {
            Some(more) if more > 0 => format!("; the last {more} are not read"),
            _ => String::new(),
        };
        found.invalid(field, format!("must have at most {TARGETS_MAX} entries{unread}"));
    }
    let entries = entries.into_iter().take(TARGETS_READ_MAX).enumerate();
    let read = |(index, entry): (usize, Value)| {
        let read = found.typed(&at(field, index), &entry).or_else(|| T::guessed(&entry));
        Some((index, read?))
    };
    entries.filter_map(read).collect()
}

/// Says what a policy is attached to.
trait Attaching: DeserializeOwned {
    /// What one with faults is about at least, so that it can be closed; none where that cannot be told.
    fn guessed(written: &Value) -> Option<Self>;
}

impl Attaching for TargetRef {
    fn guessed(written: &Value) -> Option<Self> {
        let text = |name: &str| written.get(name).and_then(Value::as_str).map(Arc::from);
        let group = text("group").unwrap_or_default();
        // Which section is meant is not known: all of it.
        Some(Self { group, kind: text("kind")?, name: text("name")?, section_name: None })
    }
}

impl Attaching for TargetSelector {
    fn guessed(written: &Value) -> Option<Self> {
        let text = |name: &str| written.get(name).and_then(Value::as_str).map(Arc::from);
        let label = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return None,
            };
            Some((name.clone(), value))
        };
        let match_labels = match written.get("matchLabels") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(labels) => labels.as_object()?.iter().filter_map(label).collect(),
        };
        let group = text("group").unwrap_or_default();
        Some(Self { group, kind: text("kind")?, match_labels, section_name: None })
    }
}

/// Says that something is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Disable {}

/// A size: a number of bytes, or text with a unit, as in `64Ki`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A number.
    Number(i64),
    /// Text.
    Text(Arc<str>),
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use serde_json::{Value, json};

    use super::{TARGETS_MAX, TARGETS_READ_MAX};
    use crate::apis::Body;
    use crate::engine::Event;

    /// How many targets are known of a policy with so many, and what is told of them.
    fn read(count: usize) -> (usize, Vec<String>) {
        let target = |index: usize| json!({"group": "g", "kind": "K", "name": format!("n{index}")});
        let document: Value = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1",
            "kind": "TrafficPolicy",
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"targetRefs": (0..count).map(target).collect::<Vec<_>>()},
        });
        let Some(Event::Applied(object, faults)) = crate::testing::event(document) else { panic!("it is no policy") };
        let Body::TrafficPolicy(policy) = &object.body else { panic!("it is no policy") };
        (policy.targets.references.len(), faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn targets_over_the_limit_are_known_so_that_they_can_be_closed() {
        assert_eq!(read(TARGETS_MAX), (TARGETS_MAX, vec![]));
        let told = "must have at most 16 entries".to_owned();
        assert_eq!(read(TARGETS_MAX + 1), (TARGETS_MAX + 1, vec![told.clone()]));
        assert_eq!(read(TARGETS_READ_MAX), (TARGETS_READ_MAX, vec![told]));
        let told = "must have at most 16 entries; the last 2 are not read".to_owned();
        assert_eq!(read(TARGETS_READ_MAX + 2), (TARGETS_READ_MAX, vec![told]));
    }
}
