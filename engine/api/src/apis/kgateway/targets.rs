//! Targets of policies, read one by one. A target that the API server would not accept is reported, and counts as
//! unreadable: its intention is unknown, and the targets of the previous version must not lose their protection.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GROUP;
use crate::apis::decode::Found;
use crate::apis::{gateway, kinds};
use crate::fault::at;

/// Number of targets of one policy that is enforced; the limit of the CRD for references.
pub const TARGETS_MAX: usize = 16;
/// Number of targets of one policy that are read; a policy over the other limit is closed at every one of them.
pub const TARGETS_READ_MAX: usize = 1024;

/// What follows from a target of which not even the object is known.
const UNKNOWN: &str = "; what this target is meant for is served without the policy, unless the previous version of \
                       the policy has the same target";

/// The targets of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// References by name, each with its index in the list.
    pub references: Vec<(usize, TargetRef)>,
    /// Selectors by labels, each with its index in the list.
    pub selectors: Vec<(usize, TargetSelector)>,
}

impl Targets {
    /// Adds the missing targets of another version, after the own ones.
    pub(super) fn add(&mut self, others: &Self) {
        add(&mut self.references, &others.references);
        add(&mut self.selectors, &others.selectors);
    }
}

/// Adds the missing entries. The number of entries is limited, since any number of unreadable edits may follow each
/// other.
fn add<T: Clone + PartialEq>(entries: &mut Vec<(usize, T)>, others: &[(usize, T)]) {
    for (place, entry) in others {
        if entries.len() < TARGETS_READ_MAX && !entries.iter().any(|(_, known)| known == entry) {
            entries.push((*place, entry.clone()));
        }
    }
}

/// A reference to an object in the namespace of the policy.
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
    /// Name of a listener of a Gateway, or of a rule of a route.
    pub section_name: Option<Arc<str>>,
}

/// A selector of objects in the namespace of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSelector {
    /// Group.
    #[serde(default)]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Labels that every object must have.
    pub match_labels: BTreeMap<String, String>,
    /// Name of a listener of a Gateway, or of a rule of a route.
    pub section_name: Option<Arc<str>>,
}

/// Decodes a list of targets; sets `lost` where it is not certain which objects an entry refers to.
pub(super) fn read<T: PolicyTarget>(
    value: Option<Value>,
    field: &str,
    found: &mut Found,
    lost: &mut bool,
) -> Vec<(usize, T)> {
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
    *lost |= entries.len() > TARGETS_READ_MAX;
    let entries = entries.into_iter().take(TARGETS_READ_MAX).enumerate();
    entries.filter_map(|(index, entry)| Some((index, one(&entry, &at(field, index), found, lost)?))).collect()
}

fn one<T: PolicyTarget>(written: &Value, field: &str, found: &mut Found, lost: &mut bool) -> Option<T> {
    let before = found.faults.len();
    let read = found.typed(field, written).or_else(|| T::guessed(written));
    *lost |= read.is_none() || (found.faults.len() > before && !T::is_certain(written));
    if read.is_none()
        && let Some(fault) =
            found.faults.get_mut(before..).and_then(|own| own.iter_mut().find(|fault| fault.is_error()))
    {
        fault.message.push_str(UNKNOWN);
    }
    let target: T = read?;
    if written.get("sectionName").is_some_and(|name| name == "") {
        *lost |= !T::is_certain(written);
        found.invalid(format!("{field}.sectionName"), "must not be empty");
        // The intended section is unknown.
        return T::guessed(written);
    }
    let (group, kind) = target.object();
    if !may_be_written(&found.key.kind, group, kind) {
        *lost = true;
        if found.faults.len() == before {
            let (part, of) = match group {
                "" => ("group", format!("{kind} of the core group (group is empty)")),
                group => ("kind", format!("{group}/{kind}")),
            };
            let message = format!("a {} cannot be attached to objects of kind {of}", found.key.kind);
            found.invalid(format!("{field}.{part}"), message);
        }
    }
    Some(target)
}

/// Returns whether the CRD of a policy accepts targets of a kind, even if this version of Holdfast ignores them.
/// Another target is a fault of the policy.
pub fn may_be_written(policy: &str, group: &str, kind: &str) -> bool {
    const ISTIO: &str = "networking.istio.io";
    match policy {
        kinds::TRAFFIC_POLICY => {
            let is_route = matches!(kind, kinds::GATEWAY | kinds::HTTP_ROUTE | kinds::GRPC_ROUTE);
            !group.is_empty() && (is_route || kind.ends_with(kinds::LISTENER_SET))
        }
        // Later versions of the CRD accept ListenerSets.
        kinds::LISTENER_POLICY => {
            (group == gateway::GROUP && kind == kinds::GATEWAY) || kind.ends_with(kinds::LISTENER_SET)
        }
        kinds::BACKEND_CONFIG_POLICY => {
            matches!((group, kind), ("", kinds::SERVICE) | (GROUP, kinds::BACKEND) | (ISTIO, "Hostname"))
        }
        _ => true,
    }
}

/// A target of a policy.
pub(super) trait PolicyTarget: DeserializeOwned {
    /// Returns at least the objects that a target with faults refers to, so that they can be closed; `None` where they
    /// cannot be read.
    fn guessed(written: &Value) -> Option<Self>;

    /// Returns whether a target with faults refers to no other object than the guessed one.
    fn is_certain(written: &Value) -> bool;

    /// Returns group and kind of the objects.
    fn object(&self) -> (&str, &str);
}

fn text(written: &Value, name: &str) -> Option<Arc<str>> {
    written.get(name).and_then(Value::as_str).map(Arc::from)
}

impl PolicyTarget for TargetRef {
    fn guessed(written: &Value) -> Option<Self> {
        let group = text(written, "group").unwrap_or_default();
        // The intended section is unknown, so the whole object is the target.
        Some(Self { group, kind: text(written, "kind")?, name: text(written, "name")?, section_name: None })
    }

    fn is_certain(written: &Value) -> bool {
        ["group", "kind", "name"].into_iter().all(|name| text(written, name).is_some())
    }

    fn object(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }
}

impl PolicyTarget for TargetSelector {
    fn guessed(written: &Value) -> Option<Self> {
        let label = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return None,
            };
            Some((name.clone(), value))
        };
        let match_labels: BTreeMap<_, _> = written.get("matchLabels")?.as_object()?.iter().filter_map(label).collect();
        let group = text(written, "group").unwrap_or_default();
        let selector = Self { group, kind: text(written, "kind")?, match_labels, section_name: None };
        (!selector.match_labels.is_empty()).then_some(selector)
    }

    /// An unreadable label may be any one.
    fn is_certain(_: &Value) -> bool {
        false
    }

    fn object(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }
}
