//! One watch: which objects it told of, and which of them are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::guard::{DENIED_MAX_MS, Guard};
use super::{Item, Word};
use crate::engine::Event;

/// How a watch stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known yet.
    #[default]
    Unlisted,
    /// All objects are known.
    Current,
    /// The API server does not know the kind.
    NoKind,
    /// The objects may no longer be read; what is known of them is from before.
    Denied,
}

/// See the room.
#[derive(Debug, Default)]
pub(super) struct Kind {
    standing: Standing,
    known: BTreeMap<ObjectKey, Known>,
    /// What the list that is being read has so far.
    listing: Option<BTreeSet<ObjectKey>>,
    missing: Option<Missing>,
    /// Why it cannot be read.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Known {
    uid: Arc<str>,
    version: Option<u64>,
}

/// Objects that a list should have had.
#[derive(Debug)]
struct Missing {
    objects: BTreeSet<ObjectKey>,
    since_ms: u64,
}

impl Kind {
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn knows(&self, key: &ObjectKey) -> bool {
        self.known.contains_key(key)
    }

    pub(super) fn problem(&self) -> Option<String> {
        let held = self.missing.as_ref().map(|missing| missing.objects.len());
        let trouble = self.trouble.as_deref();
        match (&self.standing, held) {
            (Standing::NoKind, Some(held)) => {
                Some(format!("the API server does not know this kind any more; {held} objects of it are held"))
            }
            (Standing::NoKind, None) => Some("the API server does not know this kind; it is not read".into()),
            (Standing::Denied, _) => Some(format!(
                "may no longer be read; the {} objects that were known are held for an hour at most: {}",
                self.known.len(),
                trouble.unwrap_or("denied")
            )),
            (Standing::Unlisted, _) => Some(format!("not listed yet: {}", trouble.unwrap_or("the list is awaited"))),
            (Standing::Current, Some(held)) => Some(format!(
                "{held} objects of {} are missing from the last list; they are held until a second list confirms it",
                self.known.len()
            )),
            (Standing::Current, None) => {
                trouble.map(|why| format!("cannot be watched now; what is known stays: {why}"))
            }
        }
    }

    pub(super) fn hear(&mut self, word: Word, guard: &Guard, now_ms: u64) -> Vec<Event> {
        match word {
            Word::ListBegins => {
                self.listing = Some(BTreeSet::new());
                Vec::new()
            }
            Word::There(item) => self.there(*item),
            Word::ListEnds => self.listed(*guard, now_ms),
            Word::Deleted(key, uid) => self.deleted(&key, &uid),
            Word::NoKind => {
                (self.listing, self.trouble, self.standing) = (None, None, Standing::NoKind);
                self.hold_all(now_ms);
                Vec::new()
            }
            Word::Denied(why) => {
                (self.listing, self.trouble) = (None, Some(why));
                if self.standing != Standing::Unlisted {
                    self.standing = Standing::Denied;
                    self.hold_all(now_ms);
                }
                Vec::new()
            }
            Word::Failed(why) => {
                (self.listing, self.trouble) = (None, Some(why));
                Vec::new()
            }
            Word::Confirmed(present) => self.confirmed(&present),
        }
    }

    fn there(&mut self, Item { key, uid, version, event }: Item) -> Vec<Event> {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        } else {
            self.trouble = None;
        }
        if let Some(missing) = &mut self.missing {
            missing.objects.remove(&key);
            if missing.objects.is_empty() {
                self.missing = None;
            }
        }
        // A watch may go back in time; of one object the newer version is known already.
        let is_older =
            |known: &Known| known.uid == uid && version.zip(known.version).is_some_and(|(new, old)| new < old);
        let is_same = |known: &Known| known.uid == uid && version.is_some() && version == known.version;
        if self.known.get(&key).is_some_and(|known| is_older(known) || is_same(known)) {
            return Vec::new();
        }
        self.known.insert(key, Known { uid, version });
        vec![event]
    }

    fn listed(&mut self, guard: Guard, now_ms: u64) -> Vec<Event> {
        // An end without a beginning is of a list that was given up.
        let Some(listed) = self.listing.take() else { return Vec::new() };
        self.standing = Standing::Current;
        self.trouble = None;
        let gone: BTreeSet<ObjectKey> = self.known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        if guard.doubts(gone.len(), self.known.len()) {
            let since_ms = self.missing.as_ref().map_or(now_ms, |missing| missing.since_ms);
            self.missing = Some(Missing { objects: gone, since_ms });
            return Vec::new();
        }
        self.missing = None;
        self.forget(gone)
    }

    /// A deletion of an object that was created anew since is an old one.
    fn deleted(&mut self, key: &ObjectKey, uid: &Arc<str>) -> Vec<Event> {
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
        match self.known.get(key) {
            Some(known) if known.uid == *uid => self.forget([key.clone()]),
            _ => Vec::new(),
        }
    }

    fn hold_all(&mut self, now_ms: u64) {
        let since_ms = self.missing.as_ref().map_or(now_ms, |missing| missing.since_ms);
        let objects: BTreeSet<ObjectKey> = self.known.keys().cloned().collect();
        self.missing = (!objects.is_empty()).then_some(Missing { objects, since_ms });
    }

    pub(super) fn is_due(&self, guard: &Guard, now_ms: u64) -> bool {
        let waited = |missing: &Missing| now_ms.saturating_sub(missing.since_ms) >= guard.held_ms();
        // A list of what may not be read would be refused too.
        self.standing != Standing::Denied && self.missing.as_ref().is_some_and(waited)
    }

    fn confirmed(&mut self, present: &[ObjectKey]) -> Vec<Event> {
        let Some(Missing { objects, .. }) = self.missing.take() else { return Vec::new() };
        let present: BTreeSet<&ObjectKey> = present.iter().collect();
        self.forget(objects.into_iter().filter(|key| !present.contains(key)))
    }

    pub(super) fn tick(&mut self, _guard: &Guard, now_ms: u64) -> Vec<Event> {
        let forgotten = self.standing == Standing::Denied
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
