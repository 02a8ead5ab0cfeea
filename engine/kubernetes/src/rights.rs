//! Permissions (RBAC) that Holdfast needs: the roles of the chart are made from this list. A change that adds a request
//! must add its permission here.
//!
//! Each permission is granted only where it is used: permissions for cluster-scoped objects are cluster-wide, those for
//! namespaced objects apply in the watched namespaces, and those for Holdfast's own objects in its own namespace.

use holdfast_api::apis::{KINDS, ResourceScope};

use crate::{planes, served, token_keys};

/// The place in which a permission applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionScope {
    /// Cluster-scoped objects.
    Cluster,
    /// Each watched namespace.
    Watched,
    /// The namespace of Holdfast's Pod.
    Own,
    /// The namespace of Holdfast's Pod, if replicas share proven configuration.
    Shared,
    /// Each watched namespace, if Envoys are deployed for Gateways.
    Planes,
    /// No object: a path of the API server, if the keys of tokens are fetched.
    Keys,
    /// The namespace `default`, for Events about objects without a namespace.
    Default,
}

impl PermissionScope {
    /// All places, in order.
    pub const ALL: [PermissionScope; 7] = [
        PermissionScope::Cluster,
        PermissionScope::Watched,
        PermissionScope::Own,
        PermissionScope::Shared,
        PermissionScope::Planes,
        PermissionScope::Keys,
        PermissionScope::Default,
    ];

    /// The name of a place.
    pub fn name(self) -> &'static str {
        match self {
            PermissionScope::Cluster => "cluster",
            PermissionScope::Watched => "watched",
            PermissionScope::Own => "own",
            PermissionScope::Shared => "shared",
            PermissionScope::Planes => "planes",
            PermissionScope::Keys => "keys",
            PermissionScope::Default => "default",
        }
    }
}

/// A resource, and the permitted verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The place.
    pub place: PermissionScope,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Plural name, with its subresource; a path if it begins with a slash.
    pub resource: String,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

/// Objects are listed and watched.
const READ: &[&str] = &["list", "watch"];
/// CRDs are read when objects disappear, to see whether the CRD is being removed too.
const LOOK: &[&str] = &["get"];
/// Statuses are read, and applied if they differ.
const STATUSES: &[&str] = &["get", "patch"];
/// Events are created, and patched while they repeat.
const EVENTS: &[&str] = &["create", "patch"];

/// Objects of data planes are maintained, and deleted when they are no longer desired.
const KEEP: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// Shared Secrets are written, and removed when no other refers to them. Their names are not known in advance.
const SHARE: &[&str] = &["create", "delete", "get", "list", "update"];
/// One replica holds the Lease.
const LEAD: &[&str] = &["create", "get", "update"];

/// All permissions, ordered by place, kind and resource.
pub fn rights() -> Vec<Right> {
    let mut rights = Vec::new();
    for kind in KINDS {
        let place =
            if kind.scope == ResourceScope::Cluster { PermissionScope::Cluster } else { PermissionScope::Watched };
        rights.push(Right { place, group: kind.group, resource: kind.plural.to_owned(), verbs: READ });
        if kind.has_status {
            let resource = format!("{}/status", kind.plural);
            rights.push(Right { place, group: kind.group, resource, verbs: STATUSES });
        }
    }
    for place in [PermissionScope::Watched, PermissionScope::Own, PermissionScope::Default] {
        rights.push(Right { place, group: "events.k8s.io", resource: "events".into(), verbs: EVENTS });
    }
    let (group, resource) = served::DEFINITIONS;
    rights.push(Right { place: PermissionScope::Cluster, group, resource: resource.into(), verbs: LOOK });
    let group = "coordination.k8s.io";
    rights.push(Right { place: PermissionScope::Own, group, resource: "leases".into(), verbs: LEAD });
    rights.push(Right { place: PermissionScope::Shared, group: "", resource: "secrets".into(), verbs: SHARE });
    for kind in &planes::owned::KINDS {
        let (group, resource) = (kind.group, kind.plural.to_owned());
        rights.push(Right { place: PermissionScope::Planes, group, resource, verbs: KEEP });
    }
    rights.push(Right { place: PermissionScope::Keys, group: "", resource: token_keys::PATH.into(), verbs: &["get"] });
    rights.sort_by(|one, other| {
        let key = |right: &Right| (right.place, right.group, right.verbs, right.resource.clone());
        key(one).cmp(&key(other))
    });
    rights
}
