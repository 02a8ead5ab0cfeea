//! Tests of lists and watches: the events that reach the engine.

use std::collections::BTreeMap;

use holdfast_api::apis::Body;
use holdfast_api::object::{Metadata, Object};
use proptest::prelude::*;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

fn item(name: &str, uid: &str, version: u64) -> WatchedObject {
    let metadata = Metadata { uid: uid.into(), ..Metadata::default() };
    let object = Object { key: key(name), metadata, body: Body::Namespace, source: None };
    let event = Event::Applied(Box::new(object), Vec::new());
    WatchedObject { key: key(name), uid: uid.into(), version: Some(version), event }
}

fn there(name: &str, uid: &str, version: u64) -> WatchEvent {
    WatchEvent::There(Box::new(item(name, uid, version)))
}

fn present(names: &[&str], version: u64) -> Vec<ListedObject> {
    names.iter().map(|name| ListedObject { key: key(name), uid: "u".into(), version: Some(version) }).collect()
}

/// A watch and the objects that the engine has.
struct WatchWithEngine {
    watching: Watching,
    engine: BTreeMap<ObjectKey, Arc<str>>,
    events: usize,
}

impl WatchWithEngine {
    fn new(guard: bool) -> Self {
        let watching = Watching::new(["Namespace".into()], DeletionGuard::new(guard));
        Self { watching, engine: BTreeMap::new(), events: 0 }
    }

