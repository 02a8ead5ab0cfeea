//! The main loop: one task owns the engine, feeds it what happened, and does what it says.
//!
//! Nobody else touches the engine. Whoever wants to know something sends a question, which is answered between two
//! translations.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_graph::ObjectKey;
use holdfast_xds::{Notice, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::block_in_place;
use tokio::time::{Instant as Deadline, sleep_until};

use super::health::Health;
use super::hold_off::HoldOff;
use super::news::News;
use super::outputs::Outputs;
use super::sources::Seen;
use super::unanswered::{NotAnswering, Responses};
use super::watched::Watched;
use crate::engine::{Action, Engine, Event};
use crate::fallback::events::events;
use crate::fallback::view::FallbackReport;
use crate::health::Outside;
use crate::health::inputs::Input;
use crate::object::Source;
use crate::run::admin::metrics::Metrics;
use crate::run::events::{EventRecorder, LogRecorder};
use crate::run::kubernetes::planes::DataPlanes;
use crate::run::kubernetes::recorder::KubernetesRecorder;
use crate::run::kubernetes::statuses::{self, Statuses};
use crate::run::manifests::{Problem, Reading};
use crate::run::probe::Prober;
use crate::run::shared::task::Outbox;
use crate::time::Moment;
use crate::trial::Tried;

/// How many readings, and how many questions, may wait; who sends more waits too.
pub const QUEUE_MAX: usize = 64;
/// How many notices of Envoys are taken in at once.
const NOTICES_AT_ONCE: usize = 1024;
/// How long after a change what is wrong is looked through, which costs more than most changes do.
const TELL_AFTER: Duration = Duration::from_millis(50);

/// How often the engine is told the time where nothing happens.
const TICK: Duration = Duration::from_secs(1);

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

/// Where objects are written.
pub type Places = imbl::HashMap<ObjectKey, Source>;

/// What the loop owns.
pub struct Core {
    /// The deciding part.
    pub engine: Engine,
    /// What is served now, by Gateway.
    pub published: BTreeMap<Arc<str>, Snapshot>,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// Where each object is written.
    pub places: Places,
    outputs: Outputs,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    news: News,
    /// What was told last of the fallback.
    report: FallbackReport,
    recorder: Box<dyn EventRecorder>,
    /// Where statuses are written; `None` in standalone mode. With the time at which they were looked at last.
    statuses: Option<Statuses>,
    told: Option<Instant>,
    /// Who makes Envoys for Gateways; `None` where somebody else does.
    planes: Option<DataPlanes>,
    /// What health needs of the world outside the engine.
    watched: Watched,
    /// Changes of the sources that health has taken in, and why no Envoy could connect then.
    surroundings_seen: (u64, Option<String>),
    responses: Responses,
    /// Envoys that are connected and do not answer.
    not_answering: NotAnswering,
    /// Since when files, kinds and sources cannot be read.
    inputs_since: BTreeMap<Arc<str>, Moment>,
    /// The last reading: how many objects there are, and where they come from.
    objects: (usize, Arc<str>),
}

/// What comes into the loop.
pub struct Inputs {
    /// From the manifests.
    pub readings: mpsc::Receiver<Reading>,
    /// Of Envoys.
    pub notices: mpsc::Receiver<Notice>,
    /// From the probe; the sender is gone where there is none.
    pub tried: mpsc::Receiver<Vec<Tried>>,
    /// Is the probe there? With its build.
    pub probe: watch::Receiver<Option<Arc<str>>>,
    /// How data planes stand; the sender is gone where none are made.
    pub provisioned: mpsc::Receiver<Vec<Event>>,
    /// Which ports of the host other processes have; the sender is gone where no Envoy is managed.
    pub ports: mpsc::Receiver<Vec<Event>>,
    /// From the other replicas; the sender is gone where there are none.
    pub replicas: mpsc::Receiver<Vec<Event>>,
    /// From whoever wants to know.
    pub questions: mpsc::Receiver<Question>,
    /// True when the product is to end.
    pub ending: watch::Receiver<bool>,
}

/// What is to be done, and when.
#[derive(Default)]
struct Due {
    events: Vec<Event>,
    translate: Option<Deadline>,
    tell: Option<Deadline>,
    statuses: Option<Deadline>,
}

impl Core {
    /// An engine, and what is done with its actions.
    pub fn new(engine: Engine, outputs: Outputs, metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        let (published, problems, places, news) = (BTreeMap::new(), Vec::new(), Places::new(), News::default());
        let (report, recorder) = (FallbackReport::default(), Box::new(LogRecorder));
        Self {
            engine,
            published,
            problems,
            places,
            outputs,
            metrics,
            health,
            news,
            report,
            recorder,
            statuses: None,
            told: None,
            planes: None,
            watched: Watched::default(),
            surroundings_seen: (0, None),
            responses: Responses::default(),
            not_answering: NotAnswering::new(),
            inputs_since: BTreeMap::new(),
            objects: (0, "".into()),
        }
    }

    /// From now on statuses and Events go to an API server.
    pub(super) fn tell_kubernetes(&mut self, statuses: Statuses, recorder: KubernetesRecorder) {
        self.statuses = Some(statuses);
        self.recorder = Box::new(recorder);
    }

    /// From now on what data planes are wanted is said there.
    pub(super) fn keep_data_planes(&mut self, planes: Option<DataPlanes>) {
        self.planes = planes;
    }

    /// From now on health takes this in too.
    pub(super) fn watch(&mut self, watched: Watched) {
        self.engine.date(watched.ledger.clone());
        self.watched = watched;
    }

    /// Runs until the product is to end; then everything that was started for the Gateways has ended too.
    pub async fn run(mut self, mut inputs: Inputs) {
        let mut hold_off = HoldOff::default();
        let mut due = Due::default();
        let (mut notices, mut noticing) = (Vec::new(), true);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                _ = inputs.ending.wait_for(|ending| *ending) => break,
                () = at(due.translate) => {
                    due.translate = None;
                    let events = std::mem::take(&mut due.events);
                    block_in_place(|| self.translate(events));
                    hold_off.translated(Instant::now());
                    due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                }
                count = inputs.notices.recv_many(&mut notices, NOTICES_AT_ONCE), if noticing => {
                    noticing = count > 0;
                    block_in_place(|| self.hear(notices.drain(..)));
                    due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                }
                Some(tried) = inputs.tried.recv() => {
                    block_in_place(|| self.hear_events(vec![Event::Tried(tried)]));
                    due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                }
                Some(events) = inputs.replicas.recv() => {
                    if block_in_place(|| self.hear_events(events)) {
                        due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                    }
                }
                Ok(()) = inputs.probe.changed() => {
                    let build = inputs.probe.borrow_and_update().clone();
                    block_in_place(|| self.hear_events(vec![Event::Probe(build)]));
                    due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                }
                Some(events) = inputs.ports.recv() => {
                    if block_in_place(|| self.hear_events(events)) {
                        due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                    }
                }
                Some(events) = inputs.provisioned.recv() => {
                    block_in_place(|| self.hear_events(events));
                    due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                }
                _ = ticks.tick() => {
                    if block_in_place(|| self.hear_events(Vec::new())) | self.surroundings_changed() {
                        due.tell.get_or_insert_with(|| Deadline::now() + TELL_AFTER);
                    }
                }
                () = at(due.tell) => {
                    due.tell = None;
                    block_in_place(|| self.tell());
                    due.statuses = self.statuses.as_ref().map(|_| self.next_look());
                }
                () = at(due.statuses) => {
                    due.statuses = None;
                    block_in_place(|| self.tell_statuses());
                }
                Some(question) = inputs.questions.recv() => block_in_place(|| question(&self)),
                Some(reading) = inputs.readings.recv() => {
                    self.take(&reading);
                    if reading.events.is_empty() && self.health.translation.load(Relaxed) {
                        continue;
                    }
                    due.events.extend(reading.events);
                    due.translate.get_or_insert_with(|| Deadline::now() + hold_off.wait(Instant::now()));
                }
                else => break,
            }
        }
        self.outputs.store(self.engine.take_records());
        self.outputs.end().await;
    }

    fn take(&mut self, reading: &Reading) {
        for (key, place) in &reading.places {
            match place {
                Some(place) => self.places.insert(key.clone(), place.clone()),
                None => self.places.remove(key),
            };
        }
        self.news.problems(&reading.problems);
        self.problems.clone_from(&reading.problems);
        if reading.roots != *self.objects.1 || reading.objects != self.objects.0 {
            self.objects = (reading.objects, reading.roots.as_str().into());
        }
        if !self.health.objects.swap(true, Relaxed) {
            tracing::info!(files = reading.files, objects = reading.objects, "read all objects");
            if reading.objects == 0 {
                tracing::warn!(from = reading.roots, "there is no object that Holdfast reads; waiting for some");
            }
        }
    }

    fn hear(&mut self, notices: impl Iterator<Item = Notice>) {
        let events = notices.map(|notice| match notice {
            Notice::Connected(envoy, resumes) => {
                self.outputs.envoy_connected(&envoy);
                Event::Connected(envoy, resumes)
            }
            Notice::Disconnected(envoy) => Event::Disconnected(envoy),
            Notice::Answered(answer) => {
                let fallback = self.engine.is_in_fallback(&answer.fleet);
                self.metrics.answered(&answer, self.published.get(&answer.fleet), fallback);
                Event::Answered(answer)
            }
        });
        let events: Vec<Event> = events.collect();
        self.hear_events(events);
    }

    /// From now on there is a probe, where one is given; the build where it is ready.
    pub fn use_probe(&mut self, prober: Option<Prober>, build: Option<Arc<str>>) {
        self.outputs.use_probe(prober);
        self.hear_events(vec![Event::Probe(build)]);
    }

    /// From now on what is proven and refused is shared with other replicas.
    pub fn share(&mut self, outbox: Outbox) {
        self.outputs.share(outbox);
    }

    /// Something happened that is no change of objects; true where something was done about it.
    pub fn hear_events(&mut self, events: Vec<Event>) -> bool {
        let Some((actions, _)) = self.handle(events) else { return false };
        let acted = !actions.is_empty();
        actions.into_iter().for_each(|action| self.act(action));
        acted
    }

    fn translate(&mut self, events: Vec<Event>) {
        let count = events.len();
        let outcome = self.handle(events);
        self.metrics.translated(outcome.as_ref().map(|(_, took)| *took));
        let Some((actions, took)) = outcome else { return };
        tracing::debug!(events = count, actions = actions.len(), ?took, "translated");
        if actions.is_empty() {
            self.metrics.unchanged.inc();
        }
        actions.into_iter().for_each(|action| self.act(action));
        self.outputs.settled(|| self.engine.gateways().into_iter().map(|gateway| gateway.name).collect());
        Health::pass(&self.health.translation);
    }

    /// What the engine says, and how long it took; `None` where it panicked: what is served stays, then.
    fn handle(&mut self, mut events: Vec<Event>) -> Option<(Vec<Action>, Duration)> {
        let (count, started) = (events.len(), Instant::now());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        events.insert(0, Event::Clock(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
        let fallbacks = self.engine.fallbacks();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.engine.handle(events)));
        if outcome.is_err() {
            tracing::error!(events = count, "the engine panicked; what was served before stays. Please report this");
        }
        let took = started.elapsed();
        if self.engine.fallbacks() != fallbacks {
            self.metrics.fallback.translated(took);
        }
        outcome.ok().map(|actions| (actions, took))
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Publish { gateway, offers } => {
                self.metrics.published(&gateway, &offers.everyone);
                self.published.insert(gateway.clone(), offers.everyone.clone());
                self.outputs.publish(&gateway, offers);
            }
            Action::Try(trials) => {
                let not_taken = self.outputs.try_out(trials);
                if !not_taken.is_empty() {
                    self.hear_events(vec![Event::Tried(not_taken)]);
                }
            }
            Action::Store(batch) => self.outputs.store_first(batch),
            Action::Withdraw { gateway } => {
                self.outputs.withdraw(&gateway);
                self.metrics.withdrawn(&gateway);
                self.published.remove(&gateway);
            }
        }
    }

    /// Tells what became wrong or right, and stores what was proven.
    fn tell(&mut self) {
        self.outputs.store(self.engine.take_records());
        let (faults, replacements) = (self.engine.faults(), self.engine.replacements());
        let broken: BTreeSet<_> = faults.iter().filter(|fault| fault.is_error()).map(|fault| &fault.object).collect();
        self.metrics.broken(broken.len());
        self.metrics.replaced(&replacements);
        self.metrics.namespaces.faults(&faults);
        self.news.faults(&faults, &self.places);
        self.news.replacements(&replacements);
        self.news.refusals(&self.engine.refusals());
        self.news.objections(&self.engine.objections());
        self.tell_of_health();
        self.tell_of_the_fallback();
        self.news.gateways(&self.engine.gateways());
    }
}

