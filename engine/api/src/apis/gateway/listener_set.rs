//! ListenerSet: listeners that are added to a Gateway by an object with another owner.
//!
//! The listeners have the form of those of a Gateway, and are also decoded one by one.
//!
//! <https://gateway-api.sigs.k8s.io/reference/api-types/listenerset/>

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GROUP;
use super::gateway::{self, ListenerEntry};
use crate::apis::decode::Found;
use crate::apis::{Body, kinds};

/// A ListenerSet.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerSet {
    /// `spec.parentRef`.
    pub parent: SetParent,
    /// `spec.listeners`.
    pub listeners: Vec<ListenerEntry>,
}

/// The parent of a ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SetParent {
    /// Group, `gateway.networking.k8s.io` where unset.
    pub group: Option<Arc<str>>,
    /// Kind, `Gateway` where unset.
    pub kind: Option<Arc<str>>,
    /// Namespace, that of the ListenerSet where unset.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}

impl ListenerSet {
    /// Returns the Gateway of the ListenerSet with this identity, or `None` where the parent is another kind.
    pub fn gateway(&self, set: &ObjectKey) -> Option<ObjectKey> {
        let SetParent { group, kind, namespace, name } = &self.parent;
        let is_gateway =
            group.as_deref().is_none_or(|group| group == GROUP) && kind.as_deref().is_none_or(|kind| kind == "Gateway");
        let namespace = namespace.as_ref().unwrap_or(&set.namespace);
        is_gateway.then(|| ObjectKey::new(GROUP, "Gateway", &**namespace, &**name))
    }
}

/// Returns the identity of a ListenerSet.
pub fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, kinds::LISTENER_SET, namespace, name)
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else {
        found.invalid("spec", "spec must be set to an object");
        return None;
    };
    let parent = found.typed("spec.parentRef", &fields.remove("parentRef").unwrap_or_default())?;
    let listeners = gateway::listeners(fields.remove("listeners"), found)?;
    found.unknown_in_spec(fields.keys(), &["listeners", "parentRef"]);
    Some(Body::ListenerSet(Arc::new(ListenerSet { parent, listeners })))
}
