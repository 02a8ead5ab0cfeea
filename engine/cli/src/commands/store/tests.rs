//! Tests of the commands on a real store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use bytes::Bytes;
use holdfast_graph::ObjectKey;
use holdfast_store::{Batch, Change, Key, LastValidStore, Options, Scope, SledStore, StoredObject, StoredVerdict};

use super::*;

const SECRET: &[u8] = b"the bytes of a private key";

fn stored(data: &Path) {
    let at = Scope { gateway: "infra/public".into(), build: "1.40.0".into() };
    let key = |kind: &str| ObjectKey::new("", kind, "shop", "cart");
    let object = |kind: &str, sensitive, payload: &'static [u8]| {
        let payload = Bytes::from_static(payload);
        StoredObject { key: key(kind), uid: "u".into(), generation: 4, since: 1_000, sensitive, payload }
    };
    let verdict = StoredVerdict {
        content: [1; 16],
        key: key("Route"),
        section: "rules[1]".into(),
        generation: 5,
        detected_by: "nack".into(),
        field: "spec.rules[1]".into(),
        message: "missing ]".into(),
        since: 1_000,
        witnesses: Vec::new(),
    };
    let options = Options { identity: "cluster".into(), key: Some(Key::new([1; 32])) };
    let mut store = SledStore::open(&data.join(FOLDER), &options).unwrap().store;
    let batch = Batch::default()
        .with(Change::Promote(at.clone(), object("Secret", true, SECRET)))
        .with(Change::Promote(at.clone(), object("Route", false, b"route")))
        .with(Change::Convict(at, verdict));
    store.commit(batch).unwrap();
}

fn which(data: &Path) -> WhichStore {
    WhichStore { data_dir: Some(data.to_owned()), key: StoreKeyArgs::default() }
}

#[test]
fn inspect_shows_what_is_stored_and_no_content() {
    let data = tempfile::tempdir().unwrap();
    stored(data.path());
    let (_, survey) = look(&which(data.path())).unwrap();
    let text = inspect::text(&survey, 1_000 + 3 * 3_600);
    for shown in ["infra/public", "core/Route:shop/cart", "core/Secret:shop/cart", "3h", "sealed", "missing ]", "nack"]
    {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let value = inspect::value(&survey).to_string();
    assert!(value.contains(r#""generation":4"#) && value.contains("spec.rules[1]"), "{value}");
    let secret = String::from_utf8_lossy(SECRET);
    assert!(!text.contains(&*secret) && !value.contains(&*secret));
}

#[test]
fn verify_distinguishes_sound_damaged_and_absent_stores() {
    let data = tempfile::tempdir().unwrap();
    let code = |code: Result<ExitCode, Failure>| match code {
        Ok(code) => format!("{code:?}"),
        Err(failure) => format!("{:?}", failure.exit_code()),
    };
    let verify = || code(verify::run(&verify::VerifyArgs { which: which(data.path()) }));
    assert_eq!(verify(), format!("{:?}", ExitCode::from(2)));
    assert!(!data.path().join("lock").exists(), "looking for a store makes none");
    stored(data.path());
    assert_eq!(verify(), format!("{:?}", ExitCode::SUCCESS));
    let db = data.path().join(FOLDER).join("db");
    let mut bytes = std::fs::read(&db).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(&db, bytes).unwrap();
    assert_eq!(verify(), format!("{:?}", ExitCode::from(1)));
    assert_eq!(verify(), format!("{:?}", ExitCode::from(1)), "looking sets nothing aside");
}

#[test]
fn the_store_of_a_running_holdfast_is_not_read() {
    let data = tempfile::tempdir().unwrap();
    stored(data.path());
    let _held = DataDir::open(data.path()).unwrap();
    let failure = look(&which(data.path())).unwrap_err();
    assert!(failure.to_string().contains("/debug/store"), "{failure}");
    assert_eq!(format!("{:?}", failure.exit_code()), format!("{:?}", ExitCode::from(2)));
}
