//! API discovery: the served version of a kind, and whether its CRD is being removed.

use std::sync::Arc;

use holdfast_api::apis::Kind;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};

/// API groups that every API server has.
const BUILT_IN: [&str; 2] = ["", "discovery.k8s.io"];
/// The resource of CRDs.
pub(crate) const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The state of a kind's CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// The CRD exists, with this UID; empty if the UID is unknown.
    There(Arc<str>),
    /// The CRD is being removed, or does not exist.
    Leaving,
}

impl Definition {
    /// Returns whether the objects of this CRD were removed together with the CRD, given its current state.
    pub(crate) fn has_left(&self, now: &Definition) -> bool {
        match (self, now) {
            (_, Definition::Leaving) => true,
            (Definition::There(then), Definition::There(now)) => !then.is_empty() && !now.is_empty() && then != now,
            // The CRD was already being removed when its objects were listed.
            (Definition::Leaving, Definition::There(_)) => true,
        }
    }
}

/// The state of a kind's CRD, from the storage of the API server: the CRD is marked before its first object is deleted.
///
/// # Errors
/// Returns an error if the request fails.
pub(crate) async fn definition(client: &Client, kind: &Kind) -> Result<Definition, Error> {
    if BUILT_IN.contains(&kind.group) {
        return Ok(Definition::There("".into()));
    }
    let (group, plural) = DEFINITIONS;
    let named = GroupVersionKind::gvk(group, "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk_with_plural(&named, plural);
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match definitions.get_metadata_opt(&format!("{}.{}", kind.plural, kind.group)).await {
        Ok(Some(definition)) if definition.metadata.deletion_timestamp.is_some() => Ok(Definition::Leaving),
        Ok(Some(definition)) => Ok(Definition::There(definition.metadata.uid.unwrap_or_default().into())),
        Ok(None) => Ok(Definition::Leaving),
        Err(Error::Api(status)) if status.code == 403 => by_verbs(client, kind).await,
        Err(error) => Err(error),
    }
}

/// The state of a kind's CRD by API discovery, which needs no permission and is updated slightly later: for a kind that
/// is being removed the verb `create` is missing.
async fn by_verbs(client: &Client, kind: &Kind) -> Result<Definition, Error> {
    for version in kind.versions {
        let listed = match client.list_api_group_resources(&format!("{}/{version}", kind.group)).await {
            Ok(listed) => listed,
            Err(Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error),
        };
        let found = listed.resources.iter().find(|resource| resource.name == kind.plural);
        if found.is_some_and(|resource| resource.verbs.iter().any(|verb| verb == "create")) {
            return Ok(Definition::There("".into()));
        }
    }
    Ok(Definition::Leaving)
}

/// The first version of a kind that both sides know; `None` if the API server does not serve the kind.
///
/// # Errors
/// Returns an error if the request fails.
pub(crate) async fn version(client: &Client, kind: &Kind) -> Result<Option<ApiResource>, Error> {
    for version in kind.versions {
        if !kind.group.is_empty() {
            let listed = client.list_api_group_resources(&format!("{}/{version}", kind.group)).await;
            match listed {
                Ok(listed) if listed.resources.iter().any(|resource| resource.name == kind.plural) => {}
                Ok(_) => continue,
                Err(Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(error),
            }
        }
        let named = GroupVersionKind::gvk(kind.group, version, kind.kind);
        return Ok(Some(ApiResource::from_gvk_with_plural(&named, kind.plural)));
    }
    Ok(None)
}
