//! Main loop: one thread owns the engine, sends events to it, and executes its actions.
//!
//! No other thread uses the engine. Tasks send queries, which the loop answers between two translations. The thread has
//! timers of its own: its work takes long and must not delay other tasks, and nothing that delays their runtime delays
//! the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::fault::Fault;
use holdfast_api::object::Source;
use holdfast_check::time::Moment;
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_engine::health::inputs::SourceState;
use holdfast_engine::health::timeline::Timeline;
use holdfast_engine::health::{FileProblem, Outside};
use holdfast_engine::report::Reports;
use holdfast_engine::report::certificates::earliest_dates;
use holdfast_engine::report::events::events;
use holdfast_engine::review::{self, ReviewBasis, Reviewed};
use holdfast_fallback::trial::Tried;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::{ObjectKey, Visits};
use holdfast_kubernetes::planes::DataPlanes;
use holdfast_kubernetes::recorder::KubernetesRecorder;
use holdfast_kubernetes::sources::SourcesSnapshot;
use holdfast_kubernetes::statuses::{self, Statuses};
use holdfast_probe::Prober;
use holdfast_xds::{Notice, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant as Deadline, sleep_until};

use super::health::Readiness;
use super::heartbeat::Activity;
use super::hold_off::HoldOff;
use super::news::News;
use super::outputs::Outputs;
use super::recent_events::RecentEvents;
use super::reported::Reported;
use super::silence::{LookTime, Silence};
use super::watched::Watched;
use crate::admin::metrics::{LoopWork, Metrics};
use crate::events::{EventRecorder, LogRecorder};
use crate::manifests::{ManifestReading, Problem};
use crate::shared::task::Outbox;

/// Maximum number of waiting readings and queries; beyond it the senders wait.
pub const CORE_QUEUE_MAX: usize = 64;
/// Maximum number of notices of Envoys that are processed at once.
const NOTICES_AT_ONCE: usize = 1024;
/// Delay after a change before problems are collected, which costs more than most changes.
const REPORT_AFTER: Duration = Duration::from_millis(50);

/// Interval of clock events while nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// A query to the loop.
pub type CoreQuery = Box<dyn FnOnce(&Core) + Send>;

/// The sender of queries to the loop.
#[derive(Clone, Debug)]
pub struct CoreHandle(mpsc::Sender<CoreQuery>);

impl CoreHandle {
    /// The sender of queries, and the receiver for the loop.
    pub fn new() -> (Self, mpsc::Receiver<CoreQuery>) {
        let (sender, receiver) = mpsc::channel(CORE_QUEUE_MAX);
        (Self(sender), receiver)
    }

    /// Sends a query and returns the answer; `None` if the loop has ended.
    pub async fn query<T: Send + 'static>(&self, question: impl FnOnce(&Core) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let question: CoreQuery = Box::new(move |core| {
            // The sender of the query may be gone.
            let _ = answer.send(question(core));
        });
        self.0.send(question).await.ok()?;
        answered.await.ok()
    }
}

/// The positions of objects in manifests.
pub type ManifestPositions = imbl::HashMap<ObjectKey, Source>;

/// The state of the loop.
pub struct Core {
    /// The deciding part.
    pub engine: Engine,
    /// The served configuration, by Gateway.
    pub published: BTreeMap<Arc<str>, Snapshot>,
    /// Problems of files.
    pub problems: Vec<Problem>,
    /// The position of each object.
    pub places: ManifestPositions,
    outputs: Outputs,
    metrics: Arc<Metrics>,
    health: Arc<Readiness>,
    news: News,
    /// What was reported after the last change.
    pub(crate) reported: Reported,
    recorder: Box<dyn EventRecorder>,
    /// The writer of statuses, with the time of the last update; `None` in standalone mode.
    statuses: Option<Statuses>,
    last_status_update: Option<Instant>,
    /// The controller of data planes; `None` if Holdfast deploys no Envoys.
    planes: Option<DataPlanes>,
    /// The inputs of health from outside the engine.
    watched: Watched,
    /// The last processed change count of the sources, the last reason why no Envoy could connect, and the count of dates
    /// that passed.
    surroundings_seen: (u64, Option<String>, u64),
    /// Envoys that do not answer.
    silence: Silence,
    /// Since when files, kinds and sources cannot be read.
    inputs_since: BTreeMap<Arc<str>, Moment>,
    /// The last reading: the number of objects, and their source.
    objects: (usize, Arc<str>),
    /// What was at fault during the last day.
    pub(crate) timeline: Arc<Timeline>,
    /// The events of the last hour.
    pub(crate) recent_events: Arc<RecentEvents>,
}

