//! Which version of a kind the API server has, and whether its definition is about to go.

use std::sync::Arc;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};

use crate::apis::Kind;

/// Groups whose kinds every API server has.
const BUILT_IN: [&str; 2] = ["", "discovery.k8s.io"];
/// Where definitions of kinds are.
pub(super) const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The definition of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Definition {
    /// It is there, with this identity across deletion and creation; an empty one where that is not known.
    There(Arc<str>),
    /// It is being removed, or is not there.
    Leaving,
}

impl Definition {
    /// Were this definition's objects removed because it is, if that is how it stands now?
    pub(super) fn has_left(&self, now: &Definition) -> bool {
        match (self, now) {
            (_, Definition::Leaving) => true,
            (Definition::There(then), Definition::There(now)) => !then.is_empty() && !now.is_empty() && then != now,
            // As it was when its objects were listed.
            (Definition::Leaving, Definition::There(_)) => true,
        }
    }
}

/// How the definition of a kind stands. Asked of the store of the API server: it is marked before its first object goes.
///
/// # Errors
/// Where it cannot be asked.
pub(super) async fn definition(client: &Client, kind: &Kind) -> Result<Definition, Error> {
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

/// The same by what everybody may ask, and a moment later: of a kind that is about to go nothing can be created.
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

/// The first version of a kind that both know; `None` where the API server does not have the kind.
///
/// # Errors
/// Where it cannot be asked.
pub(super) async fn version(client: &Client, kind: &Kind) -> Result<Option<ApiResource>, Error> {
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
