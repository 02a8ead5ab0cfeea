//! Attachment of policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_graph::ObjectKey;

/// The part of an object that a policy is attached to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The whole object.
    Whole,
    /// A listener of a Gateway, or a rule of a route, by name.
    Named(Arc<str>),
}

impl Section {
    fn new(name: Option<&Arc<str>>) -> Self {
        name.map_or(Section::Whole, |name| Section::Named(name.clone()))
    }
}

/// Returns the parts of an object that these targets name; empty if they do not name the object. Targets are in the
/// namespace of the policy.
pub fn sections(
    targets: &Targets,
    namespace: &str,
    object: &ObjectKey,
    labels: &BTreeMap<String, String>,
) -> BTreeSet<Section> {
    if namespace != &*object.namespace {
        return BTreeSet::new();
    }
    let by_name = targets.references.iter().map(|(_, target)| target).filter(|target| {
        (&*target.group, &*target.kind, &*target.name) == (&*object.group, &*object.kind, &*object.name)
    });
    let by_name = by_name.map(|target| Section::new(target.section_name.as_ref()));
    let by_labels = targets.selectors.iter().map(|(_, target)| target).filter(|target| {
        (&*target.group, &*target.kind) == (&*object.group, &*object.kind)
            // A selector without labels would match every object.
            && !target.match_labels.is_empty()
            && target.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    });
    by_name.chain(by_labels.map(|target| Section::new(target.section_name.as_ref()))).collect()
}

/// Returns the message about a target of a kind that policies of this kind cannot be attached to.
pub(crate) fn strange(key: &ObjectKey, group: &str, kind: &str) -> String {
    format!(
        "a {} cannot be attached to objects of kind {group}/{kind}: the policy has no effect on this target, and \
         protects nothing there",
        key.kind
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::apis::kgateway::targets::TargetRef;
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_stand_in_the_namespace_of_their_policy() {
        let target: TargetRef =
            serde_json::from_value(json!({"group": "g", "kind": "K", "name": "n", "sectionName": "s"})).unwrap();
        let selector = serde_json::from_value(json!({"group": "g", "kind": "K", "matchLabels": {"app": "x"}})).unwrap();
        let nothing = serde_json::from_value(json!({"group": "g", "kind": "K", "matchLabels": {}})).unwrap();
        let targets = Targets { references: vec![(0, target)], selectors: vec![(0, selector), (1, nothing)] };
        let labels = BTreeMap::from([("app".to_owned(), "x".to_owned())]);
        let none = BTreeMap::new();
        let of = |object: &ObjectKey, labels| sections(&targets, "ns", object, labels);
        let named = ObjectKey::new("g", "K", "ns", "n");
        assert_eq!(of(&named, &none), BTreeSet::from([Section::Named("s".into())]));
        assert_eq!(of(&named, &labels), BTreeSet::from([Section::Whole, Section::Named("s".into())]));
        assert_eq!(of(&ObjectKey::new("g", "K", "other", "n"), &labels), BTreeSet::new());
        assert_eq!(of(&ObjectKey::new("g", "K", "ns", "m"), &labels), BTreeSet::from([Section::Whole]));
        assert_eq!(of(&ObjectKey::new("g", "K", "ns", "m"), &none), BTreeSet::new());
        assert_eq!(of(&ObjectKey::new("g", "L", "ns", "n"), &labels), BTreeSet::new());
    }
}

/// A target of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object.
    pub key: ObjectKey,
    /// A listener or rule of the object.
    pub section: Option<Arc<str>>,
    /// Reason why the policy has no effect at this target; unset if it has.
    pub missing: Option<Arc<str>>,
}