    fn take(&mut self, events: Vec<Event>) {
        self.events += events.len();
        for event in events {
            match event {
                Event::Applied(object, _) => drop(self.engine.insert(object.key.clone(), object.metadata.uid.clone())),
                Event::Deleted(key) => drop(self.engine.remove(&key)),
                Event::Unread(key, _) => drop(self.engine.insert(key, "stored".into())),
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn on_event(&mut self, event: WatchEvent, now_ms: u64) {
        let events = self.watching.on_event(0, event, now_ms);
        self.take(events);
        assert_eq!(self.watching.objects(), self.engine.len());
    }

    fn list(&mut self, names: &[&str], now_ms: u64) {
        self.on_event(WatchEvent::ListBegins, now_ms);
        for name in names {
            self.on_event(there(name, "u", 1), now_ms);
        }
        self.on_event(WatchEvent::ListEnds, now_ms);
    }

    fn tick(&mut self, now_ms: u64) {
        let events = self.watching.tick(now_ms);
        self.take(events);
    }

    fn why(&self) -> Vec<Why> {
        self.watching.problems().into_iter().map(|problem| problem.why).collect()
    }

    fn names(&self) -> Vec<String> {
        self.engine.keys().map(|key| key.name.to_string()).collect()
    }
}

const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const MINUTE: u64 = 60_000;

#[test]
fn nothing_is_ready_before_each_kind_was_listed_or_is_not_known() {
    let mut watching = Watching::new(["A".into(), "B".into(), "C".into()], DeletionGuard::new(true));
    for event in [WatchEvent::ListBegins, there("a", "u", 1), WatchEvent::ListEnds] {
        watching.on_event(0, event, 0);
    }
    watching.on_event(1, WatchEvent::NoKind, 0);
    watching.on_event(2, WatchEvent::Denied("forbidden".into()), 0);
    assert!(!watching.is_ready(), "what may not be read is not known to be empty");
    let problems: Vec<_> =
        watching.problems().into_iter().map(|problem| format!("{}: {}", problem.of, problem.message)).collect();
    assert_eq!(
        problems,
        ["B: the API server does not serve this kind; no objects of it are read", "C: not listed yet: forbidden",]
    );
    watching.on_event(2, WatchEvent::ListBegins, 0);
    assert!(!watching.is_ready());
    watching.on_event(2, WatchEvent::ListEnds, 0);
    assert!(watching.is_ready());
}

#[test]
fn an_equal_list_makes_no_events_and_a_shorter_one_deletes() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a", "b", "c"], 0);
    assert_eq!((world.names().join(" "), world.events), ("a b c".into(), 3));
    world.list(&["a", "b", "c"], 1);
    assert_eq!(world.events, 3);
    world.list(&["a"], 2);
    assert_eq!((world.names().join(" "), world.events), ("a".into(), 5));
}

#[test]
fn older_versions_and_deletions_of_predecessors_are_not_believed() {
    let mut world = WatchWithEngine::new(true);
    world.list(&[], 0);
    world.on_event(there("a", "first", 5), 0);
    world.on_event(there("a", "first", 4), 0);
    world.on_event(there("a", "first", 5), 0);
    assert_eq!(world.events, 1);
    world.on_event(there("a", "second", 9), 0);
    world.on_event(WatchEvent::Deleted(key("a"), "first".into()), 0);
    assert_eq!(world.engine.get(&key("a")).map(|uid| &**uid), Some("second"));
    world.on_event(WatchEvent::Deleted(key("a"), "second".into()), 0);
    world.on_event(WatchEvent::Deleted(key("a"), "second".into()), 0);
    assert_eq!(world.events, 3);
}

#[test]
fn a_list_that_is_suddenly_empty_is_held_and_confirmed() {
    let mut world = WatchWithEngine::new(true);
    world.list(&MANY, 0);
    world.list(&[], 1_000);
    assert_eq!(world.names().len(), 12);
    assert!(world.watching.problems()[0].message.starts_with("12 of 12 objects are missing"));
    assert!(world.watching.to_confirm(1_000 + MINUTE - 1).is_empty());
    // An object is received again, and the deletion of another object is received.
    world.on_event(there("a", "u", 2), 2_000);
    world.on_event(WatchEvent::Deleted(key("b"), "u".into()), 2_000);
    assert_eq!(world.watching.to_confirm(1_000 + MINUTE), [0]);
    world.on_event(WatchEvent::Confirmed(present(&["c"], 1)), 1_000 + MINUTE);
    assert_eq!(world.names(), ["a", "c"]);
    assert!(world.watching.problems().is_empty());
}

#[test]
fn a_list_that_is_long_again_ends_the_hold() {
    let mut world = WatchWithEngine::new(true);
    world.list(&MANY, 0);
    world.list(&["a"], 0);
    world.list(&MANY, 1);
    assert!(world.watching.problems().is_empty());
    assert!(world.watching.to_confirm(10 * MINUTE).is_empty());
    assert_eq!(world.names(), MANY);
}

#[test]
fn without_the_guard_a_list_is_believed() {
    let mut world = WatchWithEngine::new(false);
    world.list(&MANY, 0);
    world.list(&[], 1);
    assert!(world.names().is_empty());
}

#[test]
fn few_objects_may_always_be_missing() {
    let mut world = WatchWithEngine::new(true);
    world.list(&MANY[..10], 0);
    world.list(&[], 1);
    assert!(world.names().is_empty());
}

#[test]
fn a_kind_that_is_gone_holds_its_objects_until_it_is_back() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a", "b"], 0);
    world.on_event(WatchEvent::NoKind, 0);
    assert_eq!((world.names().len(), world.watching.is_ready()), (2, true));
    assert!(world.watching.to_confirm(1000 * MINUTE).is_empty(), "what is not known says nothing of its objects");
    assert_eq!(world.why(), [Why::Removed]);
    // After the definition of the kind is restored, its objects are restored one by one. One object is deleted on
    // purpose.
    world.list(&[], 2 * MINUTE);
    assert_eq!((world.names().len(), world.why()), (2, vec![Why::Doubted]));
    world.on_event(there("b", "anew", 9), 2 * MINUTE);
    world.on_event(WatchEvent::ListBegins, 2 * MINUTE + 1);
    world.on_event(there("b", "anew", 9), 2 * MINUTE + 1);
    world.on_event(WatchEvent::ListEnds, 2 * MINUTE + 1);
    assert_eq!(world.names(), ["a", "b"], "a list that is made meanwhile changes nothing");
    assert!(world.watching.to_confirm(3 * MINUTE - 1).is_empty());
    assert_eq!(world.watching.to_confirm(3 * MINUTE), [0]);
    world.on_event(WatchEvent::Confirmed(present(&["b"], 9)), 3 * MINUTE);
    assert_eq!(world.names(), ["b"]);
    assert!(world.why().is_empty());
}

#[test]
fn objects_that_go_with_their_definition_stay() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a", "b", "c"], 0);
    world.on_event(WatchEvent::Deleted(key("a"), "u".into()), 0);
    world.on_event(WatchEvent::Leaving, 1);
    for name in ["b", "c"] {
        world.on_event(WatchEvent::Deleted(key(name), "u".into()), 1);
    }
    assert_eq!((world.names(), world.why()), (vec!["b".to_owned(), "c".to_owned()], vec![Why::Removed]));
    // A list of the remaining objects proves nothing either, if `Leaving` is received before the end of the list.
    world.on_event(WatchEvent::ListBegins, 2);
    world.on_event(WatchEvent::Leaving, 2);
    world.on_event(WatchEvent::ListEnds, 2);
    world.on_event(WatchEvent::NoKind, 3);
    world.on_event(WatchEvent::Denied("forbidden".into()), 4);
    world.tick(DENIED_MAX_MS + 5);
    assert_eq!((world.names().len(), world.why()), (2, vec![Why::Removed]));
    world.list(&["b", "c"], DENIED_MAX_MS + 6);
    assert!(world.why().is_empty());
    world.on_event(WatchEvent::Deleted(key("b"), "u".into()), DENIED_MAX_MS + 7);
    assert_eq!(world.names(), ["c"], "a deletion is one again");
}

