//! An object as it came in: identity, the metadata that matters, and its typed, trimmed content.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::apis::Body;

/// How the names of annotations begin that are read: settings of Holdfast, and those that HTTPProxies have.
const ANNOTATION_PREFIXES: [&str; 4] =
    ["holdfast.dev/", "projectcontour.io/", "kubernetes.io/ingress.class", "kgateway.dev/"];

/// The metadata that decisions are made from. `managedFields`, owner references and the like are left behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Identity across deletion and creation. Standalone mode makes it from the key and an incarnation counter.
    pub uid: Arc<str>,
    /// Counts the changes of the spec.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since 1970; `None` where none is written, then names decide precedence.
    pub created: Option<i64>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations, without those over a kibibyte.
    pub annotations: BTreeMap<String, String>,
}

/// Where an object was written, for messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Path of the file as the user named it.
    pub file: Arc<str>,
    /// Line of the object's first line, from 1.
    pub line: u32,
}

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Identity.
    pub key: ObjectKey,
    /// Metadata.
    pub metadata: Metadata,
    /// Typed content.
    pub body: Body,
    /// Where it was written, in standalone mode.
    pub source: Option<Source>,
}

impl Object {
    /// The order in which objects take precedence over each other: the older first, then by namespace and name.
    ///
    /// Objects without a creation time come after those with one, so that a written time always counts.
    pub fn age(&self) -> Age {
        Age {
            created: self.metadata.created.unwrap_or(i64::MAX),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
        }
    }

    /// True where nothing that translation reads differs: equal content needs no new translation.
    pub fn same_content(&self, other: &Object) -> bool {
        self.key == other.key
            && self.body == other.body
            && self.metadata.uid == other.metadata.uid
            && self.metadata.created == other.metadata.created
            && self.metadata.labels == other.metadata.labels
            && self.own_annotations().eq(other.own_annotations())
    }

    /// Annotations that are read.
    fn own_annotations(&self) -> impl Iterator<Item = (&String, &String)> {
        let read = |name: &String| ANNOTATION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        self.metadata.annotations.iter().filter(move |(name, _)| read(name))
    }
}

/// Sorts objects by precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    created: i64,
    namespace: Arc<str>,
    name: Arc<str>,
}
