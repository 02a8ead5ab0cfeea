//! One reading of all objects of an API server, without a watch: for reports that a command makes once.
//!
//! The requests are those with which the watches begin, page by page, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Error};
use tokio::time::timeout;

use crate::watch::{PAGE, WatchTarget, cut, item};
use crate::watching::WATCHED_OBJECTS_MAX;
use crate::{served, watches};

/// Maximum duration of a request.
const LIST_REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum number of attempts of a list that expires before it is complete.
const LIST_TRIES_MAX: usize = 3;

/// The objects of an API server cannot be listed completely.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ListError(String);

/// All objects of the kinds that Holdfast reads.
#[derive(Debug, Default)]
pub struct Listing {
    /// The objects, each as the event for the engine.
    pub objects: BTreeMap<ObjectKey, Event>,
    /// The kinds that the API server does not serve, as `group/Kind`.
    pub absent: BTreeSet<Arc<str>>,
}

/// Lists every kind, in these namespaces or in all.
///
/// # Errors
/// Returns an error if a kind cannot be listed: a part of the objects would make references to the other part appear
/// broken.
pub async fn list(client: &Client, namespaces: &[String]) -> Result<Listing, ListError> {
    let mut listing = Listing::default();
    for target in watches(namespaces) {
        let resource = within(served::version(client, target.kind)).await.map_err(|error| failure(&target, &error))?;
        let Some(resource) = resource else {
            listing.absent.insert(WatchTarget { kind: target.kind, namespace: None }.name());
            continue;
        };
        list_kind(client, &target, &resource, &mut listing.objects).await.map_err(|error| failure(&target, &error))?;
        if listing.objects.len() > WATCHED_OBJECTS_MAX {
            return Err(ListError(format!("the cluster has more than {WATCHED_OBJECTS_MAX} objects")));
        }
    }
    Ok(listing)
}

/// Adds the objects of a kind, in pages. At most a page more than the limit is added.
async fn list_kind(
    client: &Client,
    target: &WatchTarget,
    resource: &ApiResource,
    objects: &mut BTreeMap<ObjectKey, Event>,
) -> Result<(), Error> {
    let api: Api<DynamicObject> = target.api(client, resource);
    let mut first = ListParams { limit: Some(PAGE), ..ListParams::default() };
    if let Some(fields) = target.fields() {
        first = first.fields(fields);
    }
    let (mut params, mut tries) = (first.clone(), 1);
    while objects.len() <= WATCHED_OBJECTS_MAX {
        let page = match within(api.list(&params)).await {
            Ok(page) => page,
            // The position of the next page has expired: the list begins again.
            Err(Error::Api(status)) if status.code == 410 && tries < LIST_TRIES_MAX => {
                (params, tries) = (first.clone(), tries + 1);
                continue;
            }
            Err(error) => return Err(error),
        };
        let items = page.items.into_iter().filter_map(|object| item(object, resource));
        objects.extend(items.map(|item| (item.key, item.event)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    Ok(())
}

async fn within<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::Service(format!("no answer within {} seconds", LIST_REQUEST_TIME_MAX.as_secs()).into());
    timeout(LIST_REQUEST_TIME_MAX, request).await.unwrap_or_else(|_| Err(late()))
}

fn failure(target: &WatchTarget, error: &Error) -> ListError {
    let message = match error {
        Error::Api(status) if status.code == 403 => format!("may not list {}: {}", target.name(), status.message),
        _ => format!("cannot list {}: {error}", target.name()),
    };
    ListError(cut(&message))
}
