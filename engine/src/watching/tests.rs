//! What is believed of lists and watches.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::apis::Body;
use crate::object::{Metadata, Object};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

fn item(name: &str, uid: &str, version: u64) -> Item {
    let metadata = Metadata { uid: uid.into(), ..Metadata::default() };
    let object = Object { key: key(name), metadata, body: Body::Namespace, source: None };
    let event = Event::Applied(Box::new(object), Vec::new());
    Item { key: key(name), uid: uid.into(), version: Some(version), event }
}

fn there(name: &str, uid: &str, version: u64) -> Word {
    Word::There(Box::new(item(name, uid, version)))
}

/// One watch, and what reached the engine.
struct World {
    watching: Watching,
    engine: BTreeMap<ObjectKey, Arc<str>>,
    events: usize,
}

impl World {
    fn new(guard: bool) -> Self {
        let watching = Watching::new(["Namespace".into()], Guard::new(guard));
        Self { watching, engine: BTreeMap::new(), events: 0 }
    }

    fn take(&mut self, events: Vec<Event>) {
        self.events += events.len();
        for event in events {
            match event {
                Event::Applied(object, _) => drop(self.engine.insert(object.key.clone(), object.metadata.uid.clone())),
                Event::Deleted(key) => drop(self.engine.remove(&key)),
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn hear(&mut self, word: Word, now_ms: u64) {
        let events = self.watching.hear(0, word, now_ms);
        self.take(events);
        assert_eq!(self.watching.objects(), self.engine.len());
    }

    fn list(&mut self, names: &[&str], now_ms: u64) {
        self.hear(Word::ListBegins, now_ms);
        for name in names {
            self.hear(there(name, "u", 1), now_ms);
        }
        self.hear(Word::ListEnds, now_ms);
    }

    fn tick(&mut self, now_ms: u64) {
        let events = self.watching.tick(now_ms);
        self.take(events);
    }

    fn names(&self) -> Vec<String> {
        self.engine.keys().map(|key| key.name.to_string()).collect()
    }
}

const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const MINUTE: u64 = 60_000;

#[test]
fn nothing_is_ready_before_each_kind_was_listed_or_is_not_known() {
    let mut watching = Watching::new(["A".into(), "B".into(), "C".into()], Guard::new(true));
    for word in [Word::ListBegins, there("a", "u", 1), Word::ListEnds] {
        watching.hear(0, word, 0);
    }
    watching.hear(1, Word::NoKind, 0);
    watching.hear(2, Word::Denied("forbidden".into()), 0);
    assert!(!watching.is_ready(), "what may not be read is not known to be empty");
    let problems: Vec<_> =
        watching.problems().into_iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
    assert_eq!(
        problems,
        ["B: the API server does not know this kind; it is not read", "C: not listed yet: forbidden",]
    );
    watching.hear(2, Word::ListBegins, 0);
    assert!(!watching.is_ready());
    watching.hear(2, Word::ListEnds, 0);
    assert!(watching.is_ready());
}

#[test]
fn an_equal_list_says_nothing_and_a_shorter_one_deletes() {
    let mut world = World::new(true);
    world.list(&["a", "b", "c"], 0);
    assert_eq!((world.names().join(" "), world.events), ("a b c".into(), 3));
    world.list(&["a", "b", "c"], 1);
    assert_eq!(world.events, 3);
    world.list(&["a"], 2);
    assert_eq!((world.names().join(" "), world.events), ("a".into(), 5));
}

#[test]
fn older_versions_and_deletions_of_predecessors_are_not_believed() {
    let mut world = World::new(true);
    world.list(&[], 0);
    world.hear(there("a", "first", 5), 0);
    world.hear(there("a", "first", 4), 0);
    world.hear(there("a", "first", 5), 0);
    assert_eq!(world.events, 1);
    world.hear(there("a", "second", 9), 0);
    world.hear(Word::Deleted(key("a"), "first".into()), 0);
    assert_eq!(world.engine.get(&key("a")).map(|uid| &**uid), Some("second"));
    world.hear(Word::Deleted(key("a"), "second".into()), 0);
    world.hear(Word::Deleted(key("a"), "second".into()), 0);
    assert_eq!(world.events, 3);
}

#[test]
fn a_list_that_is_suddenly_empty_is_held_and_confirmed() {
    let mut world = World::new(true);
    world.list(&MANY, 0);
    world.list(&[], 1_000);
    assert_eq!(world.names().len(), 12);
    assert!(world.watching.problems()[0].1.starts_with("12 objects of 12 are missing"));
    assert!(world.watching.to_confirm(1_000 + MINUTE - 1).is_empty());
    // One of them shows itself, another is deleted in truth.
    world.hear(there("a", "u", 2), 2_000);
    world.hear(Word::Deleted(key("b"), "u".into()), 2_000);
    assert_eq!(world.watching.to_confirm(1_000 + MINUTE), [0]);
    world.hear(Word::Confirmed(vec![key("c")]), 1_000 + MINUTE);
    assert_eq!(world.names(), ["a", "c"]);
    assert!(world.watching.problems().is_empty());
}

#[test]
fn a_list_that_is_long_again_ends_the_hold() {
    let mut world = World::new(true);
    world.list(&MANY, 0);
    world.list(&["a"], 0);
    world.list(&MANY, 1);
    assert!(world.watching.problems().is_empty());
    assert!(world.watching.to_confirm(10 * MINUTE).is_empty());
    assert_eq!(world.names(), MANY);
}

#[test]
fn without_the_guard_a_list_is_believed() {
    let mut world = World::new(false);
    world.list(&MANY, 0);
    world.list(&[], 1);
    assert!(world.names().is_empty());
}

#[test]
fn few_objects_may_always_be_missing() {
    let mut world = World::new(true);
    world.list(&MANY[..10], 0);
    world.list(&[], 1);
    assert!(world.names().is_empty());
}

#[test]
fn a_kind_that_is_gone_holds_its_objects_until_that_is_confirmed() {
    let mut world = World::new(true);
    world.list(&["a"], 0);
    world.hear(Word::NoKind, 0);
    assert_eq!((world.names().len(), world.watching.is_ready()), (1, true));
    assert_eq!(world.watching.to_confirm(MINUTE), [0]);
    world.hear(Word::Confirmed(Vec::new()), MINUTE);
    assert!(world.names().is_empty());
    world.list(&["a", "b"], 2 * MINUTE);
    assert_eq!(world.names(), ["a", "b"]);
    assert!(world.watching.problems().is_empty());
}

#[test]
fn what_may_no_longer_be_read_stays_for_an_hour() {
    let mut world = World::new(true);
    world.list(&["a"], 0);
    world.hear(Word::Denied("forbidden".into()), 0);
    world.hear(Word::Denied("forbidden".into()), MINUTE);
    assert!(world.watching.to_confirm(2 * MINUTE).is_empty());
    world.tick(DENIED_MAX_MS - 1);
    assert_eq!(world.names(), ["a"]);
    world.tick(DENIED_MAX_MS);
    assert!(world.names().is_empty());
    world.list(&["a"], DENIED_MAX_MS + 1);
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn a_list_that_breaks_off_says_nothing() {
    let mut world = World::new(true);
    world.list(&["a", "b"], 0);
    world.hear(Word::ListBegins, 1);
    world.hear(there("a", "u", 1), 1);
    world.hear(Word::Failed("connection reset".into()), 1);
    world.hear(Word::ListEnds, 1);
    assert_eq!(world.names(), ["a", "b"]);
    world.list(&["b"], 2);
    assert_eq!(world.names(), ["b"]);
}

/// What an API server with a bad memory says: each change may be lost, told twice, or told late.
#[derive(Clone, Debug)]
enum Change {
    Apply(u8),
    Delete(u8),
    Again(u8),
    Lost(u8),
    LostDelete(u8),
}

fn change() -> impl Strategy<Value = Change> {
    (0..6_u8, 0..5_u8).prop_map(|(which, name)| match which {
        0 | 1 => Change::Apply(name),
        2 => Change::Delete(name),
        3 => Change::Again(name),
        4 => Change::Lost(name),
        _ => Change::LostDelete(name),
    })
}

proptest! {
    #[test]
    fn whatever_was_heard_a_list_sets_it_right(changes in proptest::collection::vec(change(), 0..60)) {
        let mut world = World::new(true);
        let (mut truth, mut version) = (BTreeMap::<String, (String, u64)>::new(), 1_u64);
        let mut past: Vec<(String, String, u64)> = Vec::new();
        world.list(&[], 0);
        for change in changes {
            version += 1;
            let (name, told, deleted) = match change {
                Change::Apply(name) => (name, true, false),
                Change::Lost(name) => (name, false, false),
                Change::Delete(name) => (name, true, true),
                Change::LostDelete(name) => (name, false, true),
                Change::Again(which) => {
                    if let Some((name, uid, version)) = past.get(usize::from(which) * 3 % past.len().max(1)) {
                        world.hear(there(name, uid, *version), 0);
                    }
                    continue;
                }
            };
            let name = name.to_string();
            if deleted {
                if let Some((uid, _)) = truth.remove(&name) && told {
                    world.hear(Word::Deleted(key(&name), uid.as_str().into()), 0);
                }
                continue;
            }
            let uid = truth.get(&name).map_or_else(|| format!("u{version}"), |(uid, _)| uid.clone());
            truth.insert(name.clone(), (uid.clone(), version));
            past.push((name.clone(), uid.clone(), version));
            if told {
                world.hear(there(&name, &uid, version), 0);
            }
        }
        world.hear(Word::ListBegins, 0);
        for (name, (uid, version)) in &truth {
            world.hear(there(name, uid, *version), 0);
        }
        world.hear(Word::ListEnds, 0);
        let believed: Vec<_> = world.engine.iter().map(|(key, uid)| (key.name.to_string(), uid.to_string())).collect();
        let truth: Vec<_> = truth.into_iter().map(|(name, (uid, _))| (name, uid)).collect();
        prop_assert_eq!(believed, truth);
    }
}
