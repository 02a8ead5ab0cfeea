//! Polling with a deadline that is so generous that only a real fault reaches it.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, timeout_at};

/// Maximum wait for any condition before the story fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two polls.
const REST: Duration = Duration::from_millis(20);

/// Polls until the result is `Ok`, and fails with the last error after [`PATIENCE`].
pub async fn until<T, F>(what: &str, mut poll: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut last = anyhow::anyhow!("no answer at all");
    loop {
        match timeout_at(deadline, poll()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            return Err(last).with_context(|| format!("waited {} s in vain until {what}", PATIENCE.as_secs()));
        }
        sleep(REST).await;
    }
}
