//! Several replicas over one bucket, each a stage of its own with its own Envoys. Who leads is said by the story.

use anyhow::{Context, Result, bail};
use holdfast_engine::engine::{Event, Role};
use holdfast_engine::run::shared::{Begun, Said, Sharing};
use holdfast_engine::settings::Settings;
use holdfast_store::{MemoryBucket, MemoryStore, Options};

use super::language::Refuse;
use super::stage::Stage;
use super::{answer, invariants};

/// Turns of all replicas after which they must have come to an end.
const TURNS_MAX: usize = 12;

/// One replica.
pub struct Replica {
    /// Its deciding code and its Envoys.
    pub stage: Stage,
    /// Is it told to lead?
    pub leads: bool,
    /// Is it there at all?
    pub is_up: bool,
    /// Does it reach the bucket?
    pub reaches: bool,
    sharing: Sharing<MemoryBucket>,
}

/// See the module.
pub struct Replicas {
    /// All of them; the first is told to lead at first.
    pub all: Vec<Replica>,
    /// What they share.
    pub bucket: MemoryBucket,
    settings: Settings,
}

fn whose() -> Options {
    Options { identity: "a story".into(), key: None }
}

impl Replicas {
    /// So many replicas, each with its Envoys by node and build, all of the Gateway `infra/public`.
    ///
    /// # Errors
    /// Where they cannot begin.
    pub fn new(settings: &Settings, envoys: &[&[(&str, &str)]]) -> Result<Self> {
        let bucket = MemoryBucket::default();
        let options = whose();
        let mut all = Vec::new();
        for (number, nodes) in envoys.iter().enumerate() {
            let mut stage = Stage::new(settings.clone(), None);
            nodes.iter().for_each(|(node, build)| stage.add_envoy(node, build, "infra/public"));
            stage.happen(vec![Event::Role(Role::Follower)])?;
            let sharing = Sharing::new(bucket.clone(), &options, format!("replica-{number}"));
            all.push(Replica { stage, leads: number == 0, is_up: true, reaches: true, sharing });
        }
        Ok(Self { all, bucket, settings: settings.clone() })
    }

    /// One more replica comes, which has nothing of its own, and reads the objects after what is shared.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn join(&mut self, envoys: &[(&str, &str)], text: &str) -> Result<()> {
        let mut stage = Stage::new(self.settings.clone(), None);
        envoys.iter().for_each(|(node, build)| stage.add_envoy(node, build, "infra/public"));
        let number = self.all.len();
        let mut sharing = Sharing::new(self.bucket.clone(), &whose(), format!("replica-{number}"));
        let Begun { learned, .. } = sharing.begin(&MemoryStore::default(), 0)?;
        let learned = Box::new(learned.context("nothing is shared")?);
        stage.happen(vec![Event::Role(Role::Follower), Event::Restored(learned.clone()), Event::Learned(learned)])?;
        self.all.push(Replica { stage, leads: false, is_up: true, reaches: true, sharing });
        self.apply(text)
    }

    /// The same objects are applied everywhere; Envoys that are not there yet come.
    ///
    /// # Errors
    /// Where a replica goes in circles, or breaks a rule.
    pub fn apply(&mut self, text: &str) -> Result<()> {
        for replica in self.up() {
            replica.stage.apply(text)?;
            let new = |node: &&String| replica.stage.envoys.get(*node).is_some_and(|envoy| !envoy.connected);
            let come: Vec<String> = replica.stage.envoys.keys().filter(new).cloned().collect();
            replica.stage.connect(&come)?;
        }
        self.settle()
    }

    /// Objects are deleted everywhere.
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

    /// From now on something is refused, by the Envoys of all replicas that are meant.
    pub fn refuse(&mut self, refuse: &Refuse) {
        self.all.iter_mut().for_each(|replica| replica.stage.oracles.push(refuse.clone()));
    }

    /// Nothing is refused any more.
    pub fn forgive(&mut self) {
        for replica in &mut self.all {
            replica.stage.oracles.clear();
            replica.stage.forgive();
        }
    }

    fn up(&mut self) -> impl Iterator<Item = &mut Replica> {
        self.all.iter_mut().filter(|replica| replica.is_up)
    }

    /// One after the other takes a turn, and a second passes, until nothing has changed for a while.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); and where it does not come to an end.
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

    /// Each replica takes a turn at the bucket, and a second passes.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn turn(&mut self) -> Result<()> {
        for number in 0..self.all.len() {
            self.turn_of(number)?;
        }
        for replica in self.up() {
            replica.stage.pass(1)?;
            invariants::check(&replica.stage)?;
        }
        Ok(())
    }

    /// One replica takes a turn at the bucket.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn turn_of(&mut self, number: usize) -> Result<()> {
        let Some(Replica { stage, leads, is_up, reaches, sharing }) = self.all.get_mut(number) else { return Ok(()) };
        let Some(engine) = stage.engine.as_ref().filter(|_| *is_up) else { return Ok(()) };
        let (offers, seen) = (engine.offered_to_all(), engine.observation());
        let batch = std::mem::take(&mut stage.outbox);
        let now_ms = stage.now_ms();
        self.bucket.fail_after((!*reaches).then_some(0));
        // One that is away reads nothing either.
        let turn = reaches.then(|| sharing.turn(Said { leads: *leads, batch, offers, seen, now_ms }));
        self.bucket.fail_after(None);
        if let Some(Ok(turn)) = turn {
            anyhow::ensure!(turn.notices.iter().all(|told| told.contains("follows")), "{:?}", turn.notices);
            stage.happen(turn.events)?;
        }
        Ok(())
    }

    /// What a request is answered with at an Envoy of a replica.
    ///
    /// # Errors
    /// Where there is no such Envoy, or it is no request.
    pub fn ask(&self, number: usize, node: &str, request: &str) -> Result<String> {
        let envoy = self.all.get(number).and_then(|replica| replica.stage.envoys.get(node));
        let Some(envoy) = envoy else { bail!("no Envoy {node} at {number}") };
        Ok(answer::answer(envoy, &answer::Request::parse(request)?))
    }

    /// How often Envoys of a replica have refused something.
    pub fn nacks(&self, number: usize) -> usize {
        self.all.get(number).map_or(0, |replica| replica.stage.counts.nacks.values().sum())
    }
}

/// What all Envoys of a replica have: types, names and versions.
pub fn taken(stage: &Stage) -> Vec<(String, String, String)> {
    let of = |(node, envoy): (&String, &super::envoy::Envoy)| {
        let node = node.clone();
        let named = envoy.taken.iter().map(move |((kind, name), resource)| {
            (node.clone(), format!("{}/{name}", kind.short_name()), resource.version.to_string())
        });
        named.collect::<Vec<_>>()
    };
    stage.envoys.iter().flat_map(of).collect()
}

/// What one Envoy of a replica has: types, names and versions.
pub fn taken_by(stage: &Stage, node: &str) -> Vec<(String, String)> {
    let all = taken(stage).into_iter().filter(|(of, ..)| of == node);
    all.map(|(_, name, version)| (name, version)).collect()
}
