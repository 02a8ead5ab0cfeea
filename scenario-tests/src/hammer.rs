//! Continuous background load that records each outcome, for changes that must not disturb traffic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tokio::task::JoinHandle;

use crate::connect::ClientConnection;
use crate::request::{HttpRequest, Reply};

/// Pause between two requests of one task: many connections, but not more than the kernel has ports for.
const REST: Duration = Duration::from_millis(4);
/// Maximum duration of one request; a longer request counts as a failure.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// The outcome of one request: status and backend of the response, or the error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shot {
    /// A response.
    Answer {
        /// Status code.
        status: u16,
        /// The backend that answered; empty where none did.
        pod: String,
        /// Beginning of the body, where no backend answered.
        body: String,
    },
    /// No response.
    Broken(String),
}

impl Shot {
    /// Whether a backend answered with status 200.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Answer { status: 200, pod, .. } if !pod.is_empty())
    }

    /// Whether any backend answered.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Answer { pod, .. } if !pod.is_empty())
    }

    fn of(reply: Result<Reply>) -> Self {
        match reply {
            Ok(reply) => {
                let pod = reply.pod().unwrap_or_default();
                let body = if pod.is_empty() { reply.body.chars().take(80).collect() } else { String::new() };
                Self::Answer { status: reply.status.as_u16(), pod, body }
            }
            Err(error) => Self::Broken(format!("{error:#}")),
        }
    }
}

/// A running hammer; `stop` returns the outcomes. Dropping it stops it as well.
#[derive(Debug)]
pub struct Hammer {
    seen: Arc<Mutex<BTreeMap<Shot, u64>>>,
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    hands: Vec<JoinHandle<()>>,
}

impl Hammer {
    /// Sends each of the requests continuously, each in a separate task, each time on a new connection.
    pub fn start(requests: impl IntoIterator<Item = HttpRequest>) -> Self {
        Self::with(requests.into_iter().map(|request| vec![request]), false)
    }

    /// Sends each of the requests continuously, each in a separate task, on connections that stay open as long as the
    /// server allows. Where the server has closed one, the request is repeated on a new connection, as every client
    /// does.
    pub fn start_kept(requests: impl IntoIterator<Item = HttpRequest>) -> Self {
        Self::with(requests.into_iter().map(|request| vec![request]), true)
    }

    /// Sends the requests in turn, in one task, on connections that stay open.
    pub fn start_kept_in_turn(requests: impl IntoIterator<Item = HttpRequest>) -> Self {
        Self::with([requests.into_iter().collect()], true)
    }

    fn with(hands: impl IntoIterator<Item = Vec<HttpRequest>>, kept: bool) -> Self {
        let (seen, count, stop) = (Arc::default(), Arc::default(), Arc::default());
        let hand =
            |requests| tokio::spawn(strike(requests, kept, Arc::clone(&seen), Arc::clone(&count), Arc::clone(&stop)));
        let hands = hands.into_iter().map(hand).collect();
        Self { seen, count, stop, hands }
    }

    /// Number of requests that have ended.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until `more` further requests have ended.
    pub async fn goes_on(&self, more: u64) -> Result<()> {
        let wanted = self.count() + more;
        crate::wait::until("requests go on", || async {
            ensure!(self.count() >= wanted, "{} of {wanted} requests", self.count());
            Ok(())
        })
        .await
    }

    /// Stops, and returns how often each outcome occurred.
    pub async fn stop(mut self) -> Vec<(Shot, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        for hand in self.hands.drain(..) {
            let _ = hand.await;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(shot, times)| (shot.clone(), *times)).collect()
    }

    /// Stops, fails if any outcome is not allowed, and returns the number of requests.
    pub async fn stop_expecting(self, allowed: impl Fn(&Shot) -> bool) -> Result<u64> {
        let seen = self.stop().await;
        let total = seen.iter().map(|(_, times)| times).sum();
        let unwanted: Vec<_> = seen.iter().filter(|(shot, _)| !allowed(shot)).take(10).collect();
        if !unwanted.is_empty() {
            bail!("of {total} requests some did not end as they must: {unwanted:?}");
        }
        ensure!(total > 0, "not one request was sent");
        Ok(total)
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        for hand in &self.hands {
            hand.abort();
        }
    }
}

async fn strike(
    requests: Vec<HttpRequest>,
    kept: bool,
    seen: Arc<Mutex<BTreeMap<Shot, u64>>>,
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) {
    let mut requests: Vec<(HttpRequest, Option<ClientConnection>)> =
        requests.into_iter().map(|request| (request, None)).collect();
    while !stop.load(Ordering::Relaxed) && !requests.is_empty() {
        for (request, connection) in &mut requests {
            let answer = tokio::time::timeout(REQUEST_MAX, send(request, connection)).await;
            let shot = Shot::of(answer.unwrap_or_else(|_| bail!("no answer within {} s", REQUEST_MAX.as_secs())));
            if !kept || matches!(shot, Shot::Broken(_)) {
                *connection = None;
            }
            *seen.lock().unwrap_or_else(PoisonError::into_inner).entry(shot).or_default() += 1;
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(REST).await;
        }
    }
}

/// Sends on the open connection; if there is none or it fails, on a new one, which is kept.
async fn send(request: &HttpRequest, kept: &mut Option<ClientConnection>) -> Result<Reply> {
    if let Some(connection) = kept
        && let Ok(reply) = request.send_on(connection).await
    {
        return Ok(reply);
    }
    request.send_on(kept.insert(request.connect().await?)).await
}
