//! Tests with flipped bytes, in the files of sled and in records: the result of reading is what was written, the
//! previous generation, a part of the newest, or nothing. It is never anything else.

use std::fs;
use std::path::Path;

use holdfast_store::sled::survey;
use holdfast_store::{LastValidStore, SledStore};

use crate::common::{Contents, copy, object, options, promote, scope, set_aside, sled, small};

/// Opens a damaged store, checks that all returned data is correct, and then uses the store.
fn holds(folder: &Path, older: &Contents, newest: &Contents, what: &str) -> DamageOutcome {
    let opened = SledStore::open(folder, &options(None)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut store = opened.store;
    let seen = Contents::of(&store);
    let outcome = match () {
        () if seen == *newest => DamageOutcome::Whole,
        () if seen == *older => DamageOutcome::Older,
        () if seen == Contents::default() => DamageOutcome::Nothing,
        () if seen.is_within(newest) => DamageOutcome::Parts,
        () => panic!("{what}: {seen:#?}"),
    };
    if outcome != DamageOutcome::Whole {
        assert!(!opened.notices.is_empty(), "{what}: {outcome:?} and nobody was told");
    }
    let at = scope("infra/three");
    store.commit(promote(&at, object("new", 1, "new"))).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(store);
    let opened = SledStore::open(folder, &options(None)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(opened.notices.is_empty(), "{what}: damage is told once: {:?}", opened.notices);
    assert_eq!(opened.store.objects(&at).unwrap().len(), 1, "{what}");
    outcome
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DamageOutcome {
    Whole,
    Older,
    Parts,
    Nothing,
}

#[test]
fn flipped_bytes_of_the_files() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    let mut outcomes = Vec::new();
    for file in ["db", "conf"] {
        let bytes = fs::read(store.join(file)).unwrap();
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 64;
        for place in (0..bytes.len().min(written)).step_by(if file == "db" { 23 } else { 7 }) {
            let folder = tempfile::tempdir().unwrap();
            let copied = folder.path().join("store");
            copy(&store, &copied);
            let mut bytes = bytes.clone();
            bytes[place] ^= 1 << (place % 8);
            fs::write(copied.join(file), bytes).unwrap();
            outcomes.push(holds(&copied, &older, &newest, &format!("byte {place} of {file}")));
        }
    }
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let kinds = [DamageOutcome::Whole, DamageOutcome::Older, DamageOutcome::Parts, DamageOutcome::Nothing].map(count);
    eprintln!("of {} flips: {kinds:?} left all, the older generation, parts, nothing", outcomes.len());
    assert!(kinds[1] > 0 && kinds[3] > 0, "{kinds:?}");
}

#[test]
fn flipped_bytes_of_every_record() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    let records: Vec<_> = sled(&store).iter().map(Result::unwrap).collect();
    assert!(records.len() > 15, "{}", records.len());
    let mut outcomes = Vec::new();
    for (number, (name, bytes)) in records.iter().enumerate() {
        for place in (number % 11..bytes.len()).step_by(11) {
            let folder = tempfile::tempdir().unwrap();
            let copied = folder.path().join("store");
            copy(&store, &copied);
            let mut bytes = bytes.to_vec();
            bytes[place] ^= 1 << (place % 8);
            let db = sled(&copied);
            db.insert(name, bytes).unwrap();
            drop(db);
            outcomes.push(holds(&copied, &older, &newest, &format!("byte {place} of record {number}, {name:?}")));
            assert!(set_aside(&copied).is_empty(), "one damaged record costs no more than itself");
        }
    }
    for wanted in [DamageOutcome::Whole, DamageOutcome::Older, DamageOutcome::Parts] {
        assert!(outcomes.contains(&wanted), "{wanted:?} was never seen");
    }
}

#[test]
fn records_under_the_names_of_others() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    let records: Vec<_> = sled(&store).iter().map(Result::unwrap).collect();
    for (n, (name, _)) in records.iter().enumerate() {
        let (_, other) = &records[(n + 1) % records.len()];
        let folder = tempfile::tempdir().unwrap();
        let copied = folder.path().join("store");
        copy(&store, &copied);
        let db = sled(&copied);
        db.insert(name, other).unwrap();
        drop(db);
        holds(&copied, &older, &newest, &format!("record {n} replaced"));
    }
}

#[test]
fn files_that_are_cut_emptied_or_gone() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    let names: Vec<_> = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> = names.iter().filter(|path| path.is_file()).map(|path| path.file_name().unwrap()).collect();
    assert!(files.len() >= 2, "{files:?}");
    let mut aside = 0;
    for file in &files {
        for share in [0, 1, 2, 3, 4] {
            let folder = tempfile::tempdir().unwrap();
            let copied = folder.path().join("store");
            copy(&store, &copied);
            let path = copied.join(file);
            let bytes = fs::read(&path).unwrap();
            match share {
                0 => fs::remove_file(&path).unwrap(),
                1 => fs::write(&path, vec![0xa5; bytes.len()]).unwrap(),
                _ => fs::write(&path, &bytes[..bytes.len() * (share - 2) / 3]).unwrap(),
            }
            let surveyed = folder.path().join("surveyed");
            copy(&copied, &surveyed);
            let reported = survey(&surveyed, None).map_or(true, |survey| !survey.damage.is_empty());
            let what = format!("{file:?}, way {share}");
            if holds(&copied, &older, &newest, &what) != DamageOutcome::Whole {
                assert!(reported, "{what}: a look says that it is sound");
            }
            aside += set_aside(&copied).len();
        }
    }
    assert!(aside > 0, "what cannot be read is set aside");
}

#[test]
fn damaged_settings_are_damage_and_not_another_version_of_sled() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    small(&store);
    fs::write(store.join("conf"), vec![0xa5; 64]).unwrap();
    let damage = survey(&store, None).unwrap().damage;
    assert_eq!(damage, ["its files cannot be read: the settings of the store cannot be read"]);
}

#[test]
fn a_damaged_sled_index_is_rebuilt() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    fs::write(store.join("snap.00000000FFFFFFFF"), b"").unwrap();
    assert_eq!(holds_with_damaged_index(&store, &older, &newest), DamageOutcome::Whole);
    assert!(set_aside(&store).is_empty());
}

#[test]
fn an_index_that_sled_was_killed_over_costs_nothing() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let (_, newest) = small(&folder);
    fs::write(folder.join("snap.00000000FFFFFFFF.generating"), b"half of").unwrap();
    let opened = SledStore::open(&folder, &options(None)).unwrap();
    assert!(opened.notices.is_empty(), "{:?}", opened.notices);
    assert_eq!(Contents::of(&opened.store), newest);
}

fn holds_with_damaged_index(folder: &Path, older: &Contents, newest: &Contents) -> DamageOutcome {
    holds(folder, older, newest, "a damaged index")
}
