//! Refusals by serving Envoys, sampled every second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_scenario_tests::request::get;
use tokio::task::JoinHandle;

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The number of refusals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// The most refusals within any minute.
    pub(super) worst_minute: u64,
    /// All refusals.
    pub(super) all: u64,
}

/// Samples of the number of refusals, each with its time.
type Samples = Vec<(Instant, u64)>;

/// The sampling in progress.
pub(super) struct Refusals {
    samples: Arc<Mutex<Samples>>,
    port: u16,
    sampling: JoinHandle<()>,
}

impl Refusals {
    /// Starts sampling at this port of metrics.
    pub(super) fn sample(port: u16) -> Self {
        let samples = Arc::new(Mutex::new(Samples::new()));
        let into = samples.clone();
        let sampling = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            loop {
                ticks.tick().await;
                take(port, &into).await;
            }
        });
        Self { samples, port, sampling }
    }

    /// Takes a last sample, and returns the counts.
    pub(super) async fn stop(self) -> Counted {
        self.sampling.abort();
        take(self.port, &self.samples).await;
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |(index, (from, before)): (usize, &(Instant, u64))| {
            let within = samples.iter().skip(index).take_while(|(at, _)| at.duration_since(*from) <= MINUTE);
            within.last().map_or(0, |(_, count)| count - before)
        };
        let all = samples.first().zip(samples.last()).map_or(0, |((_, first), (_, last))| last - first);
        Counted { worst_minute: samples.iter().enumerate().map(since).max().unwrap_or(0), all }
    }
}

async fn take(port: u16, samples: &Mutex<Samples>) {
    let Ok(reply) = get(port, "/metrics").host("localhost").send().await else { return };
    let lines = reply.body.lines().filter(|line| line.starts_with("holdfast_nacks_total{"));
    let count = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
    samples.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), count as u64));
}
