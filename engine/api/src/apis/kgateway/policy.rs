//! Common form of policies: their targets, and content that must not get lost.
//!
//! A policy protects other objects: the targets of a policy that cannot be read are kept, so that they can be closed.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::targets::{self, Targets};
use crate::apis::decode::{Found, UNKNOWN_FIELD};
use crate::apis::kinds;
use crate::fault::{Class, Fault, at};

/// A policy of any kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy<T> {
    /// The targets.
    pub targets: Targets,
    /// The spec without its targets; `None` where it could not be read.
    pub spec: Option<T>,
    /// Parts that could not be read. Their faults are already reported.
    pub unread: Vec<Unread>,
    /// Whether it is not certain which objects some target refers to, or the policy has no readable spec. Then the
    /// targets of the previous version count as well.
    pub targets_lost: bool,
}

impl<T: Clone> Policy<T> {
    /// Adds the targets of the previous version, after the current ones, where a target could not be read.
    pub(in crate::apis) fn keep_targets(self: &mut Arc<Self>, before: &Self) {
        if !self.targets_lost {
            return;
        }
        let policy = Arc::make_mut(self);
        policy.targets.add(&before.targets);
    }
}

/// A part of a policy that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unread {
    /// The field, as in `spec.rbac.action`.
    pub field: String,
    /// Why, in a sentence.
    pub message: String,
}

/// Fields that only observe requests: access logs, tracing and names of statistics protect no request.
const OBSERVING: [&str; 4] = ["tracing", "statPrefix", LOGS, "httpSettings.tracing"];
/// The one of these fields that is a list of independent entries: a fault in an entry does not affect the others.
const LOGS: &str = "httpSettings.accessLog";
/// Number of unreadable observing parts that are left out one by one; where there are more, all observing parts are
/// left out.
const UNREAD_PARTS_MAX: usize = 32;

/// Reads a policy: targets one by one, then the rest.
pub(in crate::apis) fn read<T: DeserializeOwned>(document: &mut Value, found: &mut Found) -> Policy<T> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let mut policy = Policy { targets: Targets::default(), spec: None, unread: Vec::new(), targets_lost: false };
    match spec.as_object_mut() {
        Some(fields) => {
            let (references, selectors) = (fields.remove("targetRefs"), fields.remove("targetSelectors"));
            let is_null = |list: &Option<Value>| list.as_ref().is_some_and(Value::is_null);
            let nulls = [("spec.targetRefs", is_null(&references)), ("spec.targetSelectors", is_null(&selectors))];
            let lost = &mut policy.targets_lost;
            if let Some((field, message)) = missing(&found.key.kind, &references, &selectors) {
                found.invalid(field, message);
                *lost = true;
            }
            policy.targets.references = targets::read(references, "spec.targetRefs", found, lost);
            policy.targets.selectors = targets::read(selectors, "spec.targetSelectors", found, lost);
            // One of the two lists may be null beside the other. A document that is cut after the name of the list has
            // no target at all.
            if policy.targets == Targets::default() && !*lost {
                for (field, _) in nulls.into_iter().filter(|(_, is_null)| *is_null) {
                    found.invalid(field, "must be a list; the policy has no target");
                    *lost = true;
                }
            }
            let before = found.faults.len();
            policy.spec = typed(&mut spec, found);
            // An unknown field may be the list of targets.
            let is_of_spec = |fault: &Fault| {
                let name = fault.field.strip_prefix("spec.");
                fault.reason == UNKNOWN_FIELD && name.is_some_and(|name| !name.contains(['.', '[']))
            };
            policy.targets_lost |= found.faults.iter().skip(before).any(is_of_spec);
        }
        None => {
            found.invalid("spec", "spec must be set to an object");
            policy.targets_lost = true;
        }
    }
    // Faults of the text, version or metadata were found earlier.
    policy.unread = whole_or_not(found, 0);
    policy
}

