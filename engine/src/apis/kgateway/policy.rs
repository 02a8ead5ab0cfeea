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

/// Targets of one policy; the CRD allows as many references.
pub const TARGETS_MAX: usize = 16;

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    let before = found.faults.len();
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
    policy.unread = whole_or_not(found, before);
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

fn entries<T: DeserializeOwned>(value: Option<Value>, field: &str, found: &mut Found) -> Vec<(usize, T)> {
    let entries = match value {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            found.invalid(field, "must be a list");
            return Vec::new();
        }
    };
    if entries.len() > TARGETS_MAX {
        found.invalid(field, format!("must have at most {TARGETS_MAX} entries"));
    }
    let entries = entries.into_iter().take(TARGETS_MAX).enumerate();
    entries.filter_map(|(index, entry)| Some((index, found.typed(&at(field, index), &entry)?))).collect()
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
