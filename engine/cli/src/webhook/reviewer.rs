//! Reviews within bounds: a number at a time, and a time for each.
//!
//! Whatever goes wrong, the object is allowed, and the user reads that it was not checked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use holdfast_engine::review::{self, Reviewed};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::admission::{self, NotAReview, REVIEW_VALUES_MAX, RequestHead, ReviewAnswer};
use super::arguments::WebhookMode;
use super::verdict;
use crate::admin::webhook_metrics::{ReviewResult, WebhookMetrics};
use crate::serve::core::{Core, CoreHandle};

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
    metrics: WebhookMetrics,
    places: Arc<Semaphore>,
}

impl Reviewer {
    pub(super) fn new(handle: CoreHandle, mode: WebhookMode, metrics: WebhookMetrics) -> Self {
        Self { handle, mode, metrics, places: Arc::new(Semaphore::new(REVIEWS_AT_ONCE_MAX)) }
    }

    /// Returns the answer to a request.
    ///
    /// # Errors
    /// Returns an error if the body is not a review.
    pub(super) async fn answer(&self, head: &RequestHead, body: Bytes) -> Result<ReviewAnswer, NotAReview> {
        let began = Instant::now();
        let (result, answer) = match self.in_time(body).await {
            Ok(answer) => (result(&answer), answer),
            Err(NoAnswer::NotAReview(why)) => return Err(why),
            Err(NoAnswer::NotChecked(why)) => {
                (ReviewResult::NotChecked, verdict::not_checked(&head.object_name(), &why))
            }
        };
        self.metrics.answered(result, began.elapsed());
        Ok(answer)
    }

    async fn in_time(&self, body: Bytes) -> Result<ReviewAnswer, NoAnswer> {
        if admission::has_too_many_values(&body) {
            return Err(NoAnswer::NotChecked(format!("it has more than {REVIEW_VALUES_MAX} values")));
        }
        let too_long = |_| NoAnswer::NotChecked("it is busy, and the review took too long".into());
        timeout(REVIEW_TIME_MAX, self.review(body)).await.map_err(too_long)?
    }

    /// Reviews an object. Work that depends on its size is done on threads of its own, which keep their place even if
    /// the request has ended.
    async fn review(&self, body: Bytes) -> Result<ReviewAnswer, NoAnswer> {
        let place = self.places.clone().acquire_owned().await.map_err(|_| ending())?;
        let read = spawn_blocking(move || (place, read(&body)));
        let (place, reviewed) = read.await.map_err(failed)?;
        let Some(reviewed) = reviewed? else { return Ok(ReviewAnswer::default()) };
        let basis = move |core: &Core| core.review_basis(&reviewed).map(|basis| (basis, reviewed));
        let basis = self.handle.query(basis).await.ok_or_else(ending)?;
        let (basis, reviewed) = basis.map_err(NoAnswer::NotChecked)?;
        let mode = self.mode;
        let answer = spawn_blocking(move || {
            let _place = place;
            review::review(basis, &reviewed).map(|review| verdict::answer(mode, reviewed.key(), &review))
        });
        answer.await.map_err(failed)?.map_err(|why| NoAnswer::NotChecked(why.to_string()))
    }
}

/// The reason why a request has no answer about its object.
enum NoAnswer {
    NotChecked(String),
    NotAReview(NotAReview),
}

fn result(answer: &ReviewAnswer) -> ReviewResult {
    match (&answer.refusal, answer.warnings.is_empty()) {
        (Some(_), _) => ReviewResult::Denied,
        (None, false) => ReviewResult::Warned,
        (None, true) => ReviewResult::Allowed,
    }
}

/// Reads the object of a request; `None` if it has none that is to be reviewed.
fn read(body: &[u8]) -> Result<Option<Reviewed>, NoAnswer> {
    let request = admission::read(body).map_err(NoAnswer::NotAReview)?;
    let read = |object| Reviewed::read(object).map_err(|why| NoAnswer::NotChecked(why.to_string()));
    request.object().map(read).transpose()
}

fn ending() -> NoAnswer {
    NoAnswer::NotChecked("it is ending".into())
}

fn failed(_: JoinError) -> NoAnswer {
    NoAnswer::NotChecked("the review failed; please report this bug".into())
}
