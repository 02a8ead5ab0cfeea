//! Several replicas with one bucket, each with a separate stage and Envoys. The story decides which replica leads.

use anyhow::{Context, Result, bail};
use holdfast_api::settings::Settings;
use holdfast_cli::shared::{Begun, Sharing, TurnInputs};
use holdfast_engine::engine::{Event, Role};
use holdfast_store::{MemoryBucket, MemoryStore, Options};

use super::language::Refuse;
use super::stage::StoryStage;
use super::{answer, invariants};

/// A quarter of the number of turns after which all replicas must be quiet.
const TURNS_MAX: usize = 12;

/// One replica.
pub struct Replica {
    /// Its engine and its Envoys.
    pub stage: StoryStage,
    /// Whether it is the leader.
    pub leads: bool,
    /// Whether it runs.
    pub is_up: bool,
    /// Whether it can reach the bucket.
    pub reaches: bool,
    sharing: Sharing<MemoryBucket>,
    /// The events of a turn that has begun.
    undelivered: Option<Vec<Event>>,
}

/// Several replicas with one bucket.
pub struct StoryReplicas {
    /// All replicas; the first is the first leader.
    pub all: Vec<Replica>,
    /// The bucket.
    pub bucket: MemoryBucket,
    settings: Settings,
}

fn store_options() -> Options {
    Options { identity: "a story".into(), key: None }
}

impl StoryReplicas {
    /// Creates the replicas, each with its Envoys by node and build, all of the Gateway `infra/public`.
    ///
    /// # Errors
    /// If a replica cannot start.
    pub fn new(settings: &Settings, envoys: &[&[(&str, &str)]]) -> Result<Self> {
        let bucket = MemoryBucket::default();
        let options = store_options();
        let mut all = Vec::new();
        for (number, nodes) in envoys.iter().enumerate() {
            let mut stage = StoryStage::new(settings.clone(), None);
            nodes.iter().for_each(|(node, build)| stage.add_envoy(node, build, "infra/public"));
            stage.happen(vec![Event::Role(Role::Follower)])?;
            let sharing = Sharing::new(bucket.clone(), &options, format!("replica-{number}"));
            all.push(Replica { stage, leads: number == 0, is_up: true, reaches: true, sharing, undelivered: None });
        }
        Ok(Self { all, bucket, settings: settings.clone() })
    }

