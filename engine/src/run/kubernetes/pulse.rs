//! The pulse of the API server: whether it answers at all, asked from time to time. Watches alone do not show it: one
//! that receives no event looks like a cluster in which nothing happens.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::Request;
use kube::{Client, Error};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::run::serve::sources::Sources;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// What every ServiceAccount may ask for.
const PATH: &str = "/version";

/// Asks until the product ends.
pub(super) async fn watch(client: Client, sources: Arc<Sources>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The receiver is closed: the process is ending.
    while Arc::strong_count(&sources) > 1 {
        ticks.tick().await;
        match timeout(ANSWER_TIME_MAX, ask(&client)).await {
            // Whatever it says, it is there.
            Ok(Ok(()) | Err(Error::Api(_))) => sources.answered(),
            Ok(Err(error)) => sources.failed(format!("it cannot be reached: {}", root(&error))),
            Err(_) => sources.failed(format!("it has not answered within {} s", ANSWER_TIME_MAX.as_secs())),
        }
    }
}

async fn ask(client: &Client) -> Result<(), Error> {
    let request = Request::get(PATH).body(Vec::new()).map_err(Error::HttpError)?;
    client.request_text(request).await.map(drop)
}

/// The innermost error: that a connection was refused, and not that a service failed.
fn root(error: &Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
