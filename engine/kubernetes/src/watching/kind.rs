//! One watch: its known objects and its missing objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::watch_problem::Why;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;

use super::guard::{DENIED_MAX_MS, DeletionGuard};
use super::{ListedObject, WatchEvent, WatchedObject};

/// State of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchState {
    /// Nothing is known yet.
    #[default]
    Unlisted,
    /// All objects are known.
    Current,
    /// The API server does not know the kind.
    NoKind,
    /// The CustomResourceDefinition of the kind is being removed, together with its objects.
    Leaving,
    /// The permission to read the objects was lost; the known objects may be outdated.
    Denied,
}

/// State of one watch.
#[derive(Debug, Default)]
pub(super) struct WatchedKind {
    state: WatchState,
    known: BTreeMap<ObjectKey, KnownObject>,
    /// Objects of the list that is being received.
    listing: Option<BTreeSet<ObjectKey>>,
    missing: Option<MissingObjects>,
    /// Objects that have an older version in the current or last list, and the time since when there are such objects.
    older: BTreeSet<ObjectKey>,
    older_since_ms: Option<u64>,
    /// Objects that an earlier run knew; discarded after the first list.
    remembered: BTreeSet<ObjectKey>,
    /// Reason why the kind cannot be read.
    problem: Option<String>,
}

#[derive(Debug)]
struct KnownObject {
    uid: Arc<str>,
    version: Option<u64>,
}

/// Objects that are missing from a list.
#[derive(Debug)]
struct MissingObjects {
    objects: BTreeSet<ObjectKey>,
    since_ms: u64,
    /// The kind itself was absent. Then any number of missing objects is held: after the CustomResourceDefinition is
    /// restored, the objects are restored later.
    was_away: bool,
}

impl WatchedKind {
    pub(super) fn state(&self) -> &WatchState {
        &self.state
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn knows(&self, key: &ObjectKey) -> bool {
        self.known.contains_key(key)
    }

    pub(super) fn remember(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.remembered.extend(keys);
    }

    pub(super) fn problem(&self) -> Option<(Why, String)> {
        const UNTIL: &str =
            "until the API server serves the kind again, or Holdfast is restarted with --mass-delete-guard=off";
        let held = self.missing.as_ref().map_or(0, |missing| missing.objects.len());
        let (known, problem) = (self.known.len(), self.problem.as_deref());
        let (why, message) = match &self.state {
            WatchState::NoKind if held > 0 => (
                Why::Removed,
                format!("the API server no longer serves this kind; its {held} known objects stay in force {UNTIL}"),
            ),
            WatchState::NoKind => {
                (Why::NotServed, "the API server does not serve this kind; no objects of it are read".into())
            }
            WatchState::Leaving => (
                Why::Removed,
                format!(
                    "the CustomResourceDefinition of this kind is being deleted, and its objects with it; {held} of \
                     them stay {UNTIL}"
                ),
            ),
            WatchState::Denied => (
                Why::Denied,
                format!(
                    "Holdfast is no longer permitted to read this kind; its {known} known objects stay in force for \
                     at most one hour: {}",
                    problem.unwrap_or("denied")
                ),
            ),
            WatchState::Unlisted => {
                (Why::Unlisted, format!("not listed yet: {}", problem.unwrap_or("waiting for the list")))
            }
            WatchState::Current if held > 0 => (
                Why::Doubted,
                format!(
                    "{held} of {known} objects are missing from the last list; they stay in force until a second list \
                     confirms their deletion"
                ),
            ),
            WatchState::Current if self.older_since_ms.is_some() => (
                Why::Doubted,
                format!(
                    "{} of {known} objects are older in the last list than before; their newer versions stay in force \
                     until a second list confirms the older ones",
                    self.older.len()
                ),
            ),
            WatchState::Current => {
                (Why::Failing, format!("the watch fails; the known objects stay in force: {}", problem?))
            }
        };
        Some((why, message))
    }

    pub(super) fn on_event(&mut self, event: WatchEvent, guard: &DeletionGuard, now_ms: u64) -> Vec<Event> {
        match event {
            WatchEvent::ListBegins => {
                self.listing = Some(BTreeSet::new());
                self.older.clear();
                Vec::new()
            }
            WatchEvent::There(item) => self.there(*item),
            WatchEvent::ListEnds => self.listed(*guard, now_ms),
            WatchEvent::Deleted(key, uid) => self.deleted(&key, &uid, *guard, now_ms),
            WatchEvent::NoKind => self.gone(*guard, now_ms),
            WatchEvent::Leaving => {
                // The first list is completed, since no object is known without it.
                if self.state != WatchState::Unlisted {
                    self.listing = None;
                    self.state = WatchState::Leaving;
                    self.hold_all(now_ms);
                }
                Vec::new()
            }
            WatchEvent::Denied(why) => {
                (self.listing, self.problem) = (None, Some(why));
                // If the kind itself is absent, its objects are kept until the kind is back.
                if !matches!(self.state, WatchState::Unlisted | WatchState::NoKind | WatchState::Leaving) {
                    self.state = WatchState::Denied;
                    self.hold_all(now_ms);
                }
                Vec::new()
            }
            WatchEvent::Failed(why) => {
                (self.listing, self.problem) = (None, Some(why));
                Vec::new()
            }
            WatchEvent::Confirmed(present) => self.confirmed(&present),
        }
    }

    /// Processes that the API server does not know the kind. The removal of the CustomResourceDefinition does not mean
    /// that its objects are unwanted: routes would be served without their policies.
    fn gone(&mut self, guard: DeletionGuard, now_ms: u64) -> Vec<Event> {
        let is_first = self.state == WatchState::Unlisted;
        (self.listing, self.problem, self.state) = (None, None, WatchState::NoKind);
        let remembered = std::mem::take(&mut self.remembered);
        if !guard.is_on() {
            self.missing = None;
            let all: Vec<ObjectKey> = self.known.keys().cloned().collect();
            return self.forget(all);
        }
        let mut events = Vec::new();
        for key in remembered.into_iter().filter(|_| is_first) {
            self.known.insert(key.clone(), KnownObject { uid: "".into(), version: None });
            events.push(Event::Unread(key, "the API server no longer serves its kind".to_owned()));
        }
        self.hold_all(now_ms);
        events
    }

    fn there(&mut self, WatchedObject { key, uid, version, event }: WatchedObject) -> Vec<Event> {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        } else {
            self.problem = None;
        }
        if let Some(missing) = &mut self.missing {
            missing.objects.remove(&key);
            if missing.objects.is_empty() {
                self.missing = None;
            }
        }
        // A watch may deliver an older version of an object than the known one.
        let is_older =
            |known: &KnownObject| known.uid == uid && version.zip(known.version).is_some_and(|(new, old)| new < old);
        let is_same = |known: &KnownObject| known.uid == uid && version.is_some() && version == known.version;
        let known = self.known.get(&key);
        if self.listing.is_some() && known.is_some_and(is_older) {
            self.older.insert(key);
            return Vec::new();
        }
        if known.is_some_and(|known| is_older(known) || is_same(known)) {
            return Vec::new();
        }
        if self.older.remove(&key) && self.older.is_empty() && self.listing.is_none() {
            self.older_since_ms = None;
        }
        self.known.insert(key, KnownObject { uid, version });
        vec![event]
    }

