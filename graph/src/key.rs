//! Identity of an object.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Identity of a Kubernetes object: group, kind, namespace and name.
///
/// The namespace is empty for cluster-scoped objects, the group for the core group. The version is not part of the key:
/// the same object may be read in several versions. Cloning increments four reference counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// API group, for example `gateway.networking.k8s.io`.
    pub group: Arc<str>,
    /// Kind, for example `HTTPRoute`.
    pub kind: Arc<str>,
    /// Namespace, empty where the kind is cluster-scoped.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Returns a key of its four parts.
    pub fn new(
        group: impl Into<Arc<str>>,
        kind: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
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
