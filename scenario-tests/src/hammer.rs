//! Requests without pause in the background, each answer kept: what a change must not disturb.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tokio::task::JoinHandle;

use crate::ask::{Ask, Reply};
use crate::connect::Connection;

/// Rest between two requests of one hand: many connections, but not more than the kernel has ports for.
const REST: Duration = Duration::from_millis(4);
/// How long one request may take before it counts as a failure.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// What came of one request: the answer's status and the back end, or why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shot {
    /// An answer.
    Answer {
        /// Its status.
        status: u16,
        /// The back end that gave it; empty where none did.
        pod: String,
        /// Start of the body, where no back end gave the answer.
        body: String,
    },
    /// No answer.
    Broken(String),
}

impl Shot {
    /// Whether it is a 200 of a back end.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Answer { status: 200, pod, .. } if !pod.is_empty())
    }

    /// Whether any back end answered.
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

/// A hammer at work; stop it to read what it saw. Dropping it stops it as well.
#[derive(Debug)]
pub struct Hammer {
    seen: Arc<Mutex<BTreeMap<Shot, u64>>>,
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    hands: Vec<JoinHandle<()>>,
}

impl Hammer {
    /// Sends each of the requests without pause, each by a hand of its own, each time on a new connection.
    pub fn start(asks: impl IntoIterator<Item = Ask>) -> Self {
        Self::with(asks.into_iter().map(|ask| vec![ask]), false)
    }

    /// The same on connections that are kept as long as the server keeps them. Where it closed one, the request is sent
    /// once more on a new one, as every client does.
    pub fn start_kept(asks: impl IntoIterator<Item = Ask>) -> Self {
        Self::with(asks.into_iter().map(|ask| vec![ask]), true)
    }

    /// The same by one hand alone, which takes the requests in turn.
    pub fn start_kept_in_turn(asks: impl IntoIterator<Item = Ask>) -> Self {
        Self::with([asks.into_iter().collect()], true)
    }

    fn with(hands: impl IntoIterator<Item = Vec<Ask>>, kept: bool) -> Self {
        let (seen, count, stop) = (Arc::default(), Arc::default(), Arc::default());
        let hand = |asks| tokio::spawn(strike(asks, kept, Arc::clone(&seen), Arc::clone(&count), Arc::clone(&stop)));
        let hands = hands.into_iter().map(hand).collect();
        Self { seen, count, stop, hands }
    }

    /// How many requests have ended so far.
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

    /// Stops, and says how often each outcome was seen.
    pub async fn stop(mut self) -> Vec<(Shot, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        for hand in self.hands.drain(..) {
            let _ = hand.await;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(shot, times)| (shot.clone(), *times)).collect()
    }

    /// Stops, and fails where any outcome is not allowed; says how many requests there were.
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
    asks: Vec<Ask>,
    kept: bool,
    seen: Arc<Mutex<BTreeMap<Shot, u64>>>,
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) {
    let mut asks: Vec<(Ask, Option<Connection>)> = asks.into_iter().map(|ask| (ask, None)).collect();
    while !stop.load(Ordering::Relaxed) && !asks.is_empty() {
        for (ask, connection) in &mut asks {
            let answer = tokio::time::timeout(REQUEST_MAX, send(ask, connection)).await;
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

/// Sends on the connection that is kept, else, or where that fails, on a new one that is left to be kept.
async fn send(ask: &Ask, kept: &mut Option<Connection>) -> Result<Reply> {
    if let Some(connection) = kept
        && let Ok(reply) = ask.send_on(connection).await
    {
        return Ok(reply);
    }
    ask.send_on(kept.insert(ask.connect().await?)).await
}