impl Core {
    /// Health of everything that is served, as it is known now.
    pub fn health(&self) -> crate::health::Health {
        self.engine.health(self.outside())
    }

    fn tell_of_health(&mut self) {
        let outside = self.outside();
        let problems = crate::health::inputs::problems(&outside.input);
        let now = Moment(self.engine.now());
        self.inputs_since.retain(|of, _| problems.contains(of));
        for of in problems {
            self.inputs_since.entry(of).or_insert(now);
        }
        let facts = self.engine.facts(outside);
        // Before everything was read faults come and go.
        if self.health.translation.load(Relaxed) {
            if Arc::make_mut(&mut self.watched.ledger).observe(crate::health::judge::present(&facts), now) {
                self.watched.save();
            }
            self.engine.date(self.watched.ledger.clone());
        }
        let health = crate::health::judge(&facts);
        self.metrics.namespaces.health(&health);
        self.health.note(health.summary());
    }

    /// Has anything changed about the sources, or about whether Envoys can connect and answer, since this was last asked?
    fn surroundings_changed(&mut self) -> bool {
        let changes = (self.watched.sources.changes(), self.watched.reachable.failure());
        let not_answering = self.responses.look(self.outputs.unanswered(), Instant::now());
        let has_changed = self.surroundings_seen != changes || self.not_answering != not_answering;
        (self.surroundings_seen, self.not_answering) = (changes, not_answering);
        has_changed
    }

