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
    /// `metadata.creationTimestamp` in seconds since 1970; `None` where none is written, then the incarnation decides
    /// precedence.
    pub created: Option<i64>,
    /// When standalone mode first read the object, as the number of a reading: the later number is the younger object.
    /// 0 for objects of an API server, which have a creation time.
    pub incarnation: u64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations, without those over a kibibyte.
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// The UID of an object that carries none: its name and its incarnation.
    pub fn own_uid(key: &ObjectKey, incarnation: u64) -> Arc<str> {
        format!("{key}#{incarnation}").into()
    }

    /// The incarnation that a UID of [`Metadata::own_uid`] carries; 0 for any other UID.
    pub fn incarnation_of(uid: &str) -> u64 {
        uid.rsplit_once('#').and_then(|(_, incarnation)| incarnation.parse().ok()).unwrap_or(0)
    }
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
    /// Objects without a creation time come after those with one, so that a written time always counts. Among objects
    /// without one the incarnation is the age.
    pub fn age(&self) -> Age {
        Age {
            created: self.metadata.created.unwrap_or(i64::MAX),
            incarnation: if self.metadata.created.is_some() { 0 } else { self.metadata.incarnation },
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
            && self.metadata.incarnation == other.metadata.incarnation
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
    incarnation: u64,
    namespace: Arc<str>,
    name: Arc<str>,
}
