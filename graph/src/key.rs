//! Identity of an object.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::text;

/// Identity of a Kubernetes object: group, kind, namespace and name.
///
/// A key has the size of a pointer, and cloning increments one reference count: every object is named by many edges,
/// inputs and resources, which share one key. The parts are read as fields.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectKey(Arc<KeyParts>);

/// The parts of a key.
///
/// The namespace is empty for cluster-scoped objects, the group for the core group. The version is not part of the key:
/// the same object may be read in several versions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyParts {
    /// API group, for example `gateway.networking.k8s.io`.
    pub group: Arc<str>,
    /// Kind, for example `HTTPRoute`.
    pub kind: Arc<str>,
    /// Namespace, empty where the kind is cluster-scoped.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Deref for ObjectKey {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.0
    }
}

/// A part of a shared key can be changed: the other owners keep the key as it was.
impl DerefMut for ObjectKey {
    fn deref_mut(&mut self) -> &mut KeyParts {
        Arc::make_mut(&mut self.0)
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Writes the parts as those of one struct.
impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectKey")
            .field("group", &self.group)
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish()
    }
}

impl ObjectKey {
    /// Returns a key of its four parts.
    pub fn new(
        group: impl Into<Arc<str>>,
        kind: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        let (group, kind) = (text::shared(group.into()), text::shared(kind.into()));
        Self(Arc::new(KeyParts { group, kind, namespace: text::shared(namespace.into()), name: name.into() }))
    }

    /// Returns `namespace/name`, or the name only for a cluster-scoped object.
    pub fn namespaced_name(&self) -> String {
        if self.namespace.is_empty() { self.name.to_string() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// `group/Kind:namespace/name`, the form of `causingObjects` in the diagnostics endpoint.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &*self.group };
        write!(f, "{group}/{}:", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Error of a text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form group/Kind:namespace/name")]
pub struct NoKey;

/// Parses the form that `Display` writes.
impl FromStr for ObjectKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let (group, rest) = text.split_once('/').ok_or(NoKey)?;
        let (kind, rest) = rest.split_once(':').ok_or(NoKey)?;
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        Ok(Self::new(if group == "core" { "" } else { group }, kind, namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_part_leaves_other_owners_of_the_key_alone() {
        let key = ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", "cart");
        let mut changed = key.clone();
        changed.namespace = "other".into();
        assert_eq!((&*key.namespace, &*changed.namespace), ("shop", "other"));
        assert!(changed != key && changed < key);
    }

    #[test]
    fn keys_have_the_size_of_a_pointer_and_share_their_repeated_parts() {
        assert_eq!(size_of::<ObjectKey>(), size_of::<usize>());
        let [one, other] = ["cart", "basket"].map(|name| ObjectKey::new("example.com", "HTTPRoute", "shop", name));
        assert!(Arc::ptr_eq(&one.group, &other.group) && Arc::ptr_eq(&one.kind, &other.kind));
        assert!(Arc::ptr_eq(&one.namespace, &other.namespace));
    }

    #[test]
    fn display_names_group_kind_namespace_and_name() {
        let route = ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", "cart");
        assert_eq!(route.to_string(), "gateway.networking.k8s.io/HTTPRoute:shop/cart");
        let namespace = ObjectKey::new("", "Namespace", "", "shop");
        assert_eq!(namespace.to_string(), "core/Namespace:shop");
        assert_eq!(namespace.namespaced_name(), "shop");
        for key in [route, namespace] {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        assert_eq!("HTTPRoute".parse::<ObjectKey>(), Err(NoKey));
    }
}
