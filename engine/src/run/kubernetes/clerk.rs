//! Queue of watch events: forwards nothing before every kind was listed, then every change, a burst as one reading.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGaugeVec;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::denials::Denials;
use super::watch::Ask;
use crate::engine::Event;
use crate::run::manifests::{Problem, Reading};
use crate::run::serve::sources::Sources;
use crate::watching::{Trouble, Watching, Word};

/// Interval of clock ticks, on which due confirmation lists are requested.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of watch events that are processed at once.
const WORDS_AT_ONCE: usize = 4096;
/// Pause after each reading, in which a burst of events collects.
const GAP: Duration = Duration::from_millis(5);
/// How long the first lists may take before a warning names the missing ones.
const LISTED_WITHIN: Duration = Duration::from_secs(15);

/// The step between the watches and the main loop.
pub(super) struct Clerk {
    watching: Watching,
    asks: Vec<Ask>,
    denials: Denials,
    gauge: IntGaugeVec,
    sources: Arc<Sources>,
    started: Instant,
}

impl Clerk {
    pub(super) fn new(
        watching: Watching,
        asks: Vec<Ask>,
        denials: Denials,
        gauge: IntGaugeVec,
        sources: Arc<Sources>,
    ) -> Self {
        Self { watching, asks, denials, gauge, sources, started: Instant::now() }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs until the receiver of readings is closed.
    pub(super) async fn run(mut self, mut words: mpsc::Receiver<(usize, Word)>, readings: mpsc::Sender<Reading>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut heard, mut events) = (Vec::new(), Vec::<Event>::new());
        let (mut told, mut awaited, mut ready) = (None, false, false);
        loop {
            tokio::select! {
                count = words.recv_many(&mut heard, WORDS_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    let now_ms = self.now_ms();
                    for (watch, word) in heard.drain(..) {
                        events.extend(self.watching.hear(watch, word, now_ms));
                    }
                }
                _ = ticks.tick() => {
                    let now_ms = self.now_ms();
                    events.extend(self.watching.tick(now_ms));
                    for watch in self.watching.to_confirm(now_ms) {
                        // A request that is pending already is not repeated.
                        let _ = self.asks.get(watch).map(|ask| ask.try_send(()));
                    }
                }
            }
            if readings.is_closed() {
                return;
            }
            let troubles = self.troubles();
            let is_news = told.as_ref() != Some(&troubles);
            if is_news {
                self.count(&troubles);
                self.sources.kinds(&troubles);
                told = Some(troubles.clone());
            }
            if !ready && !self.watching.is_ready() {
                if !awaited && self.started.elapsed() > LISTED_WITHIN {
                    awaited = true;
                    for problem in problems(&troubles) {
                        tracing::warn!("{problem}; until then the stored configuration is served");
                    }
                }
                continue;
            }
            if ready && events.is_empty() && !is_news {
                continue;
            }
            if !ready || is_news {
                events.push(Event::Troubles(troubles.clone()));
            }
            ready = true;
            let reading = Reading {
                events: std::mem::take(&mut events),
                problems: problems(&troubles),
                roots: "the API server".into(),
                objects: self.watching.objects(),
                ..Reading::default()
            };
            if readings.send(reading).await.is_err() {
                return;
            }
            sleep(GAP).await;
        }
    }

    fn troubles(&self) -> Vec<Trouble> {
        [self.watching.troubles(), self.denials.troubles()].concat()
    }

    fn count(&self, troubles: &[Trouble]) {
        self.gauge.reset();
        for Trouble { of, why, .. } in troubles {
            // The label has no namespace, since there may be many.
            let about = of.split(' ').next().unwrap_or_default();
            self.gauge.with_label_values(&[about, why.name()]).inc();
        }
    }
}

fn problems(troubles: &[Trouble]) -> Vec<Problem> {
    troubles.iter().map(|trouble| Problem::of_file(trouble.of.clone(), trouble.message.as_str())).collect()
}
