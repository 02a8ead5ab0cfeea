//! Watches of an API server: the events that are passed on to the engine.
//!
//! Watches repeat events, lose events and deliver late, and a list after an outage may be incomplete. This module
//! decides which of them reach the engine. The module does no I/O, and the time is passed in as data.

mod guard;
mod kind;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use guard::{DENIED_MAX_MS, DeletionGuard};
use holdfast_api::watch_problem::{WatchProblem, Why};
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
pub use kind::WatchState;
use kind::WatchedKind;

/// Maximum number of objects. Objects beyond the limit are not used, and a problem is reported.
pub const WATCHED_OBJECTS_MAX: usize = 200_000;

/// An object that was listed or watched.
#[derive(Debug)]
pub struct WatchedObject {
    /// Identity of the object.
    pub key: ObjectKey,
    /// UID of the object; it differs after deletion and creation.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, if it is a number: versions can be compared then.
    pub version: Option<u64>,
    /// Event for the engine.
    pub event: Event,
}

/// An object of a second list.
#[derive(Clone, Debug)]
pub struct ListedObject {
    /// Identity of the object.
    pub key: ObjectKey,
    /// UID of the object; it differs after deletion and creation.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, if it is a number.
    pub version: Option<u64>,
}

/// Notification of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// A list begins; the objects until [`WatchEvent::ListEnds`] are all objects.
    ListBegins,
    /// An object exists.
    There(Box<WatchedObject>),
    /// The list is complete.
    ListEnds,
    /// An object was deleted.
    Deleted(ObjectKey, Arc<str>),
    /// The API server does not know the kind.
    NoKind,
    /// The CustomResourceDefinition is being removed. The deletions that follow are a result of this; no user deleted
    /// the objects.
    Leaving,
    /// The kind may not be read.
    Denied(String),
    /// The kind cannot be read at the moment; the reason.
    Failed(String),
    /// A second list, requested by [`Watching::to_confirm`], has exactly these objects. A regular list follows.
    Confirmed(Vec<ListedObject>),
}

/// All watches.
#[derive(Debug)]
pub struct Watching {
    watches: Vec<Watch>,
    guard: DeletionGuard,
    objects: usize,
    left_out: usize,
}

/// A watch: a kind, in one namespace or in all namespaces.
#[derive(Debug)]
struct Watch {
    name: Arc<str>,
    kind: WatchedKind,
}

impl Watching {
    /// Creates watches with these names, such as `gateway.networking.k8s.io/HTTPRoute`, without any notification.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>, guard: DeletionGuard) -> Self {
        let watches = names.into_iter().map(|name| Watch { name, kind: WatchedKind::default() }).collect();
        Self { watches, guard, objects: 0, left_out: 0 }
    }

    /// Adds the objects of a watch that an earlier run knew. They are used only if the first response of the API server
    /// is that it does not know the kind.
    pub fn remember(&mut self, watch: usize, keys: impl IntoIterator<Item = ObjectKey>) {
        if let Some(watch) = self.watches.get_mut(watch) {
            watch.kind.remember(keys);
        }
    }

    /// Processes a notification of a watch (index from 0) and returns the events for the engine, deletions first.
    pub fn on_event(&mut self, watch: usize, event: WatchEvent, now_ms: u64) -> Vec<Event> {
        let Some(Watch { kind, .. }) = self.watches.get_mut(watch) else { return Vec::new() };
        if let WatchEvent::There(item) = &event
            && self.objects >= WATCHED_OBJECTS_MAX
            && !kind.knows(&item.key)
        {
            self.left_out += 1;
            return Vec::new();
        }
        let before = kind.len();
        let events = kind.on_event(event, &self.guard, now_ms);
        self.objects = self.objects + kind.len() - before;
        events
    }

    /// Processes the passage of time.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for Watch { kind, .. } in &mut self.watches {
            let before = kind.len();
            events.extend(kind.tick(&self.guard, now_ms));
            self.objects -= before - kind.len();
        }
        events
    }

    /// Returns the watches that need a second list, since objects have been missing for long enough. A watch is
    /// returned until the list is confirmed.
    pub fn to_confirm(&self, now_ms: u64) -> Vec<usize> {
        let due = |(index, watch): (usize, &Watch)| watch.kind.is_due(&self.guard, now_ms).then_some(index);
        self.watches.iter().enumerate().filter_map(due).collect()
    }

    /// Checks that every kind that the API server knows was listed. Nothing is decided before.
    pub fn is_ready(&self) -> bool {
        self.watches.iter().all(|watch| watch.kind.state() != &WatchState::Unlisted)
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Returns the state of each watch.
    pub fn states(&self) -> impl Iterator<Item = (&Arc<str>, &WatchState)> {
        self.watches.iter().map(|watch| (&watch.name, watch.kind.state()))
    }

    /// Returns all problems.
    pub fn problems(&self) -> Vec<WatchProblem> {
        let problem_of = |watch: &Watch| {
            let (why, message) = watch.kind.problem()?;
            Some(WatchProblem { of: watch.name.clone(), why, message })
        };
        let mut problems: Vec<_> = self.watches.iter().filter_map(problem_of).collect();
        if self.left_out > 0 {
            let message = format!("more than {WATCHED_OBJECTS_MAX} objects; the objects beyond this limit are ignored");
            problems.push(WatchProblem { of: "objects".into(), why: Why::TooMany, message });
        }
        problems
    }
}
