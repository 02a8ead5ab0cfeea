//! Passes on what is believed: nothing before every kind was listed, then whatever changes, a burst at once.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::watch::Ask;
use crate::engine::Event;
use crate::run::manifests::{Problem, Reading};
use crate::watching::{Watching, Word};

/// How often the time is told, and lists are asked for that are due.
const TICK: Duration = Duration::from_secs(1);
/// Words that are taken in at once.
const WORDS_AT_ONCE: usize = 4096;
/// How long a burst is waited out.
const GAP: Duration = Duration::from_millis(5);
/// How long the first lists may take before it is told which are awaited.
const LISTED_WITHIN: Duration = Duration::from_secs(15);

/// Runs until nobody takes the readings.
pub(super) async fn run(
    mut watching: Watching,
    mut words: mpsc::Receiver<(usize, Word)>,
    asks: Vec<Ask>,
    readings: mpsc::Sender<Reading>,
) {
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut heard, mut events) = (Vec::new(), Vec::<Event>::new());
    let (mut told, mut awaited, mut ready) = (Vec::new(), false, false);
    loop {
        tokio::select! {
            count = words.recv_many(&mut heard, WORDS_AT_ONCE) => {
                if count == 0 {
                    return;
                }
                for (watch, word) in heard.drain(..) {
                    events.extend(watching.hear(watch, word, now()));
                }
            }
            _ = ticks.tick() => {
                events.extend(watching.tick(now()));
                for watch in watching.to_confirm(now()) {
                    // One that is asked already is not asked twice.
                    let _ = asks.get(watch).map(|ask| ask.try_send(()));
                }
            }
        }
        if readings.is_closed() {
            return;
        }
        if !ready && !watching.is_ready() {
            if !awaited && started.elapsed() > LISTED_WITHIN {
                awaited = true;
                for problem in problems(&watching) {
                    tracing::warn!("{problem}; until then what was stored is served");
                }
            }
            continue;
        }
        let problems = problems(&watching);
        if ready && events.is_empty() && problems == told {
            continue;
        }
        ready = true;
        told.clone_from(&problems);
        let reading = Reading {
            events: std::mem::take(&mut events),
            problems,
            roots: "the API server".into(),
            objects: watching.objects(),
            ..Reading::default()
        };
        if readings.send(reading).await.is_err() {
            return;
        }
        sleep(GAP).await;
    }
}

fn problems(watching: &Watching) -> Vec<Problem> {
    watching.problems().into_iter().map(|(kind, message)| Problem::of_file(kind, message)).collect()
}
