//! Tests with a full disk: a commit is an error, existing data is kept, and later commits work again.
//!
//! One test uses a limit on the size of files, which every system has; another one uses a small file system of its own,
//! where the machine lets users create one.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use holdfast_store::{LastValidStore, SledStore, StoreError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{Contents, object, options, promote, reopen, scope, set_aside};

/// Set in the process with the full disk: the folder that it writes to.
const FOLDER: &str = "HOLDFAST_TEST_FULL_FOLDER";
/// Also set where the folder is a file system of its own.
const SMALL: &str = "HOLDFAST_TEST_FULL_SMALL";

fn payload(number: u8) -> Vec<u8> {
    (0..200_000u32).map(|n| blake3::hash(&[&n.to_le_bytes()[..], &[number]].concat()).as_bytes()[0]).collect()
}

/// A disk that can be filled and freed.
trait Disk {
    fn fill(&self);
    fn free(&self);
}

struct FileSizeLimit;

impl Disk for FileSizeLimit {
    fn fill(&self) {
        let limit = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: Some(0), ..limit }).unwrap();
    }

    fn free(&self) {
        let limit = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit }).unwrap();
    }
}

struct Small(PathBuf);

impl Disk for Small {
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

fn survives(base: &Path, disk: &impl Disk) {
    let folder = base.join("store");
    let at = scope("infra/public");
    let mut store = reopen(&folder);
    store.commit(promote(&at, object("a", 1, payload(1)))).unwrap();
    for round in 1..4u8 {
        let before = store.versions(&at, &at_a()).unwrap();
        disk.fill();
        // sled may have some space left in its files.
        let refused = (10..30).find_map(|number| store.commit(promote(&at, object("b", 1, payload(number)))).err());
        let error = refused.expect("a full disk is told");
        assert!(matches!(error, StoreError::Full(_)), "round {round}: {error}");
        match store.versions(&at, &at_a()) {
            Ok(now) => assert!(now == before, "round {round}"),
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "round {round}: {error}"),
        }
        let again = store.commit(promote(&at, object("c", 1, payload(99))));
        assert!(again.is_err(), "round {round}: it is still full");
        disk.free();
        store.commit(promote(&at, object("a", i64::from(round) + 1, payload(100 + round)))).unwrap();
        let kept = store.versions(&at, &at_a()).unwrap();
        let generations: Vec<_> = kept.iter().map(|version| version.generation).collect();
        assert_eq!(generations, [i64::from(round) + 1, i64::from(round)]);
        let held = Contents::of(&store);
        drop(store);
        disk.fill();
        // Opening may fail or succeed; it must not panic or remove data.
        drop(SledStore::open(&folder, &options(None)));
        disk.free();
        store = reopen(&folder);
        assert_eq!(Contents::of(&store), held, "round {round}");
    }
    assert!(set_aside(&folder).is_empty(), "a full disk is no damage");
}

fn at_a() -> holdfast_graph::ObjectKey {
    crate::common::key("a")
}

#[test]
fn a_process_with_a_full_disk() {
    let Some(base) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    match env::var_os(SMALL) {
        Some(_) => survives(&base, &Small(base.clone())),
        None => survives(&base, &FileSizeLimit),
    }
}

/// Starts this program again, by a script with `$0` for the folder and `$1` for the program.
fn again(program: &str, arguments: &[&str], script: &str, folder: &Path, small: bool) -> std::process::Output {
    let mut command = Command::new(program);
    command.args(arguments).args(["sh", "-c", script]).arg(folder).arg(env::current_exe().unwrap());
    command.env(FOLDER, folder);
    if small {
        command.env(SMALL, "yes");
    }
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

const RUN: &str = r#"exec "$1" --exact full::a_process_with_a_full_disk --nocapture --test-threads=1"#;

#[test]
fn files_that_may_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    // Ignored signals stay ignored in the started program: writing fails, and no process is killed.
    let ran = again("env", &[], &format!("trap '' XFSZ; {RUN}"), folder.path(), false);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(folder.path().join("store/db").exists(), "it did run");
}

#[test]
fn a_file_system_that_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let possible = Command::new("unshare")
        .args(["-Urm", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs \"$0\""])
        .arg(folder.path())
        .output()
        .is_ok_and(|ran| ran.status.success());
    if !possible {
        eprintln!("SKIPPED full::a_file_system_that_is_full: users may not mount file systems on this machine");
        return;
    }
    let script = format!("mount -t tmpfs -o size=12m tmpfs \"$0\" && {RUN}");
    let ran = again("unshare", &["-Urm"], &script, folder.path(), true);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "it did run");
}
