//! One replica and the bucket: what it writes where it leads, and what it reads and tells where it follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_store::shards::{Bucket, Observation, ObservedScope, Offers, Refreshed};
use holdfast_store::{Batch, LastValidStore, MemoryStore, Options, ShardStore, StoreError};

use crate::engine::{Event, Role};
use crate::fallback::restored::Restored;
use crate::run::store::restore;

/// How long a replica is believed to be there after it has told something, in milliseconds.
pub const OBSERVER_GONE_MS: u64 = 15_000;
/// How often a replica tells that it is there where nothing else is to be told, in milliseconds.
pub const BEAT_MS: u64 = 5_000;
/// How long a replica that was overtaken follows before it leads again, should it still be told to, in milliseconds.
pub const OVERTAKEN_MS: u64 = 10_000;
/// Changes that wait while the bucket is away; of more all is written anew when it is back.
const WAITING_MAX: usize = 10_000;

/// What a turn brought.
#[derive(Debug, Default)]
pub struct Turn {
    /// What happened, for the engine.
    pub events: Vec<Event>,
    /// What makes a store of what was known before one of what is known now.
    pub mirror: Batch,
    /// What people should be told.
    pub notices: Vec<String>,
    /// Was anything written that is shared?
    pub wrote: bool,
}

/// What a replica knows at a turn.
#[derive(Debug, Default)]
pub struct Said {
    /// Should it lead?
    pub leads: bool,
    /// What it has proven and refused since the last turn.
    pub batch: Batch,
    /// What it offers to all its Envoys.
    pub offers: Offers,
    /// What its Envoys have answered.
    pub seen: Vec<ObservedScope>,
    /// The time, in milliseconds.
    pub now_ms: u64,
}

/// With what a replica begins.
#[derive(Default)]
pub struct Begun {
    /// What is shared. Who follows is to hear of it before anything else.
    pub learned: Option<Restored>,
    /// What makes the replica's own store the same, where what is shared is newer.
    pub mirror: Option<Batch>,
    /// What people should be told.
    pub notices: Vec<String>,
}

/// See the module.
pub struct Sharing<B> {
    store: ShardStore<B>,
    /// Who this replica is.
    own: Arc<str>,
    leads: bool,
    waiting: Batch,
    /// What everything shared is to be instead of what it is.
    instead: Option<Batch>,
    /// What was read last.
    mirrored: MemoryStore,
    told: Vec<ObservedScope>,
    beat: u64,
    told_at: Option<u64>,
    /// When each other replica was seen to count, and how far.
    others: BTreeMap<Arc<str>, (u64, u64)>,
    /// Was anybody there when it was told last?
    observed: bool,
    overtaken_until: u64,
    /// What happened and could not be told yet.
    untold: Vec<Event>,
}

impl<B: Bucket> Sharing<B> {
    /// A replica of this name, which follows until it is said to lead.
    pub fn new(bucket: B, options: &Options, own: impl Into<Arc<str>>) -> Self {
        Self {
            store: ShardStore::unread(bucket, options),
            own: own.into(),
            leads: false,
            waiting: Batch::default(),
            instead: None,
            mirrored: MemoryStore::default(),
            told: Vec::new(),
            beat: 0,
            told_at: None,
            others: BTreeMap::new(),
            observed: false,
            overtaken_until: 0,
            untold: Vec::new(),
        }
    }

    /// The generation that is known.
    pub fn generation(&self) -> u64 {
        self.store.generation()
    }

    /// Bytes that are shared, as it is known.
    pub fn bytes(&self) -> u64 {
        self.store.statistics().bytes_on_disk
    }

    /// Reads what is shared, and says whether it is newer than what this replica's own store has, which was the same as
    /// `generation`. What is not newer, or is not there, is shared anew from the own store as soon as this one leads.
    ///
    /// # Errors
    /// Where the bucket cannot be reached, or what is there belongs to others.
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

    /// One turn.
    ///
    /// # Errors
    /// Where the bucket cannot be reached: what waits is tried again with the next turn. A role is taken on all the same.
    pub fn turn(&mut self, said: Said) -> Result<Turn, StoreError> {
        let Said { leads, batch, offers, seen, now_ms } = said;
        let mut turn = Turn { events: std::mem::take(&mut self.untold), ..Turn::default() };
        if leads != self.leads && (!leads || now_ms >= self.overtaken_until) {
            self.mirrored = self.store.contents().clone();
            // What was shared last comes before the role: who leads goes on with it.
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
            // What this one has to say in its new role it says with the next turn.
            return Ok(turn);
        }
        self.add(batch);
        let outcome = if self.leads { self.lead(offers, now_ms) } else { self.follow(seen, now_ms) };
        match outcome {
            Ok(more) => turn.add(more),
            Err(error) => {
                self.untold.extend(turn.events);
                return Err(error);
            }
        }
        Ok(turn)
    }

    /// Something was proven or refused here. Of no use where another leads: what that one has proven counts.
    fn add(&mut self, batch: Batch) {
        if !self.leads {
            return;
        }
        self.waiting.append(batch);
        if self.waiting.len() > WAITING_MAX {
            self.fold();
        }
    }

    /// Takes what waits into what everything is to be.
    fn fold(&mut self) {
        let mut whole = MemoryStore::default();
        let base = self.instead.take().map_or_else(|| Batch::of_everything(self.store.contents()), Ok);
        let batch = std::mem::take(&mut self.waiting);
        if base.and_then(|base| whole.commit(base)).and_then(|()| whole.commit(batch)).is_ok() {
            self.instead = Batch::of_everything(&whole).ok();
        }
    }

    fn lead(&mut self, offers: Offers, now_ms: u64) -> Result<Turn, StoreError> {
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
                    // What was there is gone, by nobody who leads: it is written again.
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
        // Of nobody it is told once.
        let before = std::mem::replace(&mut self.observed, !observed.is_empty());
        let is_news = self.observed || before;
        let events = if is_news { vec![Event::Observed(observed)] } else { Vec::new() };
        Ok(Turn { events, notices: self.store.notices(), wrote: self.generation() != known, ..Turn::default() })
    }

    fn follow(&mut self, seen: Vec<ObservedScope>, now_ms: u64) -> Result<Turn, StoreError> {
        let turn = self.read()?;
        let due = self.told_at.is_none_or(|at| now_ms >= at.saturating_add(BEAT_MS));
        if due || seen != self.told {
            self.beat = self.beat.max(now_ms) + 1;
            let observation = Observation { observer: self.own.clone(), beat: self.beat, scopes: seen.clone() };
            self.store.observe(&observation)?;
            (self.told, self.told_at) = (seen, Some(now_ms));
        }
        Ok(turn)
    }

    /// Reads what is newer than what is known.
    fn read(&mut self) -> Result<Turn, StoreError> {
        let refreshed = self.store.refresh()?;
        let mut turn = Turn { notices: self.store.notices(), ..Turn::default() };
        if refreshed == Refreshed::Newer {
            let (mut restored, more) = restore::restore(self.store.contents())?;
            turn.notices.extend(more);
            for (scope, offers) in self.store.offers() {
                let mut offers = offers.clone();
                // What others are asked to try is theirs.
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

    /// What those have seen that still count.
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