/// Returns the faults of lists of targets that the CRDs do not accept.
fn missing(kind: &str, references: &Option<Value>, selectors: &Option<Value>) -> Option<(&'static str, &'static str)> {
    let is_empty = |list: &Option<Value>| list.as_ref().and_then(Value::as_array).is_some_and(Vec::is_empty);
    match references {
        None if kind == kinds::BACKEND_TLS_POLICY => Some(("spec.targetRefs", "must be set")),
        Some(_) if is_empty(references) && selectors.as_ref().is_none_or(Value::is_null) => {
            Some(("spec.targetRefs", "must have at least one entry"))
        }
        _ => None,
    }
}

/// Decodes the spec of a policy. An observing part that cannot be decoded is left out, and the rest is decoded; of the
/// list of logs, only the entry with the fault is left out.
fn typed<T: DeserializeOwned>(spec: &mut Value, found: &mut Found) -> Option<T> {
    for part in logs_of(spec) {
        let Some(Value::Array(entries)) = spec.pointer(&part) else { continue };
        let empty = entries.iter().enumerate().filter(|(_, entry)| entry.is_null()).take(UNREAD_PARTS_MAX);
        let field = format!("spec{}", field_path(&part));
        empty.for_each(|(index, _)| found.invalid(at(&field, index), "must be an object"));
    }
    let before = found.faults.len();
    for _ in 0..UNREAD_PARTS_MAX {
        if let Some(read) = found.typed("spec", spec) {
            return Some(read);
        }
        // Each attempt reports the unknown fields again.
        let mut index = 0;
        found.faults.retain(|fault| {
            index += 1;
            index <= before || fault.is_error()
        });
        let field = found.faults.last().map(|fault| fault.field.clone())?;
        leave_out(spec, &observing(&field)?, entry_of(&field))?;
    }
    // Each unreadable part costs a decoding of the whole spec.
    let message = format!(
        "more than {UNREAD_PARTS_MAX} access logs or other observing settings cannot be decoded; the policy is used \
         without any of them"
    );
    found.faults.last().map(|fault| fault.field.clone()).into_iter().for_each(|field| found.invalid(field, &*message));
    let parents: Vec<String> = parents(spec);
    for part in parents.iter().flat_map(|parent| OBSERVING.map(|own| format!("{parent}/{}", own.replace('.', "/")))) {
        leave_out(spec, &part, None);
    }
    found.typed("spec", spec)
}

/// Removes a part, or one entry of a part; the entries after it keep their indexes.
fn leave_out(spec: &mut Value, part: &str, entry: Option<usize>) -> Option<()> {
    if let Some(entry) = entry
        && let Some(entry) = spec.pointer_mut(part).and_then(|list| list.get_mut(entry))
    {
        *entry = Value::Null;
        return Some(());
    }
    let (parent, name) = part.rsplit_once('/')?;
    spec.pointer_mut(parent)?.as_object_mut()?.remove(name).map(drop)
}

/// Returns the paths below `spec` of the objects that may have observing fields.
fn parents(spec: &Value) -> Vec<String> {
    let ports = spec.get("perPort").and_then(Value::as_array).map_or(0, Vec::len);
    let ports = (0..ports).map(|port| format!("/perPort/{port}/listener"));
    [String::new(), "/default".into()].into_iter().chain(ports).collect()
}

/// Returns the paths below `spec` of the lists of logs.
fn logs_of(spec: &Value) -> Vec<String> {
    parents(spec).into_iter().map(|parent| format!("{parent}/{}", LOGS.replace('.', "/"))).collect()
}

/// Formats a JSON pointer as a field path of faults: `/perPort/1/listener` as `.perPort[1].listener`.
fn field_path(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1);
    steps.fold(String::new(), |path, step| match step.parse::<usize>() {
        Ok(index) => at(&path, index),
        Err(_) => format!("{path}.{step}"),
    })
}

/// Returns the index of the entry in a list of logs that a field path refers to.
fn entry_of(field: &str) -> Option<usize> {
    let (_, behind) = field.split_once(&format!("{LOGS}["))?;
    behind.split_once(']')?.0.parse().ok()
}

