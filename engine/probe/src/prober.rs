//! Controller of the probe: keeps it running and processes orders one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use holdfast_fallback::trial::{Outcome, Trial, Tried};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::batch::{Loss, TrialBatch, TrialStep};
use crate::course::Course;
use crate::protocol::xds_socket;
use crate::server::Link;
use crate::session::{ProbeLoss, Session};
use crate::view::{ProbeState, ProbeView};
use crate::{Origin, server};

/// Maximum number of orders that wait.
const TRIAL_ORDERS_MAX: usize = 64;
/// Maximum number of trials of one order.
const TRIALS_PER_ORDER_MAX: usize = 200_000;
/// Maximum number of results that wait to be received; beyond it the probe waits.
const PROBE_ANSWERS_MAX: usize = 64;
/// Timeout of the check whether a probe that delays one answer still gives others.
const PROBE_PULSE_MAX: Duration = Duration::from_secs(2);
/// Pause before a lost probe is started again; it doubles while the probe cannot be started.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// Maximum of this pause.
const PROBE_RESTART_AFTER_MAX: Duration = Duration::from_secs(10);

/// The options of the probe.
#[derive(Clone, Debug)]
pub struct ProberOptions {
    /// The starter of the probe.
    pub origin: Origin,
    /// The data folder, locked by this process; a probe that Holdfast starts itself has a folder in it.
    pub data: PathBuf,
    /// How long the probe may be silent while answers are pending.
    pub timeout: Duration,
}

/// An order that was not accepted: too many orders wait, it is too large, or the prober has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} trials were not taken", .0.len())]
pub struct NotTaken(pub Vec<Trial>);

/// The handle of the probe. Dropping it kills the probe; [`Prober::end`] ends it in order.
#[derive(Debug)]
pub struct Prober {
    orders: mpsc::Sender<Vec<Trial>>,
    available: watch::Receiver<Option<Arc<str>>>,
    view: watch::Receiver<ProbeView>,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Prober {
    /// Starts the probe and keeps it running. Every submitted trial gets one result on the returned channel; the
    /// results of one order may arrive in several parts. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the data folder is not writable, or its path is too long for sockets. A probe that cannot be
    /// started is no error: see [`Prober::available`].
    pub fn start(options: ProberOptions) -> Result<(Self, mpsc::Receiver<Vec<Tried>>)> {
        let folder = options.origin.folder(&options.data)?;
        let socket = xds_socket(&folder)?;
        let (server, links) = server::start(&socket)?;
        let (orders_in, orders) = mpsc::channel(TRIAL_ORDERS_MAX);
        let (answers, answers_out) = mpsc::channel(PROBE_ANSWERS_MAX);
        let (available_in, available) = watch::channel(None);
        let (view_in, view) = watch::channel(ProbeView::default());
        let (end, ending) = watch::channel(false);
        let controller = ProbeController {
            options,
            folder,
            socket,
            links,
            orders,
            answers,
            available: available_in,
            view: view_in,
            session: None,
            started: 0,
        };
        let task = tokio::spawn(async move {
            controller.keep(ending).await;
            drop(server);
        });
        Ok((Self { orders: orders_in, available, view, end, task }, answers_out))
    }

    /// Submits an order, to be tried after the earlier ones. Never blocks.
    ///
    /// # Errors
    /// Returns the trials if the order is not accepted.
    pub fn submit(&self, trials: Vec<Trial>) -> Result<(), NotTaken> {
        if trials.len() > TRIALS_PER_ORDER_MAX {
            return Err(NotTaken(trials));
        }
        self.orders.try_send(trials).map_err(|error| NotTaken(error.into_inner()))
    }

    /// The number of waiting orders.
    pub fn waiting(&self) -> usize {
        self.orders.max_capacity() - self.orders.capacity()
    }

    /// The version of the probe, as in `1.40.0`, to which verdicts apply; `None` without a probe, when trials have the
    /// result [`Outcome::Unavailable`].
    pub fn available(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.available.clone()
    }

    /// The state of the probe for diagnostics.
    pub fn view(&self) -> watch::Receiver<ProbeView> {
        self.view.clone()
    }

    /// Ends the probe, and returns when it has ended. Pending trials get no result.
    pub async fn end(mut self) {
        self.end.send_replace(true);
        // A panic of the task has already been reported.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // Aborting the task drops the child process, which kills it.
        self.task.abort();
    }
}

struct ProbeController {
    options: ProberOptions,
    folder: PathBuf,
    socket: PathBuf,
    links: mpsc::Receiver<Link>,
    orders: mpsc::Receiver<Vec<Trial>>,
    answers: mpsc::Sender<Vec<Tried>>,
    available: watch::Sender<Option<Arc<str>>>,
    view: watch::Sender<ProbeView>,
    session: Option<Session>,
    /// The number of probes that were started.
    started: u64,
}

impl ProbeController {
    async fn keep(mut self, mut ending: watch::Receiver<bool>) {
        self.options.origin.end_left_behind(&self.folder).await;
        tokio::select! {
            // The sender may also be gone.
            _ = ending.wait_for(|ending| *ending) => {}
            () = self.work() => {}
        }
        self.available.send_replace(None);
        if let Some(session) = self.session.take() {
            session.end(&self.folder).await;
        }
    }

