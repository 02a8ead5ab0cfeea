//! Which version of a kind the API server has.

use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};

use crate::apis::Kind;

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
