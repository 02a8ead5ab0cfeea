//! Liveness of the API server, checked periodically. Watches alone do not show it: a watch that receives no event looks
//! like a cluster in which nothing changes.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::Request;
use kube::{Client, Error};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::sources::Sources;

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(5);
/// Timeout of a check.
const PULSE_ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// A path that every ServiceAccount may read.
const PATH: &str = "/version";

/// Checks until the product ends.
pub(crate) async fn watch(client: Client, sources: Arc<Sources>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // No other owner is left: the process is ending.
    while Arc::strong_count(&sources) > 1 {
        ticks.tick().await;
        match timeout(PULSE_ANSWER_TIME_MAX, ping(&client)).await {
            // Any answer shows that the server is available.
            Ok(Ok(()) | Err(Error::Api(_))) => sources.answered(),
            Ok(Err(error)) => sources.failed(format!("it cannot be reached: {}", root(&error))),
            Err(_) => sources.failed(format!("it has not answered within {} s", PULSE_ANSWER_TIME_MAX.as_secs())),
        }
    }
}

async fn ping(client: &Client) -> Result<(), Error> {
    let request = Request::get(PATH).body(Vec::new()).map_err(Error::HttpError)?;
    client.request_text(request).await.map(drop)
}

/// The innermost error: "connection refused" rather than "service error".
fn root(error: &Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
