//! What Holdfast does at an API server, as rights: the chart's roles are made of this list, and whoever adds a request
//! adds its right here.
//!
//! Rights are asked for where they are used and nowhere else: what is said of the objects of a cluster is cluster-wide,
//! what is said of objects in namespaces holds in the namespaces that are watched, and what is Holdfast's own in its own
//! namespace.

use super::{planes, served, token_keys};
use crate::apis::{KINDS, Scope};

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// For objects that belong to no namespace.
    Cluster,
    /// In each namespace that is watched.
    Watched,
    /// In the namespace that Holdfast's Pod is in.
    Own,
    /// In the namespace that Holdfast's Pod is in, where replicas share what is proven.
    Shared,
    /// In each namespace that is watched, where Envoys are made for Gateways.
    Planes,
    /// Of no object: a path of the API server, where it is asked for the keys of tokens.
    Keys,
    /// In the namespace `default`, which Events on objects without a namespace are written to.
    Default,
}

impl Place {
    /// Every place, in order.
    pub const ALL: [Place; 7] =
        [Place::Cluster, Place::Watched, Place::Own, Place::Shared, Place::Planes, Place::Keys, Place::Default];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Place::Cluster => "cluster",
            Place::Watched => "watched",
            Place::Own => "own",
            Place::Shared => "shared",
            Place::Planes => "planes",
            Place::Keys => "keys",
            Place::Default => "default",
        }
    }
}

/// One resource, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Where.
    pub place: Place,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Plural name, with its subresource; a path where it begins with a slash.
    pub resource: String,
    /// What is done.
    pub verbs: &'static [&'static str],
}

/// Objects are listed and watched.
const READ: &[&str] = &["list", "watch"];
/// Definitions of kinds are looked at where objects go: whether they go with it.
const LOOK: &[&str] = &["get"];
/// Statuses are looked at, and applied where they differ.
const TELL: &[&str] = &["get", "patch"];
/// Events are made, and counted on while they repeat.
const EVENTS: &[&str] = &["create", "patch"];

/// What is made for Gateways is kept as it should be, and deleted when it is not wanted any more.
const KEEP: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// What is shared is written, and removed when nothing refers to it any more. Names are not known before.
const SHARE: &[&str] = &["create", "delete", "get", "list", "update"];
/// One replica holds the Lease.
const LEAD: &[&str] = &["create", "get", "update"];

/// Every right, in the order of places, kinds and resources.
pub fn rights() -> Vec<Right> {
    let mut rights = Vec::new();
    for kind in KINDS {
        let place = if kind.scope == Scope::Cluster { Place::Cluster } else { Place::Watched };
        rights.push(Right { place, group: kind.group, resource: kind.plural.to_owned(), verbs: READ });
        if kind.has_status {
            let resource = format!("{}/status", kind.plural);
            rights.push(Right { place, group: kind.group, resource, verbs: TELL });
        }
    }
    for place in [Place::Watched, Place::Own, Place::Default] {
        rights.push(Right { place, group: "events.k8s.io", resource: "events".into(), verbs: EVENTS });
    }
    let (group, resource) = served::DEFINITIONS;
    rights.push(Right { place: Place::Cluster, group, resource: resource.into(), verbs: LOOK });
    let group = "coordination.k8s.io";
    rights.push(Right { place: Place::Own, group, resource: "leases".into(), verbs: LEAD });
    rights.push(Right { place: Place::Shared, group: "", resource: "secrets".into(), verbs: SHARE });
    for kind in &planes::owned::KINDS {
        let (group, resource) = (kind.group, kind.plural.to_owned());
        rights.push(Right { place: Place::Planes, group, resource, verbs: KEEP });
    }
    rights.push(Right { place: Place::Keys, group: "", resource: token_keys::PATH.into(), verbs: &["get"] });
    rights.sort_by(|one, other| {
        let key = |right: &Right| (right.place, right.group, right.verbs, right.resource.clone());
        key(one).cmp(&key(other))
    });
    rights
}