/// The inputs of the loop.
pub struct CoreInputs {
    /// Readings of the manifests or the API server.
    pub readings: mpsc::Receiver<ManifestReading>,
    /// Notices of Envoys.
    pub notices: mpsc::Receiver<Notice>,
    /// Results of the probe; closed if there is no probe.
    pub tried: mpsc::Receiver<Vec<Tried>>,
    /// The build of the probe, while it is available.
    pub probe: watch::Receiver<Option<Arc<str>>>,
    /// The state of data planes; closed if none are deployed.
    pub provisioned: mpsc::Receiver<Vec<Event>>,
    /// Ports of the host that other processes use; closed if no Envoy is managed.
    pub ports: mpsc::Receiver<Vec<Event>>,
    /// Events from other replicas; closed if there are none.
    pub replicas: mpsc::Receiver<Vec<Event>>,
    /// Queries.
    pub questions: mpsc::Receiver<CoreQuery>,
    /// True when the product has to end.
    pub ending: watch::Receiver<bool>,
}

/// Pending work with its deadlines.
#[derive(Default)]
struct Due {
    events: Vec<Event>,
    translate: Option<Deadline>,
    report: Option<Deadline>,
    statuses: Option<Deadline>,
}

impl Due {
    /// Reports problems after a short delay, unless a report is due already.
    fn report_soon(&mut self) {
        self.report.get_or_insert_with(|| Deadline::now() + REPORT_AFTER);
    }

    fn report_soon_if(&mut self, changed: bool) {
        if changed {
            self.report_soon();
        }
    }
}

impl Core {
    /// Creates the loop with an engine and the outputs of its actions.
    pub fn new(engine: Engine, outputs: Outputs, metrics: Arc<Metrics>, health: Arc<Readiness>) -> Self {
        let (published, problems, places, news) =
            (BTreeMap::new(), Vec::new(), ManifestPositions::new(), News::default());
        let (reported, recorder) = (Reported::default(), Box::new(LogRecorder));
        Self {
            engine,
            published,
            problems,
            places,
            outputs,
            metrics,
            health,
            news,
            reported,
            recorder,
            statuses: None,
            last_status_update: None,
            planes: None,
            watched: Watched::default(),
            surroundings_seen: (0, None, 0),
            silence: Silence::default(),
            inputs_since: BTreeMap::new(),
            objects: (0, "".into()),
            timeline: Arc::default(),
            recent_events: Arc::default(),
        }
    }

    /// Returns the objects that are served as they were read last, because their file or their content cannot be read
    /// now, each with the reason.
    pub(crate) fn not_read(&self) -> BTreeMap<ObjectKey, String> {
        let kept = self.engine.kept_as_read().map(|(key, fault)| {
            let why = fault.map(Fault::sentence).unwrap_or_default();
            (key.clone(), format!("{why}; what was read last is served"))
        });
        let mut all = self.objects_of_unread_files();
        all.extend(kept);
        all
    }

    fn objects_of_unread_files(&self) -> BTreeMap<ObjectKey, String> {
        let mut files = BTreeMap::new();
        for problem in &self.problems {
            let why = format!("{} cannot be read: {}; what was read last is served", problem.place(), problem.message);
            files.entry(&*problem.file).or_insert(why);
        }
        if files.is_empty() {
            return BTreeMap::new();
        }
        let of_file = |(key, place): (&ObjectKey, &Source)| Some((key.clone(), files.get(&*place.file)?.clone()));
        self.places.iter().filter_map(of_file).collect()
    }

    /// Returns the state from which one object can be reviewed.
    ///
    /// # Errors
    /// Returns an error if not all objects were read yet, or the object depends on too many others.
    pub(crate) fn review_basis(&self, reviewed: &Reviewed) -> Result<ReviewBasis, String> {
        if !self.health.translation.load(Relaxed) {
            return Err("it has not read all objects yet".to_owned());
        }
        review::basis(&self.engine, reviewed).map_err(|why| why.to_string())
    }

    /// Sends statuses and Events to an API server from now on.
    pub(super) fn report_to_kubernetes(&mut self, statuses: Statuses, recorder: KubernetesRecorder) {
        self.statuses = Some(statuses);
        self.recorder = Box::new(recorder);
    }

    /// Sets the controller of data planes.
    pub(super) fn keep_data_planes(&mut self, planes: Option<DataPlanes>) {
        self.planes = planes;
    }