    /// Adds a replica with an empty store, which reads the shared state before the objects.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn join(&mut self, envoys: &[(&str, &str)], text: &str) -> Result<()> {
        let mut stage = StoryStage::new(self.settings.clone(), None);
        envoys.iter().for_each(|(node, build)| stage.add_envoy(node, build, "infra/public"));
        let number = self.all.len();
        let mut sharing = Sharing::new(self.bucket.clone(), &store_options(), format!("replica-{number}"));
        let Begun { learned, .. } = sharing.begin(&MemoryStore::default(), 0)?;
        let learned = Box::new(learned.context("nothing is shared")?);
        stage.happen(vec![Event::Role(Role::Follower), Event::Restored(learned.clone()), Event::Learned(learned)])?;
        self.all.push(Replica { stage, leads: false, is_up: true, reaches: true, sharing, undelivered: None });
        self.apply(text)
    }

    /// Applies the same objects at all replicas; Envoys that are not connected connect.
    ///
    /// # Errors
    /// If a replica does not become quiet, or violates an invariant.
    pub fn apply(&mut self, text: &str) -> Result<()> {
        for replica in self.up() {
            replica.stage.apply(text)?;
            let new = |node: &&String| replica.stage.envoys.get(*node).is_some_and(|envoy| !envoy.connected);
            let come: Vec<String> = replica.stage.envoys.keys().filter(new).cloned().collect();
            replica.stage.connect(&come)?;
        }
        self.settle()
    }

    /// Deletes objects at all replicas.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn delete(&mut self, names: &[&str]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        for replica in self.up() {
            let events = replica.stage.take_away(&names)?;
            replica.stage.happen(events)?;
        }
        self.settle()
    }

    /// Makes the Envoys of all replicas that the oracle applies to refuse something.
    pub fn refuse(&mut self, refuse: &Refuse) {
        self.all.iter_mut().for_each(|replica| replica.stage.oracles.push(refuse.clone()));
    }

    /// Removes all refusals.
    pub fn forgive(&mut self) {
        for replica in &mut self.all {
            replica.stage.oracles.clear();
            replica.stage.forgive();
        }
    }

    fn up(&mut self) -> impl Iterator<Item = &mut Replica> {
        self.all.iter_mut().filter(|replica| replica.is_up)
    }

    /// Gives each replica its turn, and advances the clock by one second, until nothing has changed for some turns.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); and if the replicas do not become quiet.
    pub fn settle(&mut self) -> Result<()> {
        let mut before = Vec::new();
        let mut quiet = 0;
        for _ in 0..TURNS_MAX * 4 {
            self.turn()?;
            let now: Vec<_> = self.all.iter().map(|replica| taken(&replica.stage)).collect();
            quiet = if now == before { quiet + 1 } else { 0 };
            if quiet >= TURNS_MAX / 2 {
                return Ok(());
            }
            before = now;
        }
        bail!("the replicas do not come to an end")
    }

    /// Gives each replica a turn at the bucket, and advances the clock by one second.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn turn(&mut self) -> Result<()> {
        for number in 0..self.all.len() {
            self.turn_of(number)?;
        }
        for replica in self.up() {
            replica.stage.pass(1)?;
            invariants::check(&mut replica.stage)?;
        }
        Ok(())
    }

    /// Gives one replica a turn at the bucket; the rest of a turn that has begun comes before.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn turn_of(&mut self, number: usize) -> Result<()> {
        self.end_turn(number)?;
        self.begin_turn(number)?;
        self.end_turn(number)
    }

    /// Exchanges the state of one replica with the bucket. What it has read is delivered later, as the API server needs
    /// time for its answers.
    ///
    /// # Errors
    /// If the turn has a notice that no story expects.
    pub fn begin_turn(&mut self, number: usize) -> Result<()> {
        let Some(replica) = self.all.get_mut(number) else { return Ok(()) };
        let Replica { stage, leads, is_up, reaches, sharing, undelivered } = replica;
        let Some(engine) = stage.engine.as_ref().filter(|_| *is_up && undelivered.is_none()) else { return Ok(()) };
        let (offers, seen) = (engine.offered_to_all(), engine.observation());
        let batch = std::mem::take(&mut stage.outbox);
        let now_ms = stage.now_ms();
        self.bucket.fail_after((!*reaches).then_some(0));
        // A replica that cannot reach the bucket reads nothing either.
        let turn = reaches.then(|| sharing.turn(TurnInputs { leads: *leads, batch, offers, seen, now_ms }));
        self.bucket.fail_after(None);
        if let Some(Ok(turn)) = turn {
            anyhow::ensure!(turn.notices.iter().all(|notice| notice.contains("follows")), "{:?}", turn.notices);
            *undelivered = Some(turn.events);
        }
        Ok(())
    }

    /// Delivers the events of a turn that has begun, if any.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn end_turn(&mut self, number: usize) -> Result<()> {
        let Some(replica) = self.all.get_mut(number) else { return Ok(()) };
        match replica.undelivered.take() {
            Some(events) => replica.stage.happen(events),
            None => Ok(()),
        }
    }

    /// Returns the response of an Envoy of a replica to a request.
    ///
    /// # Errors
    /// If there is no such Envoy, or the request is invalid.
    pub fn response(&self, number: usize, node: &str, request: &str) -> Result<String> {
        let envoy = self.all.get(number).and_then(|replica| replica.stage.envoys.get(node));
        let Some(envoy) = envoy else { bail!("no Envoy {node} at {number}") };
        Ok(answer::answer(envoy, &answer::SimulatedRequest::parse(request)?))
    }

    /// Number of refusals by the Envoys of a replica.
    pub fn nacks(&self, number: usize) -> usize {
        self.all.get(number).map_or(0, |replica| replica.stage.counts.nacks.values().sum())
    }
}

/// Resources of all Envoys of a replica: nodes, types, names and versions.
pub fn taken(stage: &StoryStage) -> Vec<(String, String, String)> {
    let of = |(node, envoy): (&String, &super::envoy::Envoy)| {
        let node = node.clone();
        let named = envoy.taken.iter().map(move |((kind, name), resource)| {
            (node.clone(), format!("{}/{name}", kind.short_name()), resource.version.to_string())
        });
        named.collect::<Vec<_>>()
    };
    stage.envoys.iter().flat_map(of).collect()
}

/// Resources of one Envoy of a replica: types, names and versions.
pub fn taken_by(stage: &StoryStage, node: &str) -> Vec<(String, String)> {
    let all = taken(stage).into_iter().filter(|(of, ..)| of == node);
    all.map(|(_, name, version)| (name, version)).collect()
}