#[test]
fn without_the_guard_a_kind_that_is_gone_takes_its_objects_along() {
    let mut world = WatchWithEngine::new(false);
    world.list(&["a", "b"], 0);
    world.on_event(WatchEvent::Leaving, 0);
    world.on_event(WatchEvent::Deleted(key("a"), "u".into()), 0);
    assert_eq!(world.names(), ["b"]);
    world.on_event(WatchEvent::NoKind, 0);
    assert!(world.names().is_empty());
    world.watching.remember(0, [key("stored")]);
    world.on_event(WatchEvent::NoKind, 1);
    assert!(world.names().is_empty());
}

#[test]
fn what_an_earlier_run_knew_stays_where_its_kind_is_gone_and_nowhere_else() {
    let mut world = WatchWithEngine::new(true);
    world.watching.remember(0, [key("stored")]);
    world.on_event(WatchEvent::Failed("away".into()), 0);
    world.on_event(WatchEvent::NoKind, 0);
    assert_eq!((world.names(), world.why()), (vec!["stored".to_owned()], vec![Why::Removed]));
    world.list(&["stored", "a"], 0);
    assert_eq!(world.engine.get(&key("stored")).map(|uid| &**uid), Some("u"), "what is read takes its place");
    assert!(world.why().is_empty());

    let mut world = WatchWithEngine::new(true);
    world.watching.remember(0, [key("stored")]);
    world.list(&["a"], 0);
    world.on_event(WatchEvent::NoKind, 0);
    assert_eq!(world.names(), ["a"], "it was deleted while nobody looked");
}

#[test]
fn a_store_that_went_back_in_time_is_believed_when_a_second_list_confirms_it() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a", "b"], 0);
    world.on_event(there("a", "u", 9), 0);
    let events = world.events;
    world.list(&["a", "b"], 1);
    assert_eq!((world.events, world.why()), (events, vec![Why::Doubted]));
    assert_eq!(world.watching.to_confirm(1 + MINUTE), [0]);
    world.on_event(WatchEvent::Confirmed(present(&["a", "b"], 1)), 1 + MINUTE);
    world.list(&["a", "b"], 2 + MINUTE);
    assert_eq!((world.events, world.why()), (events + 1, vec![]));

    // A cache that only lags behind is doubted too, until a newer version of the object is received.
    world.on_event(there("a", "u", 12), 2 + MINUTE);
    world.list(&["a", "b"], 3 + MINUTE);
    assert_eq!(world.why(), [Why::Doubted]);
    world.on_event(there("a", "u", 13), 3 + MINUTE);
    assert!(world.why().is_empty() && world.watching.to_confirm(9 * MINUTE).is_empty());
}

