//! Reviews within bounds: a number at a time, and a time for each.
//!
//! Whatever goes wrong, the object is allowed, and the user reads that it was not checked.

use std::sync::Arc;
use std::time::Duration;

use holdfast_engine::review::{self, Reviewed};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::admission::{AdmissionRequest, ReviewAnswer};
use super::arguments::WebhookMode;
use super::verdict;
use crate::serve::core::CoreHandle;

/// Maximum number of reviews at a time; a further one waits.
const REVIEWS_AT_ONCE_MAX: usize = 4;
/// Maximum time of a review, with its wait. The API server waits for `timeoutSeconds` of the configuration, which must
/// be longer.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(1);

/// Reviews objects.
#[derive(Clone, Debug)]
pub(super) struct Reviewer {
    handle: CoreHandle,
    mode: WebhookMode,
    places: Arc<Semaphore>,
}

impl Reviewer {
    pub(super) fn new(handle: CoreHandle, mode: WebhookMode) -> Self {
        Self { handle, mode, places: Arc::new(Semaphore::new(REVIEWS_AT_ONCE_MAX)) }
    }

    /// Returns the answer to a request.
    pub(super) async fn answer(&self, request: &AdmissionRequest) -> ReviewAnswer {
        let Some(object) = request.object() else { return ReviewAnswer::default() };
        match timeout(REVIEW_TIME_MAX, self.review(object.clone())).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => verdict::not_checked(&named(object), &why),
            Err(_) => verdict::not_checked(&named(object), "it is busy, and the review took too long"),
        }
    }

    /// Reviews an object. Work that depends on its size is done on threads of its own, which keep their place even if
    /// the request has ended.
    async fn review(&self, object: Value) -> Result<ReviewAnswer, String> {
        let ending = || "it is ending".to_owned();
        let failed = |_| "the review failed; please report this bug".to_owned();
        let place = self.places.clone().acquire_owned().await.map_err(|_| ending())?;
        let read = spawn_blocking(move || (place, Reviewed::read(object)));
        let (place, reviewed) = read.await.map_err(failed)?;
        let reviewed = reviewed.map_err(|why| why.to_string())?;
        let key = reviewed.key().clone();
        let basis = self.handle.query(move |core| core.review_basis(&key)).await.ok_or_else(ending)??;
        let mode = self.mode;
        let answer = spawn_blocking(move || {
            let _place = place;
            review::review(basis, &reviewed).map(|review| verdict::answer(mode, reviewed.key(), &review))
        });
        answer.await.map_err(failed)?.map_err(|why| why.to_string())
    }
}

/// Returns the name of an object that may not be readable.
fn named(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
