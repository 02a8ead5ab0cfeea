//! The main loop: one task owns the engine, feeds it what happened, and does what it says.
//!
//! Nobody else touches the engine. Whoever wants to know something sends a question, which is answered between two
//! translations.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use holdfast_xds::{Answer, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};

use super::health::Health;
use super::hold_off::HoldOff;
use super::news::News;
use super::outputs::Outputs;
use crate::engine::{Action, Engine, Event};
use crate::run::admin::metrics::Metrics;
use crate::run::manifests::{Problem, Reading};

/// How many readings, and how many questions, may wait; who sends more waits too.
pub const QUEUE_MAX: usize = 64;

/// A question to the loop.
pub type Question = Box<dyn FnOnce(&Core) + Send>;

/// Asks the loop.
#[derive(Clone, Debug)]
pub struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// Where questions are sent, and where the loop takes them.
    pub fn new() -> (Self, mpsc::Receiver<Question>) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        (Self(sender), receiver)
    }

    /// What the loop says; `None` where it has ended.
    pub async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&Core) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |core| {
            // Whoever asked may be gone.
            let _ = answer.send(question(core));
        });
        self.0.send(question).await.ok()?;
        answered.await.ok()
    }
}

/// What the loop owns.
pub struct Core {
    /// The deciding part.
    pub engine: Engine,
    /// What is served now, by Gateway.
    pub published: BTreeMap<Arc<str>, Snapshot>,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    outputs: Outputs,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    news: News,
}

/// What comes into the loop.
pub struct Inputs {
    /// From the manifests.
    pub readings: mpsc::Receiver<Reading>,
    /// From Envoys.
    pub answers: mpsc::Receiver<Answer>,
    /// From whoever wants to know.
    pub questions: mpsc::Receiver<Question>,
    /// True when the product is to end.
    pub ending: watch::Receiver<bool>,
}

impl Core {
    /// An engine, and what is done with its actions.
    pub fn new(engine: Engine, outputs: Outputs, metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        let (published, problems, news) = (BTreeMap::new(), Vec::new(), News::default());
        Self { engine, published, problems, outputs, metrics, health, news }
    }

    /// Runs until the product is to end; then everything that was started for the Gateways has ended too.
    pub async fn run(mut self, mut inputs: Inputs) {
        let mut hold_off = HoldOff::default();
        let mut events: Vec<Event> = Vec::new();
        let mut due: Option<tokio::time::Instant> = None;
        loop {
            let when_due = async move {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = inputs.ending.wait_for(|ending| *ending) => break,
                Some(question) = inputs.questions.recv() => question(&self),
                () = when_due => {
                    due = None;
                    tokio::task::block_in_place(|| self.translate(std::mem::take(&mut events)));
                    hold_off.translated(Instant::now());
                }
                Some(answer) = inputs.answers.recv() => {
                    self.hear(&answer);
                }
                Some(reading) = inputs.readings.recv() => {
                    self.take(&reading);
                    events.extend(reading.events);
                    due.get_or_insert_with(|| tokio::time::Instant::now() + hold_off.wait(Instant::now()));
                }
                else => break,
            }
        }
        self.outputs.end().await;
    }

    fn take(&mut self, reading: &Reading) {
        self.news.problems(&reading.problems);
        self.problems.clone_from(&reading.problems);
        if !self.health.manifests.swap(true, std::sync::atomic::Ordering::Relaxed) {
            tracing::info!(files = reading.files, objects = reading.objects, "read all manifests");
            if reading.objects == 0 {
                tracing::warn!("the manifests hold no object that Holdfast reads; waiting for some");
            }
        }
    }

    fn hear(&mut self, answer: &Answer) {
        self.metrics.answered(answer, self.published.get(&answer.fleet));
    }

    fn translate(&mut self, events: Vec<Event>) {
        let (count, started) = (events.len(), Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| self.engine.handle(events)));
        let took = started.elapsed();
        self.metrics.translated(outcome.is_ok(), took);
        let Ok(actions) = outcome else {
            // The hook for panics has told where. What is served stays.
            tracing::error!(events = count, "translation panicked; what was served before stays. Please report this");
            return;
        };
        tracing::debug!(events = count, actions = actions.len(), ?took, "translated");
        if actions.is_empty() {
            self.metrics.unchanged.inc();
        }
        for action in actions {
            self.act(action);
        }
        self.outputs.settled();
        Health::pass(&self.health.translation);
        self.tell();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Publish { gateway, snapshot } => {
                self.outputs.publish(&gateway, &snapshot);
                self.metrics.published(&gateway, &snapshot);
                self.published.insert(gateway, snapshot);
            }
            Action::Withdraw { gateway } => {
                self.outputs.withdraw(&gateway);
                self.metrics.withdrawn(&gateway);
                self.published.remove(&gateway);
            }
        }
    }

    /// Logs what became wrong or right.
    fn tell(&mut self) {
        let faults = super::view::faults(&self.engine);
        self.news.faults(&faults);
        let broken: std::collections::BTreeSet<_> =
            faults.iter().filter(|fault| fault.is_error()).map(|fault| &fault.object).collect();
        self.metrics.broken_objects.set(i64::try_from(broken.len()).unwrap_or(i64::MAX));
    }
}
