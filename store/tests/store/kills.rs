//! Tests with a process that is killed at random while it writes, two hundred times: acknowledged data is there, and
//! each commit is there as a whole or not at all.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use holdfast_store::{Batch, Change, LastValidStore, SledStore};

use crate::common::{Contents, key, object, options, resource, scope, set_aside};

/// Set in the process that writes and is killed: the folder that it writes to.
const FOLDER: &str = "HOLDFAST_TEST_STORE_FOLDER";
const KILLS: u64 = 200;
const OBJECTS: usize = 12;

/// Returns a commit in which all data has its number.
fn numbered(number: i64) -> Batch {
    let at = scope("infra/public");
    let sized = |n: usize| format!("{number} {n} {}", "x".repeat(n * 900));
    let promote = |batch: Batch, n| batch.with(Change::Promote(at.clone(), object(&format!("o{n}"), number, sized(n))));
    let batch = (0..OBJECTS).fold(Batch::default(), promote);
    let large = resource("large", format!("{number} {}", "y".repeat(150_000)));
    batch.with(Change::Acknowledge(at.clone(), vec![large, resource("small", number.to_string())]))
}

/// Returns the number that all data in a store has.
fn number(store: &SledStore) -> i64 {
    let at = scope("infra/public");
    let Some(number) = store.versions(&at, &key("o0")).unwrap().first().map(|newest| newest.generation) else {
        assert_eq!(Contents::of(store), Contents::default());
        return 0;
    };
    let expected = |number| match &numbered(number).into_changes()[..] {
        [promoted @ .., Change::Acknowledge(_, resources)] => (promoted.to_vec(), resources.clone()),
        _ => unreachable!(),
    };
    let (promoted, resources) = expected(number);
    assert_eq!(promoted.len(), OBJECTS);
    for change in promoted {
        let Change::Promote(_, object) = change else { unreachable!() };
        assert!(store.versions(&at, &object.key).unwrap()[0] == object, "{}: not of commit {number}", object.key);
    }
    assert!(store.configuration(&at).unwrap() == resources, "not of commit {number}");
    number
}

#[test]
fn the_one_that_is_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let _ = writeln!(std::io::stderr(), "\nopening");
    let mut store = SledStore::open(&folder, &options(None)).unwrap().store;
    let _ = writeln!(std::io::stderr(), "opened");
    let mut last = store.versions(&scope("infra/public"), &key("o0")).unwrap().first().map_or(0, |it| it.generation);
    // The process runs until it is killed; the limit ends it where the test fails to kill it.
    for _ in 0..100_000 {
        last += 1;
        store.commit(numbered(last)).unwrap();
        let written = writeln!(std::io::stderr(), "acknowledged {last}");
        if written.is_err() {
            return;
        }
    }
}

/// Starts a process, kills it some time after it prints `word`, and returns the number of its last acknowledgement.
fn killed(folder: &Path, word: &'static str, after: Duration) -> i64 {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "kills::the_one_that_is_killed", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines.find(|line| line.as_ref().is_ok_and(|line| line == word));
    found.unwrap().unwrap();
    let reader = std::thread::spawn(move || {
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        numbers.max().unwrap_or(0)
    });
    // The test varies the moment, so the length of the sleep is intended.
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn killed_at_random() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let (mut last, mut grown) = (0, 0);
    for kill in 0..KILLS {
        // One in four is killed while it opens the store, the others while they write.
        let word = if kill % 4 == 0 { "opening" } else { "opened" };
        let micros =
            blake3::hash(&kill.to_le_bytes()).as_bytes()[..2].iter().fold(0, |all, byte| all * 256 + u64::from(*byte));
        let acknowledged = killed(&folder, word, Duration::from_micros(micros)).max(last);
        let opened = SledStore::open(&folder, &options(None)).unwrap();
        assert!(opened.notices.is_empty(), "kill {kill}: {:?}", opened.notices);
        let found = number(&opened.store);
        assert!(found >= acknowledged, "kill {kill}: {found} is there, {acknowledged} was acknowledged");
        grown += u64::from(found > last);
        last = found;
    }
    assert!(grown > KILLS / 4, "only {grown} of {KILLS} lived long enough to write");
    assert!(set_aside(&folder).is_empty());
}
