//! The stage of one story: engine, Envoys, probe, store and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use holdfast_api::apis::Body;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_envoy::refusal::{self, RefusalClass};
use holdfast_fallback::restored::Restored;
use holdfast_fallback::trial::{Outcome as TrialOutcome, Tried};
use holdfast_graph::ObjectKey;
use holdfast_store::{Batch, LastValidStore, MemoryStore};
use holdfast_xds::{EnvoyId, Offers, Resource, ResourceType, Version};

use super::envoy::{Envoy, SimulatedPush};
use super::language::{How, Refuse};
use super::oracle::{self, Judge};
use super::short::ObjectWriter;

/// Rounds of messages after which a story is considered endless.
pub const ROUNDS_MAX: usize = 400;
/// The time at which stories begin, in milliseconds of Unix time.
pub const BEGIN_MS: u64 = 1_800_000_000_000;

/// Counts since the last reset.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Refusals by node, and by `probe`.
    pub nacks: BTreeMap<String, usize>,
    /// Responses by node, without endpoints.
    pub pushes: BTreeMap<String, usize>,
}

/// A resource in one version, for one build.
type SentForm = (Arc<str>, ResourceType, Arc<str>, Version);

/// The stage of one story.
pub struct StoryStage {
    /// The settings.
    pub settings: Settings,
    /// The engine; none while Holdfast is down.
    pub engine: Option<Engine>,
    /// The objects as they are, whether or not Holdfast knows them.
    pub objects: BTreeMap<ObjectKey, Event>,
    /// Hosts of HTTPProxies that have become unreadable.
    pub claimed: BTreeSet<String>,
    /// All hostnames of each object since its creation.
    pub named: BTreeMap<ObjectKey, BTreeSet<Arc<str>>>,
    /// The Envoys, by node.
    pub envoys: BTreeMap<String, Envoy>,
    /// The refusals.
    pub oracles: Vec<Refuse>,
    /// The probe's build.
    pub probe: Option<String>,
    /// Whether the probe answers nothing.
    pub probe_is_silent: bool,
    /// The ports that other processes use.
    pub taken: BTreeMap<SocketAddr, Arc<str>>,
    /// The objects and certificates made for the story.
    pub writer: ObjectWriter,
    /// Counts.
    pub counts: Counts,
    /// Violations of rules that hold in every story, whatever it expects.
    pub broken_rules: Vec<String>,
    /// Store batches since the last take: for stories with several replicas.
    pub outbox: Batch,
    offers: BTreeMap<Arc<str>, Offers>,
    store: MemoryStore,
    now_ms: u64,
    /// By build and resource version: the Envoys that refused it, each with the round of the refusal.
    refused: BTreeMap<SentForm, BTreeMap<Arc<str>, usize>>,
    round: usize,
    /// Answers of Envoys and of the probe that the engine has not received yet.
    in_flight: Vec<Event>,
}