    fn listed(&mut self, guard: DeletionGuard, now_ms: u64) -> Vec<Event> {
        // An end without a beginning belongs to a list that was aborted.
        let Some(listed) = self.listing.take() else { return Vec::new() };
        let is_back = matches!(self.state, WatchState::NoKind | WatchState::Leaving);
        self.state = WatchState::Current;
        self.problem = None;
        self.remembered.clear();
        self.older_since_ms = (!self.older.is_empty()).then(|| self.older_since_ms.unwrap_or(now_ms));
        let gone: BTreeSet<ObjectKey> = self.known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        let before = self.missing.take();
        let was_away = is_back || before.as_ref().is_some_and(|missing| missing.was_away);
        if gone.is_empty() || !guard.doubts(gone.len(), self.known.len(), was_away) {
            return self.forget(gone);
        }
        let since_ms = before.filter(|_| !is_back).map_or(now_ms, |missing| missing.since_ms);
        self.missing = Some(MissingObjects { objects: gone, since_ms, was_away });
        Vec::new()
    }

    /// Processes a deletion. A deletion with another UID is outdated: the object was created again since.
    fn deleted(&mut self, key: &ObjectKey, uid: &Arc<str>, guard: DeletionGuard, now_ms: u64) -> Vec<Event> {
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
        match self.known.get(key) {
            Some(known) if known.uid == *uid && self.state == WatchState::Leaving && guard.is_on() => {
                self.hold_all(now_ms);
                Vec::new()
            }
            Some(known) if known.uid == *uid => self.forget([key.clone()]),
            _ => Vec::new(),
        }
    }

    fn hold_all(&mut self, now_ms: u64) {
        let since_ms = self.missing.as_ref().map_or(now_ms, |missing| missing.since_ms);
        let objects: BTreeSet<ObjectKey> = self.known.keys().cloned().collect();
        self.missing = (!objects.is_empty()).then_some(MissingObjects { objects, since_ms, was_away: false });
    }

    pub(super) fn is_due(&self, guard: &DeletionGuard, now_ms: u64) -> bool {
        let waited = |since_ms: u64| now_ms.saturating_sub(since_ms) >= guard.held_ms();
        let missing_since_ms = self.missing.as_ref().map(|missing| missing.since_ms);
        // A list is requested in the state `Current` only: without permission the API server refuses it, and a list of
        // an unknown kind proves nothing.
        self.state == WatchState::Current && [missing_since_ms, self.older_since_ms].into_iter().flatten().any(waited)
    }

    fn confirmed(&mut self, present: &[ListedObject]) -> Vec<Event> {
        self.older_since_ms = None;
        for ListedObject { key, uid, version } in present {
            // The store of the API server was reset to an earlier state, so the listed version is the current one.
            if let Some(known) = self.known.get_mut(key)
                && known.uid == *uid
                && known.version > *version
            {
                known.version = None;
            }
        }
        let Some(MissingObjects { objects, .. }) = self.missing.take() else { return Vec::new() };
        let present: BTreeSet<&ObjectKey> = present.iter().map(|present| &present.key).collect();
        self.forget(objects.into_iter().filter(|key| !present.contains(key)))
    }

    pub(super) fn tick(&mut self, _guard: &DeletionGuard, now_ms: u64) -> Vec<Event> {
        let forgotten = self.state == WatchState::Denied
            && self.missing.as_ref().is_some_and(|missing| now_ms.saturating_sub(missing.since_ms) >= DENIED_MAX_MS);
        if !forgotten {
            return Vec::new();
        }
        self.missing = None;
        let all: Vec<ObjectKey> = self.known.keys().cloned().collect();
        self.forget(all)
    }

    fn forget(&mut self, gone: impl IntoIterator<Item = ObjectKey>) -> Vec<Event> {
        let mut events = Vec::new();
        for key in gone {
            self.known.remove(&key);
            if let Some(missing) = &mut self.missing {
                missing.objects.remove(&key);
            }
            events.push(Event::Deleted(key));
        }
        events
    }
}
