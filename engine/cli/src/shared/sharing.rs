//! Exchange of one replica with the bucket: the leader writes the shared state; a follower reads it, and writes the
//! answers of its Envoys.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_engine::engine::{Event, Role};
use holdfast_fallback::restore;
use holdfast_fallback::restored::Restored;
use holdfast_store::shards::{Bucket, Observation, ObservedScope, OffersByScope, Refreshed};
use holdfast_store::{Batch, LastValidStore, MemoryStore, Options, ShardStore, StoreError};

/// How long a replica counts as alive after its last observation, in milliseconds.
pub const OBSERVER_GONE_MS: u64 = 15_000;
/// Maximum interval between observations of a replica, in milliseconds.
pub const BEAT_MS: u64 = 5_000;
/// How long a replica that was overtaken by another leader follows before it may lead again, in milliseconds.
pub const OVERTAKEN_MS: u64 = 10_000;
/// Maximum number of changes that wait while the bucket is unavailable; beyond it everything is written again when
/// the bucket is available.
const SHARED_CHANGES_MAX: usize = 10_000;

/// The result of a turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// Events for the engine.
    pub events: Vec<Event>,
    /// The changes that turn a store with the previous shared state into one with the current state.
    pub mirror: Batch,
    /// Notices for the log.
    pub notices: Vec<String>,
    /// Whether shared state was written.
    pub wrote: bool,
}

/// The inputs of a turn.
#[derive(Debug, Default)]
pub struct TurnInputs {
    /// Whether the replica should lead.
    pub leads: bool,
    /// What it has proven and refused since the last turn.
    pub batch: Batch,
    /// What it offers to all its Envoys.
    pub offers: OffersByScope,
    /// What its Envoys have answered.
    pub seen: Vec<ObservedScope>,
    /// The time, in milliseconds.
    pub now_ms: u64,
}

/// The initial state of a replica.
#[derive(Default)]
pub struct Begun {
    /// The shared state. A follower has to receive it before any other event.
    pub learned: Option<Restored>,
    /// The changes that bring the replica's own store to the shared state, if that is newer.
    pub mirror: Option<Batch>,
    /// Notices for the log.
    pub notices: Vec<String>,
}

/// The exchange of a replica with the bucket.
pub struct Sharing<B> {
    store: ShardStore<B>,
    /// The name of this replica.
    own: Arc<str>,
    leads: bool,
    waiting: Batch,
    /// The complete state that has to replace the shared state.
    instead: Option<Batch>,
    /// The shared state that was last read.
    mirrored: MemoryStore,
    reported: Vec<ObservedScope>,
    beat: u64,
    reported_at: Option<u64>,
    /// The last counter of each other replica, and when it last changed.
    others: BTreeMap<Arc<str>, (u64, u64)>,
    /// Whether the last event contained observations.
    observed: bool,
    overtaken_until: u64,
    /// Events that could not be delivered yet.
    undelivered: Vec<Event>,
}

impl<B: Bucket> Sharing<B> {
    /// A replica with this name, which follows until it has to lead.
    pub fn new(bucket: B, options: &Options, own: impl Into<Arc<str>>) -> Self {
        Self {
            store: ShardStore::unread(bucket, options),
            own: own.into(),
            leads: false,
            waiting: Batch::default(),
            instead: None,
            mirrored: MemoryStore::default(),
            reported: Vec::new(),
            beat: 0,
            reported_at: None,
            others: BTreeMap::new(),
            observed: false,
            overtaken_until: 0,
            undelivered: Vec::new(),
        }
    }

    /// The known generation.
    pub fn generation(&self) -> u64 {
        self.store.generation()
    }

    /// The known size of the shared state, in bytes.
    pub fn bytes(&self) -> u64 {
        self.store.statistics().bytes_on_disk
    }

    /// Reads the shared state, and compares it with the replica's own store, which was last equal to `generation`. If
    /// the shared state is not newer, or missing, it is written again from the own store as soon as this replica leads.
    ///
    /// # Errors
    /// Returns an error if the bucket is unavailable, or its content belongs to another installation.
    pub fn begin(&mut self, own: &impl LastValidStore, generation: u64) -> Result<Begun, StoreError> {
        let turn = self.read()?;
        let learned = turn.events.into_iter().find_map(|event| match event {
            Event::Learned(learned) => Some(*learned),
            _ => None,
        });
        let mut begun = Begun { learned, mirror: None, notices: turn.notices };
        if begun.learned.is_some() && self.generation() > generation {
            begun.mirror = Some(Batch::between(own, self.store.contents())?);
        } else {
            self.instead = Some(Batch::of_everything(own)?);
        }
        Ok(begun)
    }

    /// Runs one turn.
    ///
    /// # Errors
    /// Returns an error if the bucket is unavailable: the waiting changes are written in the next turn. A change of
    /// role takes effect nevertheless.
    pub fn turn(&mut self, inputs: TurnInputs) -> Result<Turn, StoreError> {
        let TurnInputs { leads, batch, offers, seen, now_ms } = inputs;
        let mut turn = Turn { events: std::mem::take(&mut self.undelivered), ..Turn::default() };
        if leads != self.leads && (!leads || now_ms >= self.overtaken_until) {
            self.mirrored = self.store.contents().clone();
            // The last shared state comes before the role, since a new leader continues from it.
            let read = self.read();
            self.leads = leads;
            self.waiting = Batch::default();
            self.others.clear();
            let role = Event::Role(if leads { Role::Leader } else { Role::Follower });
            match read {
                Ok(read) => {
                    turn.add(read);
                    turn.events.push(role);
                }
                Err(error) => {
                    turn.events.push(role);
                    turn.notices.push(format!("it cannot be read: {error}"));
                }
            }
            // The replica acts in its new role from the next turn.
            return Ok(turn);
        }
        self.add(batch);
        let outcome = if self.leads { self.lead(offers, now_ms) } else { self.follow(seen, now_ms) };
        match outcome {
            Ok(more) => turn.add(more),
            Err(error) => {
                self.undelivered.extend(turn.events);
                return Err(error);
            }
        }
        Ok(turn)
    }

