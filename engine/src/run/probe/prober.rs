//! Keeps the probe alive and gives it the orders that come, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::batch::{Batch, Loss, Step};
use super::course::Course;
use super::server::Link;
use super::session::{Lost, Session};
use super::view::{ProbeState, ProbeView};
use super::words::xds_socket;
use super::{Origin, server};
use crate::trial::{Outcome, Trial, Tried};

/// Orders that may wait.
const ORDERS_MAX: usize = 64;
/// Trials of one order.
const TRIALS_MAX: usize = 200_000;
/// Answers that may wait to be taken; the probe waits for a place.
const ANSWERS_MAX: usize = 64;
/// How long the proof may take that a probe holds one answer back, and gives others.
const PULSE_MAX: Duration = Duration::from_secs(2);
/// The pause before a probe that was lost is started again; it doubles while it cannot be started.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// The longest such pause.
const RESTART_AFTER_MAX: Duration = Duration::from_secs(10);

/// With what the probe is started.
#[derive(Clone, Debug)]
pub struct ProberOptions {
    /// Who starts it.
    pub origin: Origin,
    /// The data folder, held by this process; a probe that is started here gets a folder in it.
    pub data: PathBuf,
    /// How long the probe may answer nothing while it has something to answer.
    pub timeout: Duration,
}

/// An order that was not taken: too many wait, it is too large, or the prober has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} trials were not taken", .0.len())]
pub struct NotTaken(pub Vec<Trial>);

/// The way to the probe. Dropping it kills the probe; [`Prober::end`] ends it in order.
#[derive(Debug)]
pub struct Prober {
    orders: mpsc::Sender<Vec<Trial>>,
    available: watch::Receiver<Option<Arc<str>>>,
    view: watch::Receiver<ProbeView>,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Prober {
    /// Starts to keep a probe. Every trial that is submitted is answered once, in the channel that is returned; the
    /// answers of one order may come in several parts. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Where the data folder cannot be written to, or its path is too long for sockets. That no probe can be started is
    /// no error: see [`Prober::available`].
    pub fn start(options: ProberOptions) -> Result<(Self, mpsc::Receiver<Vec<Tried>>)> {
        let folder = options.origin.folder(&options.data)?;
        let socket = xds_socket(&folder)?;
        let (server, links) = server::start(&socket)?;
        let (orders_in, orders) = mpsc::channel(ORDERS_MAX);
        let (answers, answers_out) = mpsc::channel(ANSWERS_MAX);
        let (available_in, available) = watch::channel(None);
        let (view_in, view) = watch::channel(ProbeView::default());
        let (end, ending) = watch::channel(false);
        let keeper = Keeper {
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
            keeper.keep(ending).await;
            drop(server);
        });
        Ok((Self { orders: orders_in, available, view, end, task }, answers_out))
    }

    /// Hands an order over, to be tried after those before it. Never waits.
    ///
    /// # Errors
    /// Where it is not taken; the trials come back.
    pub fn submit(&self, trials: Vec<Trial>) -> Result<(), NotTaken> {
        if trials.len() > TRIALS_MAX {
            return Err(NotTaken(trials));
        }
        self.orders.try_send(trials).map_err(|error| NotTaken(error.into_inner()))
    }

    /// How many orders wait for those before them.
    pub fn waiting(&self) -> usize {
        self.orders.max_capacity() - self.orders.capacity()
    }

    /// Is there a probe? Its version, as in `1.40.0`: verdicts are those of that Envoy. While there is none, trials come
    /// back as [`Outcome::Unavailable`].
    pub fn available(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.available.clone()
    }

    /// Where the probe stands.
    pub fn view(&self) -> watch::Receiver<ProbeView> {
        self.view.clone()
    }

    /// Ends the probe, and returns when it has ended. Trials that are not answered yet are not.
    pub async fn end(mut self) {
        self.end.send_replace(true);
        // A task that panicked has said so.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // With the task goes the child, which is killed when it is dropped.
        self.task.abort();
    }
}