/// Returns the path below `spec` of the observing part that contains a field, or `None` for other fields.
fn observing(field: &str) -> Option<String> {
    let below = field.strip_prefix("spec.")?;
    let of_port = || {
        let (index, rest) = below.strip_prefix("perPort[")?.split_once("].listener.")?;
        Some((format!("/perPort/{index}/listener"), rest))
    };
    let default = || Some(("/default".to_owned(), below.strip_prefix("default.")?));
    let (parent, rest) = default().or_else(of_port).unwrap_or((String::new(), below));
    let is_at =
        |own: &&str| rest.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let own = OBSERVING.into_iter().find(is_at)?;
    Some(format!("{parent}/{}", own.replace('.', "/")))
}

/// Returns the parts that could not be read since `before`. In a policy, an unknown field is an error: it may be the
/// field that protects. Observing fields do not protect: their faults get the class `Ignored`.
pub(super) fn whole_or_not(found: &mut Found, before: usize) -> Vec<Unread> {
    let mut unread = Vec::new();
    for fault in found.faults.iter_mut().skip(before) {
        if observing(&fault.field).is_some() {
            fault.class = Class::Ignored;
        } else {
            fault.class = Class::Invalid;
            unread.push(Unread { field: fault.field.clone(), message: fault.message.clone() });
        }
    }
    unread
}