    /// Adds changes that were proven or refused here. A follower drops them, since only the leader's proofs count.
    fn add(&mut self, batch: Batch) {
        if !self.leads {
            return;
        }
        self.waiting.append(batch);
        if self.waiting.len() > SHARED_CHANGES_MAX {
            self.fold();
        }
    }

    /// Merges the waiting changes into the complete state to write.
    fn fold(&mut self) {
        let mut whole = MemoryStore::default();
        let base = self.instead.take().map_or_else(|| Batch::of_everything(self.store.contents()), Ok);
        let batch = std::mem::take(&mut self.waiting);
        if base.and_then(|base| whole.commit(base)).and_then(|()| whole.commit(batch)).is_ok() {
            self.instead = Batch::of_everything(&whole).ok();
        }
    }

    fn lead(&mut self, offers: OffersByScope, now_ms: u64) -> Result<Turn, StoreError> {
        let (batch, known) = (std::mem::take(&mut self.waiting), self.generation());
        let outcome = match &self.instead {
            Some(everything) => {
                let mut whole = everything.clone();
                whole.append(batch.clone());
                self.store.replace(whole, offers)
            }
            None => self.store.share(batch.clone(), offers),
        };
        match outcome {
            Ok(()) => self.instead = None,
            Err(StoreError::Conflict) => {
                self.mirrored = self.store.contents().clone();
                let mut turn = self.read()?;
                if turn.events.is_empty() {
                    // The shared state was removed, but no other replica leads: it is written again.
                    self.waiting = batch;
                    return Ok(turn);
                }
                self.leads = false;
                self.overtaken_until = now_ms.saturating_add(OVERTAKEN_MS);
                turn.events.insert(0, Event::Role(Role::Follower));
                turn.notices.push("another replica leads: this one follows".into());
                return Ok(turn);
            }
            Err(error) => {
                self.waiting = batch;
                return Err(error);
            }
        }
        let observed = self.others(now_ms)?;
        // An event without observations is sent once.
        let before = std::mem::replace(&mut self.observed, !observed.is_empty());
        let is_news = self.observed || before;
        let events = if is_news { vec![Event::Observed(observed)] } else { Vec::new() };
        Ok(Turn { events, notices: self.store.notices(), wrote: self.generation() != known, ..Turn::default() })
    }

    fn follow(&mut self, seen: Vec<ObservedScope>, now_ms: u64) -> Result<Turn, StoreError> {
        let turn = self.read()?;
        let due = self.reported_at.is_none_or(|at| now_ms >= at.saturating_add(BEAT_MS));
        if due || seen != self.reported {
            self.beat = self.beat.max(now_ms) + 1;
            let observation = Observation { observer: self.own.clone(), beat: self.beat, scopes: seen.clone() };
            self.store.observe(&observation)?;
            (self.reported, self.reported_at) = (seen, Some(now_ms));
        }
        Ok(turn)
    }

    /// Reads the shared state if it is newer than the known one.
    fn read(&mut self) -> Result<Turn, StoreError> {
        let refreshed = self.store.refresh()?;
        let mut turn = Turn { notices: self.store.notices(), ..Turn::default() };
        if refreshed == Refreshed::Newer {
            let (mut restored, more) = restore::restore(self.store.contents())?;
            turn.notices.extend(more);
            for (scope, offers) in self.store.offers() {
                let mut offers = offers.clone();
                // Trials that other replicas are to run are not for this one.
                offers.trial = offers.trial.and_then(|mut trial| {
                    trial.node = trial.node.strip_prefix(&*self.own)?.strip_prefix('/')?.into();
                    Some(trial)
                });
                restored.offer(scope, offers);
            }
            turn.mirror = Batch::between(&self.mirrored, self.store.contents())?;
            self.mirrored = self.store.contents().clone();
            self.instead = None;
            turn.events.push(Event::Learned(Box::new(restored)));
        }
        Ok(turn)
    }

    /// The observations of replicas that are alive.
    fn others(&mut self, now_ms: u64) -> Result<Vec<Observation>, StoreError> {
        let mut seen = self.store.observations()?;
        seen.retain(|one| one.observer != self.own);
        self.others.retain(|observer, _| seen.iter().any(|one| one.observer == *observer));
        let mut there = Vec::new();
        for one in seen {
            let known = self.others.entry(one.observer.clone()).or_insert((one.beat, now_ms));
            if known.0 != one.beat {
                *known = (one.beat, now_ms);
            }
            if now_ms.saturating_sub(known.1) <= OBSERVER_GONE_MS {
                there.push(one);
            } else {
                self.store.forget_observer(&one.observer)?;
            }
        }
        Ok(there)
    }
}

impl Turn {
    fn add(&mut self, other: Turn) {
        self.events.extend(other.events);
        self.mirror.append(other.mirror);
        self.notices.extend(other.notices);
        self.wrote |= other.wrote;
    }
}
