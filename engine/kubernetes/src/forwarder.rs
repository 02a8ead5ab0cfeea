//! Queue of watch events: forwards nothing before every kind was listed, then every change, a burst as one reading.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::watch_problem::WatchProblem;
use holdfast_engine::engine::Event;
use prometheus::IntGaugeVec;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::WatchReading;
use crate::denials::Denials;
use crate::sources::Sources;
use crate::watch::ConfirmSender;
use crate::watching::{WatchEvent, Watching};

/// Interval of clock ticks, on which due confirmation lists are requested.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of watch events that are processed at once.
const WATCH_EVENTS_AT_ONCE: usize = 4096;
/// Pause after each reading, in which a burst of events collects.
const GAP: Duration = Duration::from_millis(5);
/// How long the first lists may take before a warning names the missing ones.
const LISTED_WITHIN: Duration = Duration::from_secs(15);

/// The step between the watches and the main loop.
pub(crate) struct Forwarder {
    watching: Watching,
    confirm_senders: Vec<ConfirmSender>,
    denials: Denials,
    gauge: IntGaugeVec,
    sources: Arc<Sources>,
    started: Instant,
}

impl Forwarder {
    pub(crate) fn new(
        watching: Watching,
        confirm_senders: Vec<ConfirmSender>,
        denials: Denials,
        gauge: IntGaugeVec,
        sources: Arc<Sources>,
    ) -> Self {
        Self { watching, confirm_senders, denials, gauge, sources, started: Instant::now() }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs until the receiver of readings is closed.
    pub(crate) async fn run<R: From<WatchReading>>(
        mut self,
        mut watch_events: mpsc::Receiver<(usize, WatchEvent)>,
        readings: mpsc::Sender<R>,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut received, mut events) = (Vec::new(), Vec::<Event>::new());
        let (mut reported, mut awaited, mut ready) = (None, false, false);
        loop {
            tokio::select! {
                count = watch_events.recv_many(&mut received, WATCH_EVENTS_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    let now_ms = self.now_ms();
                    for (watch, event) in received.drain(..) {
                        events.extend(self.watching.on_event(watch, event, now_ms));
                    }
                }
                _ = ticks.tick() => {
                    let now_ms = self.now_ms();
                    events.extend(self.watching.tick(now_ms));
                    for watch in self.watching.to_confirm(now_ms) {
                        // A request that is pending already is not repeated.
                        let _ = self.confirm_senders.get(watch).map(|confirm| confirm.try_send(()));
                    }
                }
            }
            if readings.is_closed() {
                return;
            }
            let problems = self.problems();
            let is_news = reported.as_ref() != Some(&problems);
            if is_news {
                self.count(&problems);
                self.sources.kinds(&problems);
                reported = Some(problems.clone());
            }
            if !ready && !self.watching.is_ready() {
                if !awaited && self.started.elapsed() > LISTED_WITHIN {
                    awaited = true;
                    for WatchProblem { of, message, .. } in &problems {
                        tracing::warn!("{of}: {message}; until then the stored configuration is served");
                    }
                }
                continue;
            }
            if ready && events.is_empty() && !is_news {
                continue;
            }
            if !ready || is_news {
                events.push(Event::WatchProblems(problems.clone()));
            }
            ready = true;
            let reading =
                WatchReading { events: std::mem::take(&mut events), problems, objects: self.watching.objects() };
            if readings.send(reading.into()).await.is_err() {
                return;
            }
            sleep(GAP).await;
        }
    }

    fn problems(&self) -> Vec<WatchProblem> {
        [self.watching.problems(), self.denials.problems()].concat()
    }

    fn count(&self, problems: &[WatchProblem]) {
        self.gauge.reset();
        for WatchProblem { of, why, .. } in problems {
            // The label has no namespace, since there may be many.
            let about = of.split(' ').next().unwrap_or_default();
            self.gauge.with_label_values(&[about, why.name()]).inc();
        }
    }
}