    fn outside(&self) -> Outside {
        let Seen { kubernetes, kinds, failing, seconds_ago } = self.watched.sources.seen();
        let files =
            self.problems.iter().filter(|_| !kubernetes).map(|problem| (problem.place(), problem.message.clone()));
        let read = self.health.objects.load(Relaxed) && self.health.translation.load(Relaxed);
        let input = Input {
            kubernetes,
            name: self.objects.1.clone(),
            read,
            objects: self.objects.0,
            seen_seconds_ago: seconds_ago,
            failing,
            files: files.collect(),
            kinds,
            since: self.inputs_since.clone(),
        };
        Outside {
            input,
            places: self.places.clone(),
            connected: self.outputs.connected(),
            not_answering: self.not_answering.clone(),
            ledger: self.watched.ledger.clone(),
            store: self.outputs.store_failing().or_else(|| self.watched.not_stored()),
            unreachable: self.watched.reachable.failure(),
            managed: self.outputs.managed(),
            leads: self.watched.leads(),
        }
    }

    fn tell_of_the_fallback(&mut self) {
        let report = self.engine.fallback().after(&self.report);
        self.recorder.record(&events(&self.report, &report, |key| self.engine.is_there(key)));
        self.metrics.known(report.gateways.iter().map(|gateway| &gateway.name));
        self.metrics.fallback.fallback(&report);
        self.metrics.namespaces.fallback(&report);
        self.engine.take_attributed().iter().for_each(|attributed| self.metrics.fallback.attributed(attributed));
        self.report = report;
    }
}

impl Core {
    /// When statuses are looked at next: all of them are, so that it is not done after each change.
    fn next_look(&self) -> Deadline {
        let now = Instant::now();
        Deadline::from_std(self.told.map_or(now, |told| (told + statuses::LOOK_EVERY).max(now)))
    }

    fn tell_statuses(&mut self) {
        // Before the objects were read nothing can be said of them.
        if !self.health.translation.load(Relaxed) {
            return;
        }
        self.told = Some(Instant::now());
        if let Some(planes) = &self.planes {
            planes.want(self.engine.data_planes(), self.engine.others_gateways());
        }
        if let Some(statuses) = &self.statuses {
            statuses.tell(self.engine.statuses());
        }
    }
}

async fn at(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
