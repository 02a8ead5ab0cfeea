//! Kubernetes objects as Holdfast reads them: identity, relevant metadata, and typed, trimmed content.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::apis::Body;

/// Prefixes of the annotations that are read: settings of Holdfast, those of HTTPProxies and policies, and those of other
/// gateways that are reported.
const ANNOTATION_PREFIXES: [&str; 7] = [
    "holdfast.dev/",
    "projectcontour.io/",
    "contour.heptio.com/",
    "kubernetes.io/ingress.",
    "ingress.kubernetes.io/force-ssl-redirect",
    "kgateway.dev/",
    "delegation.kgateway.dev/",
];

/// The metadata that decisions depend on, without `managedFields`, owner references and the like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Identity across deletion and recreation. In standalone mode, it is derived from the key and an incarnation
    /// counter.
    pub uid: Arc<str>,
    /// The generation of the spec.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since 1970; `None` where the manifest has none, then the incarnation
    /// decides precedence.
    pub created: Option<i64>,
    /// When standalone mode first read the object, as the number of a reading: a higher number is a younger object. 0
    /// for objects of an API server, which have a creation time.
    pub incarnation: u64,
    /// The labels; all versions of an object in memory share them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The annotations, without those over a kibibyte.
    pub annotations: Arc<BTreeMap<String, String>>,
}

impl Metadata {
    /// Returns the UID of an object without one: its name and its incarnation.
    pub fn own_uid(key: &ObjectKey, incarnation: u64) -> Arc<str> {
        format!("{key}#{incarnation}").into()
    }

    /// Returns the incarnation in a UID of [`Metadata::own_uid`]; 0 for any other UID.
    pub fn incarnation_of(uid: &str) -> u64 {
        uid.rsplit_once('#').and_then(|(_, incarnation)| incarnation.parse().ok()).unwrap_or(0)
    }
}

/// The position of an object in a manifest, for messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The path of the file, as the user named it.
    pub file: Arc<str>,
    /// The line number of the object's first line, from 1.
    pub line: u32,
}

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The identity.
    pub key: ObjectKey,
    /// The metadata.
    pub metadata: Metadata,
    /// The typed content.
    pub body: Body,
    /// The position in a manifest, in standalone mode.
    pub source: Option<Source>,
}

impl Object {
    /// Returns the precedence of the object: the older one first, then by namespace and name.
    ///
    /// Objects without a creation time come after those with one, so that a written time always counts. Among objects
    /// without a creation time, the incarnation is the age.
    pub fn age(&self) -> Age {
        Age {
            created: self.metadata.created.unwrap_or(i64::MAX),
            incarnation: if self.metadata.created.is_some() { 0 } else { self.metadata.incarnation },
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
        }
    }

    /// Returns whether nothing that translation reads differs. Equal content needs no new translation.
    pub fn same_content(&self, other: &Object) -> bool {
        self.key == other.key
            && self.body == other.body
            && self.metadata.uid == other.metadata.uid
            && self.metadata.created == other.metadata.created
            && self.metadata.incarnation == other.metadata.incarnation
            && self.metadata.labels == other.metadata.labels
            && self.own_annotations().eq(other.own_annotations())
    }

    /// Returns the annotations that are read.
    pub(crate) fn own_annotations(&self) -> impl Iterator<Item = (&String, &String)> {
        let read = |name: &String| ANNOTATION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        self.metadata.annotations.iter().filter(move |(name, _)| read(name))
    }
}

/// The precedence of an object, as a sort key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    created: i64,
    incarnation: u64,
    namespace: Arc<str>,
    name: Arc<str>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_graph::ObjectKey;

    use super::*;
    use crate::apis::Body;

    #[test]
    fn an_edit_of_an_annotation_that_is_read_is_a_change() {
        let of = |annotation: &str, value: &str| Object {
            key: ObjectKey::new("g", "K", "ns", "n"),
            metadata: Metadata {
                annotations: Arc::new([(annotation.to_owned(), value.to_owned())].into()),
                ..Metadata::default()
            },
            body: Body::Namespace,
            source: None,
        };
        for (name, is_read) in [
            ("kgateway.dev/inherited-policy-priority", true),
            ("delegation.kgateway.dev/inherited-policy-priority", true),
            ("delegation.kgateway.dev/inherit-parent-matcher", true),
            ("projectcontour.io/response-timeout", true),
            ("kubectl.kubernetes.io/last-applied-configuration", false),
        ] {
            assert_ne!(of(name, "a").same_content(&of(name, "b")), is_read, "{name}");
        }
    }
}