impl StoryStage {
    /// The time, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns whether the engine knows an object.
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.objects().get(key).is_some())
    }

    /// Creates a stage without events.
    pub fn new(settings: Settings, probe: Option<String>) -> Self {
        let mut stage = Self {
            engine: None,
            settings,
            objects: BTreeMap::new(),
            claimed: BTreeSet::new(),
            named: BTreeMap::new(),
            envoys: BTreeMap::new(),
            oracles: Vec::new(),
            probe,
            probe_is_silent: false,
            taken: BTreeMap::new(),
            writer: ObjectWriter::default(),
            counts: Counts::default(),
            broken_rules: Vec::new(),
            outbox: Batch::default(),
            offers: BTreeMap::new(),
            store: MemoryStore::default(),
            now_ms: BEGIN_MS,
            refused: BTreeMap::new(),
            round: 0,
            in_flight: Vec::new(),
        };
        stage.engine = Some(Engine::new(stage.settings.clone()));
        stage.hello();
        stage
    }

    /// Sends the clock, the presence of the probe and the ports in use to the engine.
    fn hello(&mut self) {
        let probe = self.probe.clone().map(Arc::from);
        self.handle(vec![Event::Clock(self.now_ms), Event::Probe(probe), Event::PortsTaken(self.taken.clone())]);
    }

    /// Adds an Envoy.
    pub fn add_envoy(&mut self, node: &str, build: &str, gateway: &str) {
        let id = EnvoyId { fleet: gateway.into(), node: node.into(), build: build.into() };
        self.envoys.insert(node.to_owned(), Envoy::new(id));
    }

    /// Passes events to the engine and performs its actions; returns events that arrive later.
    pub fn handle(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        let Some(engine) = &mut self.engine else { return Vec::new() };
        events.insert(0, Event::Clock(self.now_ms));
        let actions = engine.handle(events);
        let records = engine.take_records();
        let mut later = Vec::new();
        for action in actions {
            match action {
                Action::Publish { gateway, offers } => {
                    self.offers.insert(gateway, offers);
                }
                Action::Withdraw { gateway } => {
                    self.offers.remove(&gateway);
                }
                Action::Store(batch) => self.keep(batch),
                Action::Try(_) if self.probe_is_silent => {}
                Action::Try(trials) => {
                    let tried = trials.iter().map(|trial| Tried { id: trial.id, outcome: self.try_out(trial) });
                    let tried: Vec<Tried> = tried.collect();
                    let refused =
                        |one: &&Tried| !matches!(one.outcome, TrialOutcome::Accepted | TrialOutcome::Unavailable);
                    let refusals = tried.iter().filter(refused).count();
                    *self.counts.nacks.entry("probe".into()).or_insert(0) += refusals;
                    later.push(Event::Tried(tried));
                }
            }
        }
        self.keep(records);
        later
    }

    fn keep(&mut self, batch: Batch) {
        self.outbox.append(batch.clone());
        if !batch.is_empty()
            && let Err(error) = self.store.commit(batch)
        {
            self.broken_rules.push(format!("the store refuses a batch: {error}"));
        }
    }

    fn try_out(&self, trial: &holdfast_fallback::trial::Trial) -> TrialOutcome {
        let Some(build) = &self.probe else { return TrialOutcome::Unavailable };
        let receiver = Judge { build, node: None };
        match oracle::judge(&self.oracles, receiver, trial.kind, &trial.body, |body| self.certificate(body)) {
            None => TrialOutcome::Accepted,
            Some(refusal) if refusal.how == How::Nack => TrialOutcome::Refused { message: refusal.message },
            Some(refusal) if matches!(refusal.how, How::Absent | How::Ignore) => TrialOutcome::Unavailable,
            Some(_) => TrialOutcome::Silent,
        }
    }

    /// Returns the story's name of the certificate in a resource.
    pub fn certificate(&self, body: &[u8]) -> Option<String> {
        self.writer.certificate_in(&String::from_utf8_lossy(body)).map(str::to_owned)
    }

    /// Passes events to the engine, and exchanges messages until none is left.
    pub fn happen(&mut self, events: Vec<Event>) -> Result<()> {
        let answers = self.handle(events);
        self.in_flight.extend(answers);
        for _ in 0..ROUNDS_MAX {
            if self.go_on() {
                ensure!(self.broken_rules.is_empty(), "{}", self.broken_rules.join("\n"));
                return Ok(());
            }
        }
        bail!("after {ROUNDS_MAX} rounds it still goes on");
    }

    /// Changes objects while answers are in flight: after the given number of rounds Envoys are sent their
    /// configuration, and their answers stay in flight.
    pub fn apply_early(&mut self, text: &str, rounds: u64) -> Result<()> {
        let events = self.write(text)?;
        self.happen_early(events, rounds)
    }

    /// Handles events while answers are in flight, as [`apply_early`](Self::apply_early).
    pub fn happen_early(&mut self, events: Vec<Event>, rounds: u64) -> Result<()> {
        let answers = self.handle(events);
        self.in_flight.extend(answers);
        for _ in 0..rounds {
            if self.go_on() {
                return Ok(());
            }
        }
        let answers = self.exchange_all();
        self.in_flight.extend(answers);
        Ok(())
    }

    fn exchange_all(&mut self) -> Vec<Event> {
        let nodes: Vec<String> = self.envoys.keys().cloned().collect();
        nodes.iter().flat_map(|node| self.exchange(node)).collect()
    }

    /// Performs a round of messages; returns true if no message is left.
    fn go_on(&mut self) -> bool {
        self.round += 1;
        let mut events = std::mem::take(&mut self.in_flight);
        events.extend(self.exchange_all());
        let is_quiet = events.is_empty();
        for event in events {
            let answers = self.handle(vec![event]);
            self.in_flight.extend(answers);
        }
        is_quiet
    }

    /// Sends an Envoy its configuration, and returns its answers.
    fn exchange(&mut self, node: &str) -> Vec<Event> {
        let Some(mut envoy) = self.envoys.remove(node) else { return Vec::new() };
        let mut events = Vec::new();
        if envoy.died {
            let resumes = envoy.connect();
            events.push(Event::Connected(envoy.id.clone(), resumes));
        } else if envoy.connected && !envoy.silent {
            self.deliver(&mut envoy, &mut events);
        }
        self.envoys.insert(node.to_owned(), envoy);
        events
    }

    fn deliver(&mut self, envoy: &mut Envoy, events: &mut Vec<Event>) {
        let Some(offers) = self.offers.get(&envoy.id.fleet) else { return };
        let waits = offers.waits(&envoy.id.build, &envoy.id.node);
        if waits || (offers.fresh_only && envoy.resumed) {
            return;
        }
        let snapshot = offers.of(&envoy.id.build, &envoy.id.node).clone();
        if let Some(again) = offers.again.get(&envoy.id.node) {
            envoy.try_again(again);
        }
        let node = envoy.id.node.to_string();
        events.extend(envoy.claimed().into_iter().map(Event::Answered));
        for push in envoy.pushes(&snapshot) {
            if push.kind != ResourceType::Endpoints {
                *self.counts.pushes.entry(node.clone()).or_insert(0) += 1;
            }
            for resource in &push.resources {
                let slot = (envoy.id.build.clone(), push.kind, resource.name.clone(), resource.version);
                // A content that one Envoy refused may be tried at a second one.
                let by: Vec<_> = self.refused.get(&slot).into_iter().flatten().collect();
                let before = by.iter().filter(|(_, round)| **round < self.round).count();
                if before > 1 || by.iter().any(|(by, round)| ***by == *node && **round < self.round) {
                    let name = &resource.name;
                    self.broken_rules.push(format!("{node} is sent {name} as its build has refused it"));
                }
            }
            let receiver = Judge { build: &envoy.id.build, node: Some(&node) };
            let verdict = push.resources.iter().find_map(|resource| {
                oracle::judge(&self.oracles, receiver, push.kind, &resource.body, |body| self.certificate(body))
            });
            if verdict.as_ref().is_some_and(|refusal| refusal.how == How::Ignore) {
                envoy.ignores = true;
                continue;
            }
            let Some(refusal) = verdict else {
                events.push(Event::Answered(envoy.take(&push)));
                continue;
            };
            let is_nack = matches!(refusal.how, How::Nack | How::Absent);
            let push =
                if push.kind == ResourceType::Cluster && is_nack { self.take_good(envoy, push, events) } else { push };
            match refusal.how {
                How::Nack | How::Absent => {
                    *self.counts.nacks.entry(node.clone()).or_insert(0) += 1;
                    // Only a content that was refused because of its content must not be sent again.
                    if refusal::class(push.kind, &refusal.message) == RefusalClass::Content {
                        self.note_refused(envoy, &push);
                    }
                    events.push(Event::Answered(envoy.refuse(&push, refusal.message)));
                }
                How::Ignore => {}
                How::Hang => {
                    envoy.silent = true;
                    return;
                }
                How::Die => {
                    *self.counts.nacks.entry(format!("{node} died")).or_insert(0) += 1;
                    envoy.disconnect();
                    envoy.forget();
                    envoy.died = true;
                    events.push(Event::Disconnected(envoy.id.clone()));
                    return;
                }
            }
        }
    }

    /// Accepts all good clusters of a response; returns the others.
    fn take_good(&self, envoy: &mut Envoy, push: SimulatedPush, events: &mut Vec<Event>) -> SimulatedPush {
        let (build, node) = (envoy.id.build.clone(), envoy.id.node.clone());
        let receiver = Judge { build: &build, node: Some(&node) };
        let judge = |resource: &Resource| oracle::judge(&self.oracles, receiver, push.kind, &resource.body, |_| None);
        let (good, bad) = Envoy::split(push.clone(), |resource| judge(resource).is_some());
        if !good.resources.is_empty() || !good.removed.is_empty() {
            events.push(Event::Answered(envoy.take(&good)));
        }
        bad
    }

    fn note_refused(&mut self, envoy: &Envoy, push: &super::envoy::SimulatedPush) {
        // A content that a single node refuses may be accepted by others.
        let alone = self.oracles.iter().any(|oracle| oracle.nodes.iter().any(|node| **node == *envoy.id.node));
        for resource in push.resources.iter().filter(|_| !alone) {
            let slot = (envoy.id.build.clone(), push.kind, resource.name.clone(), resource.version);
            self.refused.entry(slot).or_default().entry(envoy.id.node.clone()).or_insert(self.round);
        }
    }

    /// Records that Envoys may accept content again that they refused: it may be sent again.
    pub fn forgive(&mut self) {
        self.refused.clear();
    }

    /// Creates or changes objects.
    pub fn apply(&mut self, text: &str) -> Result<()> {
        let events = self.write(text)?;
        self.happen(events)
    }

    fn write(&mut self, text: &str) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for document in self.writer.objects(text)? {
            let Some(event) = holdfast_test_support::event(document.clone()) else {
                bail!("not an object of ours: {document}");
            };
            let key = match &event {
                Event::Applied(object, _) => object.key.clone(),
                Event::Unusable(key, _) => key.clone(),
                _ => continue,
            };
            if let Event::Applied(object, _) = &event
                && let Some(route) = object.body.route()
            {
                self.named.entry(key.clone()).or_default().extend(route.hostnames().iter().cloned());
            }
            self.objects.insert(key, event.clone());
            events.push(event);
        }
        Ok(events)
    }

    /// Deletes objects, and returns the events without passing them to the engine.
    pub fn take_away(&mut self, names: &[String]) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for name in names {
            let key = self.key(name)?;
            self.objects.remove(&key);
            self.named.remove(&key);
            self.writer.deleted(name);
            events.push(Event::Deleted(key));
        }
        Ok(events)
    }

    /// Makes the content of objects unreadable.
    pub fn spoil(&mut self, names: &[String]) -> Result<()> {
        let mut events = Vec::new();
        for name in names {
            let key = self.key(name)?;
            let fault = holdfast_api::fault::Fault::new(
                &key,
                holdfast_api::fault::Class::Invalid,
                "spec",
                "Unusable",
                "made unusable by the story",
            );
            let event = Event::Unusable(key.clone(), vec![fault]);
            if let Some(Event::Applied(object, _)) = self.objects.insert(key, event.clone())
                && let Body::HttpProxy(proxy) = &object.body
            {
                self.claimed.extend(proxy.virtual_host.iter().map(|host| host.fqdn.to_string()));
            }
            events.push(event);
        }
        self.happen(events)
    }

    fn key(&self, name: &str) -> Result<ObjectKey> {
        let found = self.objects.keys().find(|key| super::expect::name(key) == name).cloned();
        found.ok_or_else(|| anyhow::anyhow!("there is no {name}"))
    }

    /// Opens streams of Envoys.
    pub fn connect(&mut self, nodes: &[String]) -> Result<()> {
        let mut events = Vec::new();
        for node in nodes {
            let envoy = self.envoys.get_mut(node).ok_or_else(|| anyhow::anyhow!("no Envoy {node}"))?;
            let resumes = envoy.connect();
            events.push(Event::Connected(envoy.id.clone(), resumes));
        }
        self.happen(events)
    }

    /// Ends streams of Envoys.
    pub fn disconnect(&mut self, nodes: &[String]) -> Result<()> {
        let mut events = Vec::new();
        for node in nodes {
            let envoy = self.envoys.get_mut(node).ok_or_else(|| anyhow::anyhow!("no Envoy {node}"))?;
            envoy.disconnect();
            events.push(Event::Disconnected(envoy.id.clone()));
        }
        self.happen(events)
    }

    /// Advances the clock, second by second.
    pub fn pass(&mut self, seconds: u64) -> Result<()> {
        for _ in 0..seconds {
            self.now_ms += 1_000;
            self.happen(vec![Event::Clock(self.now_ms)])?;
        }
        Ok(())
    }

    /// Stops Holdfast.
    pub fn stop(&mut self) {
        self.engine = None;
        self.offers.clear();
        self.envoys.values_mut().for_each(Envoy::disconnect);
    }

    /// Starts Holdfast, which reads the store; all Envoys connect.
    pub fn start(&mut self) -> Result<()> {
        self.start_without_envoys()?;
        let nodes: Vec<String> = self.envoys.keys().cloned().collect();
        self.connect(&nodes)
    }

    /// Starts Holdfast, which reads the store.
    pub fn start_without_envoys(&mut self) -> Result<()> {
        let mut restored = Restored::default();
        for scope in self.store.scopes()? {
            let mut objects = Vec::new();
            for key in self.store.objects(&scope)? {
                let mut versions = self.store.versions(&scope, &key)?;
                versions.reverse();
                if versions.iter().any(|stored| holdfast_api::apis::document::restored(stored).is_none()) {
                    self.broken_rules.push(format!("{key} is stored and does not come back"));
                }
                objects.extend(versions);
            }
            let (configuration, verdicts) = (self.store.configuration(&scope)?, self.store.verdicts(&scope)?);
            restored.add(scope, objects, configuration, verdicts);
        }
        self.engine = Some(Engine::new(self.settings.clone()));
        self.hello();
        self.happen(vec![Event::Restored(Box::new(restored))])
    }

    /// Reports all objects at once.
    pub fn list(&mut self) -> Result<()> {
        let events = self.objects.values().cloned().collect();
        self.happen(events)
    }
}