    /// Adds inputs of health.
    pub(super) fn watch(&mut self, watched: Watched) {
        self.engine.date(watched.ledger.clone());
        self.watched = watched;
    }

    /// Starts the loop on a thread of its own. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the timers of the thread cannot be created.
    pub fn start(self, inputs: CoreInputs) -> io::Result<JoinHandle<()>> {
        let timers = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(tokio::task::spawn_blocking(move || timers.block_on(self.run(inputs))))
    }

    /// Runs until the product has to end; then ends everything that was started for the Gateways.
    async fn run(mut self, mut inputs: CoreInputs) {
        let mut hold_off = HoldOff::default();
        let mut due = Due::default();
        let (mut notices, mut noticing) = (Vec::new(), true);
        let mut tick_at = Deadline::now();
        loop {
            self.health.heartbeat.beat(Activity::Waiting);
            // Biased: what Envoys accepted is known before an edit that came later is translated. Inputs that can arrive
            // at every moment, whatever Envoys and users do, come last: they must not delay an edit.
            tokio::select! {
                biased;
                _ = inputs.ending.wait_for(|ending| *ending) => break,
                () = at(due.translate) => {
                    due.translate = None;
                    let events = std::mem::take(&mut due.events);
                    self.work(Activity::Translation, |core| core.translate(events));
                    hold_off.translated(Instant::now());
                    due.report_soon();
                }
                count = inputs.notices.recv_many(&mut notices, NOTICES_AT_ONCE), if noticing => {
                    noticing = count > 0;
                    self.work(Activity::Events, |core| core.on_notices(notices.drain(..)));
                    due.report_soon();
                }
                Some(tried) = inputs.tried.recv() => {
                    self.work(Activity::Events, |core| core.on_events(vec![Event::Tried(tried)]));
                    due.report_soon();
                }
                Ok(()) = inputs.probe.changed() => {
                    let build = inputs.probe.borrow_and_update().clone();
                    self.work(Activity::Events, |core| core.on_events(vec![Event::Probe(build)]));
                    due.report_soon();
                }
                () = at(due.report) => {
                    due.report = None;
                    self.work(Activity::Reports, Self::report_changes);
                    due.statuses = self.statuses.as_ref().map(|_| self.next_look());
                }
                () = at(due.statuses) => {
                    due.statuses = None;
                    self.work(Activity::Reports, Self::report_statuses);
                }
                () = sleep_until(tick_at) => {
                    let acted = self.work(Activity::Events, |core| core.on_events(Vec::new()));
                    // Also what a clock event proves without an action, after which no report is due.
                    self.outputs.store(self.engine.take_records());
                    self.metrics.fallback.store_is_failing(self.store_failing().is_some());
                    // From the end of the work: a slow machine would do nothing else.
                    tick_at = Deadline::now() + TICK;
                    due.report_soon_if(acted | self.surroundings_changed());
                }
                Some(question) = inputs.questions.recv() => self.work(Activity::Query, |core| question(core)),
                Some(reading) = inputs.readings.recv() => self.on_reading(reading, &mut due, &mut hold_off),
                Some(events) = inputs.replicas.recv() => {
                    due.report_soon_if(self.work(Activity::Events, |core| core.on_replicas(events)));
                }
                Some(events) = inputs.ports.recv() => {
                    due.report_soon_if(self.work(Activity::Events, |core| core.on_events(events)));
                }
                Some(events) = inputs.provisioned.recv() => {
                    self.work(Activity::Events, |core| core.on_events(events));
                    due.report_soon();
                }
                else => break,
            }
        }
        self.health.heartbeat.beat(Activity::Ending);
        self.outputs.store(self.engine.take_records());
        self.outputs.end().await;
    }

    /// Runs a piece of work and records it in the heartbeat.
    fn work<T>(&mut self, activity: Activity, work: impl FnOnce(&mut Self) -> T) -> T {
        self.health.heartbeat.beat(activity);
        work(self)
    }

    /// Keeps the events of a reading until the next translation.
    fn on_reading(&mut self, reading: ManifestReading, due: &mut Due, hold_off: &mut HoldOff) {
        // A problem alone changes no object, but what is reported.
        due.report_soon_if(self.problems != reading.problems);
        self.take(&reading);
        for event in reading.events {
            // An event that waits may be about the same object.
            let event = if due.events.is_empty() { self.engine.refresh(event) } else { Some(event) };
            due.events.extend(event);
        }
        if !due.events.is_empty() || !self.health.translation.load(Relaxed) {
            due.translate.get_or_insert_with(|| Deadline::now() + hold_off.wait(Instant::now()));
        }
    }

