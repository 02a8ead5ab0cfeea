//! What an API server was heard to say, and what of it is believed: which objects are there.
//!
//! Watches repeat, skip and come late, and a list after an outage may be far shorter than the truth. Here it is decided
//! which of it reaches the engine as an event. Nothing in this room reads or writes, and the time comes in as data.

mod guard;
mod kind;
#[cfg(test)]
mod tests;
mod trouble;

use std::sync::Arc;

use holdfast_graph::ObjectKey;

pub use guard::{DENIED_MAX_MS, Guard};
use kind::Kind;
pub use kind::Standing;
pub use trouble::{Trouble, Why};

use crate::engine::Event;

/// How many objects are used; those that come beyond are not, and that is told.
pub const OBJECTS_MAX: usize = 200_000;

/// An object as it was listed or watched.
#[derive(Debug)]
pub struct Item {
    /// Its identity.
    pub key: ObjectKey,
    /// Identity across deletion and creation.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, where it is a number: then the older of two is told from the newer.
    pub version: Option<u64>,
    /// What it tells the engine.
    pub event: Event,
}

/// An object as a second list has it.
#[derive(Clone, Debug)]
pub struct Present {
    /// Its identity.
    pub key: ObjectKey,
    /// Identity across deletion and creation.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, where it is a number.
    pub version: Option<u64>,
}

/// What was heard of the objects that one watch is about.
#[derive(Debug)]
pub enum Word {
    /// A list begins; what follows is all there is.
    ListBegins,
    /// An object is there.
    There(Box<Item>),
    /// The list is whole.
    ListEnds,
    /// An object was deleted.
    Deleted(ObjectKey, Arc<str>),
    /// The API server does not know the kind.
    NoKind,
    /// The definition of the kind is being removed; deletions that follow are those of its objects, whom nobody asked to
    /// go.
    Leaving,
    /// It may not be read.
    Denied(String),
    /// It cannot be read now; why.
    Failed(String),
    /// A second list, asked for by [`Watching::to_confirm`], has these objects and no others. A list as any other follows.
    Confirmed(Vec<Present>),
}

/// All watches.
#[derive(Debug)]
pub struct Watching {
    watches: Vec<Watch>,
    guard: Guard,
    objects: usize,
    left_out: usize,
}

/// One watch: a kind, in one namespace or in all.
#[derive(Debug)]
struct Watch {
    name: Arc<str>,
    kind: Kind,
}

impl Watching {
    /// Watches by their names, as `gateway.networking.k8s.io/HTTPRoute`; nothing was heard yet.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>, guard: Guard) -> Self {
        let watches = names.into_iter().map(|name| Watch { name, kind: Kind::default() }).collect();
        Self { watches, guard, objects: 0, left_out: 0 }
    }

    /// An earlier run knew these objects of a watch. They count where the kind is not known any more when it is asked for
    /// first.
    pub fn remember(&mut self, watch: usize, keys: impl IntoIterator<Item = ObjectKey>) {
        if let Some(watch) = self.watches.get_mut(watch) {
            watch.kind.remember(keys);
        }
    }

    /// Takes in what was heard at a watch, counted from 0; says what is believed of it, deletions first.
    pub fn hear(&mut self, watch: usize, word: Word, now_ms: u64) -> Vec<Event> {
        let Some(Watch { kind, .. }) = self.watches.get_mut(watch) else { return Vec::new() };
        if let Word::There(item) = &word
            && self.objects >= OBJECTS_MAX
            && !kind.knows(&item.key)
        {
            self.left_out += 1;
            return Vec::new();
        }
        let before = kind.len();
        let events = kind.hear(word, &self.guard, now_ms);
        self.objects = self.objects + kind.len() - before;
        events
    }

    /// Time passes.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for Watch { kind, .. } in &mut self.watches {
            let before = kind.len();
            events.extend(kind.tick(&self.guard, now_ms));
            self.objects -= before - kind.len();
        }
        events
    }

    /// The watches whose objects are missing for long enough to be listed once more, each until it was confirmed.
    pub fn to_confirm(&self, now_ms: u64) -> Vec<usize> {
        let due = |(index, watch): (usize, &Watch)| watch.kind.is_due(&self.guard, now_ms).then_some(index);
        self.watches.iter().enumerate().filter_map(due).collect()
    }

    /// Was every kind listed that the API server knows? Nothing is decided before.
    pub fn is_ready(&self) -> bool {
        self.watches.iter().all(|watch| watch.kind.standing() != &Standing::Unlisted)
    }

    /// How many objects are there.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// How watches stand.
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<str>, &Standing)> {
        self.watches.iter().map(|watch| (&watch.name, watch.kind.standing()))
    }

    /// What is wrong.
    pub fn troubles(&self) -> Vec<Trouble> {
        let told = |watch: &Watch| {
            let (why, message) = watch.kind.trouble()?;
            Some(Trouble { of: watch.name.clone(), why, message })
        };
        let mut troubles: Vec<_> = self.watches.iter().filter_map(told).collect();
        if self.left_out > 0 {
            let message = format!("more than {OBJECTS_MAX} objects; those beyond are not used");
            troubles.push(Trouble { of: "objects".into(), why: Why::TooMany, message });
        }
        troubles
    }
}