struct Keeper {
    options: ProberOptions,
    folder: PathBuf,
    socket: PathBuf,
    links: mpsc::Receiver<Link>,
    orders: mpsc::Receiver<Vec<Trial>>,
    answers: mpsc::Sender<Vec<Tried>>,
    available: watch::Sender<Option<Arc<str>>>,
    view: watch::Sender<ProbeView>,
    session: Option<Session>,
    /// How many probes were started.
    started: u64,
}

impl Keeper {
    async fn keep(mut self, mut ending: watch::Receiver<bool>) {
        self.options.origin.end_left_behind(&self.folder).await;
        tokio::select! {
            // Who could say so may be gone, too.
            _ = ending.wait_for(|ending| *ending) => {}
            () = self.work() => {}
        }
        self.available.send_replace(None);
        if let Some(session) = self.session.take() {
            session.end(&self.folder).await;
        }
    }

    /// Until nobody can order anything any longer.
    async fn work(&mut self) {
        let mut batch = Batch::default();
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
                        "a probe cannot be started; nothing is tried for now"
                    );
                    self.show(ProbeState::Unavailable, None);
                    self.available.send_replace(None);
                    batch.give_up();
                    self.hand_over(&mut batch).await;
                    if !self.decline_for(pause).await {
                        return;
                    }
                    pause = (pause * 2).min(RESTART_AFTER_MAX);
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

    /// Takes orders until the probe is lost; false where there will be none any longer.
    async fn serve(&mut self, batch: &mut Batch) -> bool {
        loop {
            let Some(session) = &mut self.session else { return true };
            let Some(step) = batch.step() else {
                self.hand_over(batch).await;
                let Some(session) = &mut self.session else { return true };
                tokio::select! {
                    order = self.orders.recv() => match order {
                        Some(trials) => *batch = Batch::new(trials),
                        None => return false,
                    },
                    lost = session.rest() => {
                        self.lose(&lost).await;
                        return true;
                    }
                }
                continue;
            };
            let is_alone = matches!(step, Step::Alone(_));
            if is_alone && !session.has_pulse(self.options.timeout).await {
                batch.lost_between();
                self.lose(&Lost::Silent).await;
                self.hand_over(batch).await;
                return true;
            }
            let trials = match step {
                Step::Together(trials) => trials,
                Step::Alone(trial) => vec![trial],
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
                // It died after its answer, which counts.
            } else if is_alone {
                let is_held = lost == Lost::Silent && session.has_pulse(PULSE_MAX).await;
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

    /// What is left of the probe is ended.
    async fn lose(&mut self, lost: &Lost) {
        tracing::warn!(?lost, "a probe was lost");
        self.show(ProbeState::Starting, None);
        if let Some(session) = self.session.take() {
            session.kill(&self.folder).await;
        }
    }

    /// Answers all orders that come meanwhile: there is no probe. False where there will be none any longer.
    async fn decline_for(&mut self, pause: Duration) -> bool {
        let until = tokio::time::Instant::now() + pause;
        while let Ok(order) = tokio::time::timeout_at(until, self.orders.recv()).await {
            let Some(trials) = order else { return false };
            let mut batch = Batch::new(trials);
            batch.give_up();
            self.hand_over(&mut batch).await;
        }
        true
    }

    async fn hand_over(&mut self, batch: &mut Batch) {
        let tried = batch.take_answered();
        if !tried.is_empty() {
            self.view.send_modify(|view| view.count(&tried));
            // Where nobody wants to know it, it is no matter.
            let _ = self.answers.send(tried).await;
        }
    }

    fn show(&self, state: ProbeState, pid: Option<u32>) {
        let restarts = self.started.saturating_sub(1);
        self.view.send_modify(|view| (view.state, view.pid, view.restarts) = (state, pid, restarts));
    }
}