    fn take(&mut self, reading: &ManifestReading) {
        for (key, place) in &reading.places {
            match place {
                Some(place) => self.places.insert(key.clone(), place.clone()),
                None => self.places.remove(key),
            };
        }
        self.news.problems(&reading.problems);
        self.news.unserved(&reading.unserved);
        self.problems.clone_from(&reading.problems);
        if reading.roots != *self.objects.1 || reading.objects != self.objects.0 {
            self.objects = (reading.objects, reading.roots.as_str().into());
        }
        if !self.health.objects.swap(true, Relaxed) {
            tracing::info!(files = reading.files, objects = reading.objects, "read all objects");
            if reading.objects == 0 {
                tracing::warn!(
                    from = reading.roots,
                    "found no object of a kind that Holdfast reads; waiting for objects"
                );
            }
        }
    }

    fn on_notices(&mut self, notices: impl Iterator<Item = Notice>) {
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
        self.on_events(events);
    }

    /// Uses a probe from now on, if there is one; `build` is set if the probe is ready.
    pub fn use_probe(&mut self, prober: Option<Prober>, build: Option<Arc<str>>) {
        self.outputs.use_probe(prober);
        self.on_events(vec![Event::Probe(build)]);
    }

    /// Shares proven and refused configuration with other replicas from now on.
    pub fn share(&mut self, outbox: Outbox) {
        self.outputs.share(outbox);
    }

    /// Processes events other than changes of objects; returns true if the engine had actions.
    pub fn on_events(&mut self, events: Vec<Event>) -> bool {
        let Some((actions, _)) = self.handle(events) else { return false };
        let acted = !actions.is_empty();
        actions.into_iter().for_each(|action| self.act(action));
        acted
    }

    /// Processes events of other replicas; returns true if there may be something to report. The answers of their Envoys
    /// arrive again at every turn, and mostly change nothing; if they do, the engine may have no action nevertheless.
    fn on_replicas(&mut self, events: Vec<Event>) -> bool {
        let are_answers = events.iter().all(|event| matches!(event, Event::Observed(_)));
        let before = self.engine.answers();
        self.on_events(events) || !are_answers || self.engine.answers() != before
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
        self.outputs.settled(|| self.engine.gateway_names().collect());
        Readiness::pass(&self.health.translation);
    }