/// A marker that switches something off.
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
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::targets::{TARGETS_MAX, TARGETS_READ_MAX};
    use super::observing;
    use crate::apis::{Body, Decoded, decode};
    use crate::fault::Fault;
    use crate::object::Object;

    fn object(document: Value) -> Option<(Box<Object>, Vec<Fault>)> {
        match decode(document, None) {
            Decoded::Object(object, faults) => Some((object, faults)),
            Decoded::Unusable(..) | Decoded::Foreign(_) | Decoded::Unserved(_) | Decoded::Nameless(_) => None,
        }
    }

    /// Returns the number of known targets of a policy with `count` targets, and the messages of its faults.
    fn read(count: usize) -> (usize, Vec<String>) {
        let target = |index: usize| json!({"group": "g", "kind": "HTTPRoute", "name": format!("n{index}")});
        let document: Value = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1",
            "kind": "TrafficPolicy",
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"targetRefs": (0..count).map(target).collect::<Vec<_>>()},
        });
        let Some((object, faults)) = object(document) else { panic!("it is no policy") };
        let Body::TrafficPolicy(policy) = &object.body else { panic!("it is no policy") };
        (policy.targets.references.len(), faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn targets_over_the_limit_are_known_so_that_they_can_be_closed() {
        assert_eq!(read(TARGETS_MAX), (TARGETS_MAX, vec![]));
        let message = "must have at most 16 entries".to_owned();
        assert_eq!(read(TARGETS_MAX + 1), (TARGETS_MAX + 1, vec![message.clone()]));
        assert_eq!(read(TARGETS_READ_MAX), (TARGETS_READ_MAX, vec![message]));
        let message = "must have at most 16 entries; the last 2 are not read".to_owned();
        assert_eq!(read(TARGETS_READ_MAX + 2), (TARGETS_READ_MAX, vec![message]));
    }

    /// Returns the targets of a TrafficPolicy with this spec after a version with those targets, and whether the policy
    /// has a fault.
    fn after(targets: &[&str], spec: &str) -> (Vec<String>, bool) {
        let policy = |spec: &str| {
            let head = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: p, namespace: shop}\n";
            let document = serde_saphyr::from_str(&format!("{head}{spec}")).unwrap();
            let Some((object, faults)) = object(document) else { panic!("it is no policy") };
            (*object, !faults.is_empty())
        };
        let reference = |name: &&str| format!("{{group: g, kind: HTTPRoute, name: {name}}}");
        let references: Vec<String> = targets.iter().map(reference).collect();
        let (before, _) = policy(&format!("spec: {{targetRefs: [{}]}}", references.join(", ")));
        let (mut now, faults) = policy(spec);
        now.body.keep_targets(&before.body);
        let Body::TrafficPolicy(policy) = &now.body else { panic!("it is no policy") };
        (policy.targets.references.iter().map(|(_, target)| target.name.to_string()).collect(), faults)
    }

    #[test]
    fn a_policy_that_is_cut_keeps_its_targets() {
        let cut = [
            "",
            "spec:\n",
            "spec: text\n",
            "spec:\n  targetRefs:\n",
            "spec:\n  targetRefs:\n  targetSelectors: []\n",
            "spec:\n  targetRefs:\n  -\n",
            "spec:\n  targetRefs:\n  - group: g\n    kind: HTTPRoute\n",
            "spec:\n  targetRefs: text\n",
            "spec: {targetRefs: []}",
            "spec: {targetRef: [{group: g, kind: HTTPRoute, name: a}]}",
        ];
        for spec in cut {
            assert_eq!(after(&["a", "b"], spec), (vec!["a".into(), "b".into()], true), "{spec}");
        }
        let partly = "spec: {targetRefs: [{group: g, kind: HTTPRoute, name: c}, {kind: HTTPRoute}]}";
        assert_eq!(after(&["a", "c"], partly), (vec!["c".into(), "a".into()], true));
        // A readable edit counts as it is written.
        let whole = [
            ("spec: {}", vec![]),
            ("spec: {targetRefs: [{group: g, kind: HTTPRoute, name: c}], targetSelectors: null}", vec!["c".to_owned()]),
        ];
        for (spec, targets) in whole {
            assert_eq!(after(&["a", "b"], spec), (targets, false), "{spec}");
        }
    }

    #[test]
    fn a_policy_with_an_uncertain_target_keeps_its_targets() {
        let entries = [
            "targetSelectors: [{group: g, kind: HTTPRoute, matchLabels: {app: 5}}]",
            "targetSelectors: [{group: g, kind: HTTPRoute, matchLabels: {app: c, rev: }}]",
            "targetSelectors: [{group: g, kind: HTTPRoute, matchLabel: {app: c}}]",
            "targetSelectors: [{group: g, kind: HTTPRoute}]",
            "targetSelectors: [{group: g, kind: HTTPRout, matchLabels: {app: c}}]",
            "targetRefs: [{group: 5, kind: HTTPRoute, name: b}]",
            "targetRefs: [{kind: HTTPRoute, name: b}]",
            "targetRefs: [{group: g, kind: HTTPRout, name: b}]",
            "targetSelectors: [{group: g, kind: HTTPRoute, matchLabels: {app: c}, sectionName: ''}]",
        ];
        for entry in entries {
            let (targets, faults) = after(&["a"], &format!("spec: {{{entry}}}"));
            assert!(targets.contains(&"a".to_owned()) && faults, "{entry}: {targets:?}");
        }
        // The object is certain, and all of it is closed.
        let section = "spec: {targetRefs: [{group: g, kind: HTTPRoute, name: c, sectionNam: one}]}";
        assert_eq!(after(&["a"], section), (vec!["c".into()], true));
        // Holdfast ignores such a target; the API server accepts it.
        let ignored = "spec: {targetRefs: [{group: gateway.networking.x-k8s.io, kind: XListenerSet, name: c}]}";
        assert_eq!(after(&["a"], ignored), (vec!["c".into()], false));
    }

    #[test]
    fn targets_may_be_lost_in_policies_of_every_kind() {
        let rows = [
            ("gateway.networking.k8s.io/v1", "BackendTLSPolicy", json!({"validation": {"hostname": "a.test"}}), true),
            ("gateway.kgateway.dev/v1alpha1", "BackendConfigPolicy", json!({"targetRef": []}), true),
            ("gateway.kgateway.dev/v1alpha1", "ListenerPolicy", json!({"targetRefs": []}), true),
            ("gateway.kgateway.dev/v1alpha1", "ListenerPolicy", json!({"default": {}}), false),
        ];
        for (version, kind, spec, is_lost) in rows {
            let metadata = json!({"name": "p", "namespace": "n"});
            let document = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
            let Some((object, faults)) = object(document) else { panic!("it is no policy") };
            assert_eq!((object.body.lost_targets(), faults.is_empty()), (is_lost, !is_lost), "{kind}: {faults:?}");
        }
    }

    #[test]
    fn edits_that_cannot_be_read_do_not_gather_targets_without_end() {
        let many: Vec<String> = (0..TARGETS_READ_MAX).map(|index| format!("n{index}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let partly = "spec: {targetRefs: [{group: g, kind: HTTPRoute, name: c}, {kind: HTTPRoute}]}";
        assert_eq!(after(&many, partly).0.len(), TARGETS_READ_MAX);
    }

    #[test]
    fn what_only_observes_requests_is_known_by_its_field() {
        let rows = [
            ("spec.tracing.attributes[0].name", Some("/tracing")),
            ("spec.statPrefix", Some("/statPrefix")),
            ("spec.statPrefixes", None),
            ("spec.default.httpSettings.accessLog[1].fileSink", Some("/default/httpSettings/accessLog")),
            ("spec.perPort[2].listener.httpSettings.tracing", Some("/perPort/2/listener/httpSettings/tracing")),
            ("spec.default.httpSettings.localReplies", None),
            ("spec.extAuth.statPrefix", None),
            ("spec", None),
        ];
        for (field, expected) in rows {
            assert_eq!(observing(field).as_deref(), expected, "{field}");
        }
    }

    /// Returns the number of logs that are read of a ListenerPolicy with these logs, and the fields of its faults.
    fn logs(written: &Value) -> (Option<usize>, Vec<String>) {
        let document: Value = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1",
            "kind": "ListenerPolicy",
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"perPort": [{"port": 80, "listener": {"httpSettings": {"accessLog": written, "serverName": "a"}}}]},
        });
        let Some((object, faults)) = object(document) else { panic!("it is no policy") };
        let Body::ListenerPolicy(policy) = &object.body else { panic!("it is no policy") };
        assert_eq!(policy.unread, [], "requests are served");
        let ports = policy.spec.as_ref().and_then(|spec| spec.per_port.as_ref());
        let http = ports.and_then(|ports| ports.first()?.listener.http_settings.as_ref());
        assert!(http.is_some_and(|http| http.server_name.is_some()), "the rest is read");
        let logs = http.and_then(|http| http.access_log.as_ref());
        let fields = faults.iter().map(|fault| fault.field.rsplit_once("accessLog").map_or("", |(_, below)| below));
        (logs.map(|logs| logs.iter().flatten().count()), fields.map(str::to_owned).collect())
    }

    #[test]
    fn a_log_that_cannot_be_read_is_left_out_alone() {
        let good = json!({"fileSink": {"path": "/dev/stdout", "stringFormat": "a"}});
        let bad = json!({"fileSink": {"path": 5}});
        let list = |entries: &[&Value]| Value::Array(entries.iter().copied().cloned().collect());
        let fields = |fields: &[&str]| fields.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(logs(&list(&[&good, &good])), (Some(2), fields(&[])));
        assert_eq!(
            logs(&list(&[&bad, &good, &bad, &Value::Null, &good])),
            (Some(2), fields(&["[3]", "[0].fileSink.path", "[2].fileSink.path"]))
        );
        assert_eq!(logs(&json!(5)), (None, fields(&[""])));
        // Each broken entry costs a decoding of the whole policy.
        let (read, fields) = logs(&list(&[&bad; 1000]));
        assert_eq!((read, fields.len()), (None, super::UNREAD_PARTS_MAX + 1));
    }

    #[test]
    fn what_only_observes_requests_and_cannot_be_read_is_left_out_alone() {
        let document: Value = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1",
            "kind": "TrafficPolicy",
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"targetSelectors": [], "tracing": "often", "statPrefix": 5, "autoHostRewrite": true, "other": 1},
        });
        let Some((object, faults)) = object(document) else { panic!("it is no policy") };
        let Body::TrafficPolicy(policy) = &object.body else { panic!("it is no policy") };
        assert!(policy.spec.as_ref().is_some_and(|spec| spec.auto_host_rewrite == Some(true)));
        let unread: Vec<&str> = policy.unread.iter().map(|unread| &*unread.field).collect();
        assert_eq!(unread, ["spec.other"]);
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
