//! Waiting: ask again until it holds, with a deadline so generous that only a real fault reaches it.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, timeout_at};

/// How long anything may take to come true before the story fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long to rest between two questions.
const REST: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`, and fails with the last error when patience ends.
pub async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut last = anyhow::anyhow!("no answer at all");
    loop {
        match timeout_at(deadline, ask()).await {
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