#[test]
fn what_may_no_longer_be_read_stays_for_an_hour() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a"], 0);
    world.on_event(WatchEvent::Denied("forbidden".into()), 0);
    world.on_event(WatchEvent::Denied("forbidden".into()), MINUTE);
    assert!(world.watching.to_confirm(2 * MINUTE).is_empty());
    world.tick(DENIED_MAX_MS - 1);
    assert_eq!(world.names(), ["a"]);
    world.tick(DENIED_MAX_MS);
    assert!(world.names().is_empty());
    world.list(&["a"], DENIED_MAX_MS + 1);
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn an_interrupted_list_changes_nothing() {
    let mut world = WatchWithEngine::new(true);
    world.list(&["a", "b"], 0);
    world.on_event(WatchEvent::ListBegins, 1);
    world.on_event(there("a", "u", 1), 1);
    world.on_event(WatchEvent::Failed("connection reset".into()), 1);
    world.on_event(WatchEvent::ListEnds, 1);
    assert_eq!(world.names(), ["a", "b"]);
    world.list(&["b"], 2);
    assert_eq!(world.names(), ["b"]);
}

/// Events of an unreliable API server: each change may be lost, repeated or late.
#[derive(Clone, Debug)]
enum ServerEvent {
    Apply(u8),
    Delete(u8),
    Again(u8),
    Lost(u8),
    LostDelete(u8),
}

fn change() -> impl Strategy<Value = ServerEvent> {
    (0..6_u8, 0..5_u8).prop_map(|(which, name)| match which {
        0 | 1 => ServerEvent::Apply(name),
        2 => ServerEvent::Delete(name),
        3 => ServerEvent::Again(name),
        4 => ServerEvent::Lost(name),
        _ => ServerEvent::LostDelete(name),
    })
}

proptest! {
    #[test]
    fn a_list_corrects_any_earlier_events(changes in proptest::collection::vec(change(), 0..60)) {
        let mut world = WatchWithEngine::new(true);
        let (mut truth, mut version) = (BTreeMap::<String, (String, u64)>::new(), 1_u64);
        let mut past: Vec<(String, String, u64)> = Vec::new();
        world.list(&[], 0);
        for change in changes {
            version += 1;
            let (name, delivered, deleted) = match change {
                ServerEvent::Apply(name) => (name, true, false),
                ServerEvent::Lost(name) => (name, false, false),
                ServerEvent::Delete(name) => (name, true, true),
                ServerEvent::LostDelete(name) => (name, false, true),
                ServerEvent::Again(which) => {
                    if let Some((name, uid, version)) = past.get(usize::from(which) * 3 % past.len().max(1)) {
                        world.on_event(there(name, uid, *version), 0);
                    }
                    continue;
                }
            };
            let name = name.to_string();
            if deleted {
                if let Some((uid, _)) = truth.remove(&name) && delivered {
                    world.on_event(WatchEvent::Deleted(key(&name), uid.as_str().into()), 0);
                }
                continue;
            }
            let uid = truth.get(&name).map_or_else(|| format!("u{version}"), |(uid, _)| uid.clone());
            truth.insert(name.clone(), (uid.clone(), version));
            past.push((name.clone(), uid.clone(), version));
            if delivered {
                world.on_event(there(&name, &uid, version), 0);
            }
        }
        world.on_event(WatchEvent::ListBegins, 0);
        for (name, (uid, version)) in &truth {
            world.on_event(there(name, uid, *version), 0);
        }
        world.on_event(WatchEvent::ListEnds, 0);
        let believed: Vec<_> = world.engine.iter().map(|(key, uid)| (key.name.to_string(), uid.to_string())).collect();
        let truth: Vec<_> = truth.into_iter().map(|(name, (uid, _))| (name, uid)).collect();
        prop_assert_eq!(believed, truth);
    }
}