    /// Runs until no more orders can arrive.
    async fn work(&mut self) {
        let mut batch = TrialBatch::default();
        let mut pause = RESTART_AFTER;
        loop {
            match self.open().await {
                Ok(()) => {
                    pause = RESTART_AFTER;
                    if !self.serve(&mut batch).await {
                        return;
                    }
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "cannot start the probe; until it runs, one Envoy of each fleet tries changed configuration \
                         first"
                    );
                    self.show(ProbeState::Unavailable, None);
                    self.available.send_replace(None);
                    batch.give_up();
                    self.hand_over(&mut batch).await;
                    if !self.decline_for(pause).await {
                        return;
                    }
                    pause = (pause * 2).min(PROBE_RESTART_AFTER_MAX);
                }
            }
        }
    }

    async fn open(&mut self) -> Result<()> {
        if self.available.borrow().is_some() || self.started == 0 {
            self.show(ProbeState::Starting, None);
        }
        self.started += 1;
        let node = format!("holdfast-probe-{}", self.started);
        let paths = (&*self.folder, &*self.socket);
        let session = Session::open(&self.options, paths, &node, &mut self.links).await?;
        let (pid, version) = (session.pid(), session.version());
        self.session = Some(session);
        tracing::info!(pid, %version, "a probe is ready");
        self.view.send_modify(|view| view.build = version.to_string());
        self.show(ProbeState::Ready, Some(pid));
        self.available.send_replace(Some(version));
        Ok(())
    }

    /// Processes orders until the probe is lost; returns false if no more orders can arrive.
    async fn serve(&mut self, batch: &mut TrialBatch) -> bool {
        loop {
            let Some(session) = &mut self.session else { return true };
            let Some(step) = batch.step() else {
                self.hand_over(batch).await;
                let Some(session) = &mut self.session else { return true };
                tokio::select! {
                    order = self.orders.recv() => match order {
                        Some(trials) => *batch = TrialBatch::new(trials),
                        None => return false,
                    },
                    lost = session.rest() => {
                        self.lose(&lost).await;
                        return true;
                    }
                }
                continue;
            };
            let is_alone = matches!(step, TrialStep::Alone(_));
            if is_alone && !session.has_pulse(self.options.timeout).await {
                batch.lost_between();
                self.lose(&ProbeLoss::Silent).await;
                self.hand_over(batch).await;
                return true;
            }
            let trials = match step {
                TrialStep::Together(trials) => trials,
                TrialStep::Alone(trial) => vec![trial],
            };
            let (mut course, left) = Course::new(trials);
            batch.answer(left.into_iter().map(|trial| Tried { id: trial.id, outcome: Outcome::Unavailable }));
            let mut tried = Vec::new();
            let outcome = session.converse(&mut course, self.options.timeout, &mut tried).await;
            batch.answer(tried);
            let Err(lost) = outcome else {
                if !is_alone {
                    self.hand_over(batch).await;
                }
                continue;
            };
            if is_alone && course.is_answered() {
                // The probe died after its answer, which counts.
            } else if is_alone {
                let is_held = lost == ProbeLoss::Silent && session.has_pulse(PROBE_PULSE_MAX).await;
                batch.lost_alone(if is_held { Loss::Held } else { Loss::Probe });
            } else {
                let (under_way, not_begun) = course.into_unanswered();
                batch.lost_together(under_way, not_begun);
            }
            self.lose(&lost).await;
            self.hand_over(batch).await;
            return true;
        }
    }

    /// Kills a lost probe.
    async fn lose(&mut self, lost: &ProbeLoss) {
        tracing::warn!(?lost, "the probe ended or does not answer; Holdfast starts another one");
        self.show(ProbeState::Starting, None);
        if let Some(session) = self.session.take() {
            session.kill(&self.folder).await;
        }
    }

    /// Answers all orders that arrive meanwhile without a probe. Returns false if no more orders can arrive.
    async fn decline_for(&mut self, pause: Duration) -> bool {
        let until = tokio::time::Instant::now() + pause;
        while let Ok(order) = tokio::time::timeout_at(until, self.orders.recv()).await {
            let Some(trials) = order else { return false };
            let mut batch = TrialBatch::new(trials);
            batch.give_up();
            self.hand_over(&mut batch).await;
        }
        true
    }

    async fn hand_over(&mut self, batch: &mut TrialBatch) {
        let tried = batch.take_answered();
        if !tried.is_empty() {
            self.view.send_modify(|view| view.count(&tried));
            // A closed receiver means that the results are no longer needed.
            let _ = self.answers.send(tried).await;
        }
    }

    fn show(&self, state: ProbeState, pid: Option<u32>) {
        let restarts = self.started.saturating_sub(1);
        self.view.send_modify(|view| (view.state, view.pid, view.restarts) = (state, pid, restarts));
    }
}