    /// The actions of the engine, and the duration; `None` if the engine panicked, in which case nothing changes.
    fn handle(&mut self, mut events: Vec<Event>) -> Option<(Vec<Action>, Duration)> {
        let (count, started) = (events.len(), Instant::now());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        events.insert(0, Event::Clock(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
        let fallbacks = self.engine.fallbacks();
        let engine = &mut self.engine;
        let work = || catch_unwind(AssertUnwindSafe(|| engine.handle(events)));
        let outcome = self.metrics.visiting(LoopWork::Decide, work);
        if outcome.is_err() {
            tracing::error!(
                events = count,
                "the engine panicked; Envoys keep their configuration. Please report this bug"
            );
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
                    self.on_events(vec![Event::Tried(not_taken)]);
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

    /// Reports changes of problems, and stores what was proven good.
    fn report_changes(&mut self) {
        let ((), visits) = Visits::of(|| self.report_all_changes());
        self.metrics.visited(LoopWork::Report, &visits);
    }

    fn report_all_changes(&mut self) {
        self.outputs.store(self.engine.take_records());
        let reports = self.engine.reports();
        let Reports { faults, replacements, .. } = &reports;
        let broken: BTreeSet<_> = faults.iter().filter(|fault| fault.is_error()).map(|fault| &fault.object).collect();
        self.metrics.broken(broken.len());
        self.metrics.replaced(replacements);
        self.metrics.namespaces.faults(faults);
        self.metrics.certificates.served(&earliest_dates(&self.engine), &self.metrics.namespaces);
        self.news.faults(faults, &self.places);
        self.news.replacements(replacements);
        self.news.refusals(&self.engine.refusals());
        self.news.objections(&self.engine.objections());
        self.report_health(&reports);
        self.report_fallback(reports);
        self.news.gateways(&self.engine.gateways());
    }
}

impl Core {
    /// The current health of everything that is served.
    pub fn health(&self) -> holdfast_engine::health::Health {
        self.health_of(&self.engine.reports())
    }

    /// The current health, with the reports of the present state.
    pub(crate) fn health_of(&self, reports: &Reports) -> holdfast_engine::health::Health {
        self.engine.health_of(reports, self.outside())
    }

    fn report_health(&mut self, reports: &Reports) {
        let outside = self.outside();
        let problems = holdfast_engine::health::inputs::problems(&outside.input);
        let now = Moment(self.engine.now());
        self.inputs_since.retain(|of, _| problems.contains(of));
        for of in problems {
            self.inputs_since.entry(of).or_insert(now);
        }
        let facts = self.engine.facts(reports, outside);
        // Before the first complete reading faults are not stable.
        if self.health.translation.load(Relaxed) {
            if Arc::make_mut(&mut self.watched.ledger).observe(holdfast_engine::health::judge::present(&facts), now) {
                self.watched.save();
            }
            self.engine.date(self.watched.ledger.clone());
        }
        let health = holdfast_engine::health::judge(&facts);
        if self.health.translation.load(Relaxed) {
            Arc::make_mut(&mut self.timeline).observe(&health, now);
        }
        self.metrics.namespaces.health(&health);
        self.metrics.not_answering(self.silence.seen());
        self.news.not_answering(self.silence.seen());
        self.health.note(health);
    }

    /// Returns whether the sources, or the ability of Envoys to connect and answer, changed since the last call.
    fn surroundings_changed(&mut self) -> bool {
        let changes = (self.watched.sources.changes(), self.watched.reachable.failure(), self.engine.dates_passed());
        let now = LookTime { instant: Instant::now(), moment: Moment(self.engine.now()) };
        let is_silence_new = self.silence.look(self.outputs.unanswered(), self.outputs.silent(), now);
        let has_changed = self.surroundings_seen != changes || is_silence_new;
        self.surroundings_seen = changes;
        has_changed
    }

    fn outside(&self) -> Outside {
        let SourcesSnapshot { kubernetes, kinds, failing, seconds_ago } = self.watched.sources.seen();
        let file = |problem: &Problem| FileProblem {
            of: problem.place(),
            is_read: problem.line > 0,
            message: problem.message.clone(),
        };
        let files = self.problems.iter().filter(|_| !kubernetes).map(file);
        let read = self.health.objects.load(Relaxed) && self.health.translation.load(Relaxed);
        let input = SourceState {
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
            not_answering: self.silence.seen().clone(),
            ledger: self.watched.ledger.clone(),
            store: self.store_failing(),
            unreachable: self.watched.reachable.failure(),
            managed: self.outputs.managed(),
            leads: self.watched.leads(),
        }
    }

    /// The reason why last valid versions are not stored now. The removal of the folder is also the reason why commits
    /// fail.
    fn store_failing(&self) -> Option<String> {
        self.watched.not_stored().or_else(|| self.outputs.store_failing())
    }

    /// Returns whether the persistence has everything that is to be stored, and the next run can find it.
    pub(crate) fn has_given_all_to_the_store(&self) -> bool {
        !self.engine.has_records() && self.watched.not_stored().is_none()
    }

    fn report_fallback(&mut self, reports: Reports) {
        let first = FallbackReport::default();
        let before = self.reported.fallback().unwrap_or(&first);
        let report = reports.fallback.after(before);
        let events = events(before, &report, |key| self.engine.is_there(key));
        if !events.is_empty() {
            Arc::make_mut(&mut self.recent_events).record(&events, Moment(self.engine.now()));
        }
        self.recorder.record(&events);
        self.metrics.known(report.gateways.iter().map(|gateway| &gateway.name));
        self.metrics.fallback.fallback(&report);
        self.metrics.namespaces.fallback(&report);
        self.engine.take_attributed().iter().for_each(|attributed| self.metrics.fallback.attributed(attributed));
        self.reported.set(Reports { fallback: report, ..reports });
    }
}

impl Core {
    /// The time of the next status update. Statuses are computed for all objects, so not after each change.
    fn next_look(&self) -> Deadline {
        let now = Instant::now();
        Deadline::from_std(self.last_status_update.map_or(now, |last| (last + statuses::LOOK_EVERY).max(now)))
    }

    fn report_statuses(&mut self) {
        // Before the objects were read their statuses are unknown.
        if !self.health.translation.load(Relaxed) {
            return;
        }
        self.last_status_update = Some(Instant::now());
        if let Some(planes) = &self.planes {
            planes.want(self.engine.data_planes(), self.engine.others_gateways());
        }
        if let Some(statuses) = &self.statuses {
            statuses.set(self.metrics.visiting(LoopWork::Statuses, || self.engine.collect_statuses()));
        }
    }
}

async fn at(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
