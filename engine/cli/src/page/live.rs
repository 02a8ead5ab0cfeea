//! `/live`: server-sent events, one for each change of health. The page loads its content again then.

use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::extract::State as Extract;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt, stream};
use tokio::time::sleep;

use crate::admin::State;

/// The longest stream: shorter than the age of a connection, so that the browser opens the next one at once.
const LIVE_STREAM_MAX: Duration = Duration::from_secs(100);
/// The shortest time between two events of a stream.
const LIVE_EVENT_EVERY: Duration = Duration::from_millis(500);
/// Interval of comments, by which both sides notice that the other is gone.
const LIVE_COMMENT_EVERY: Duration = Duration::from_secs(15);

/// Sends the number of changes of health, now and after each change.
pub(super) async fn live(Extract(state): Extract<State>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut changes = state.health.changes();
    changes.mark_changed();
    let events = stream::unfold((changes, state), |(mut changes, state)| async move {
        // An error means that the sender is gone, and so is the product.
        changes.changed().await.ok()?;
        if state.health.ending.load(Relaxed) {
            return None;
        }
        let count = *changes.borrow_and_update();
        let event = Event::default().event("change").data(count.to_string());
        Some((event, (changes, state)))
    });
    let paced = events.then(|event| async {
        sleep(LIVE_EVENT_EVERY).await;
        Ok(event)
    });
    let limited = paced.take_until(Box::pin(sleep(LIVE_STREAM_MAX)));
    Sse::new(limited).keep_alive(KeepAlive::new().interval(LIVE_COMMENT_EVERY))
}
