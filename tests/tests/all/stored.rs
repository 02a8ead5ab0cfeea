//! Stored objects: an object is restored equal to the original, or not at all.
//!
//! The input is every object of every golden case, as written and broken at random places. `HOLDFAST_SEEDS=1000` breaks
//! more objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_api::apis::document::{document, is_kept, restored, stored};
use holdfast_api::apis::{Body, Decoded, decode};
use holdfast_api::object::Object;
use holdfast_test_support::{self as testing, mutate};
use serde_json::{Value, json};

use holdfast_test_support::matches::choices;

/// Default number of broken objects for each input.
const SEEDS: u64 = 40;
/// Kinds with stored versions.
const KEPT: [&str; 18] = [
    "Backend",
    "BackendConfigPolicy",
    "BackendTLSPolicy",
    "DirectResponse",
    "Gateway",
    "GatewayClass",
    "GatewayExtension",
    "GRPCRoute",
    "HTTPProxy",
    "HTTPRoute",
    "ListenerPolicy",
    "ListenerSet",
    "Secret",
    "Service",
    "TCPRoute",
    "TLSRoute",
    "TrafficPolicy",
    "UDPRoute",
];
/// The time at which all versions in this test were proven good, in Unix seconds.
const SINCE: i64 = 1_700_000_000;

/// Returns the documents of the sample and of each input, with the file name.
fn inputs() -> Vec<(String, Vec<Value>)> {
    let mut inputs = vec![("sample".to_owned(), testing::documents(testing::SAMPLE))];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".yaml") && !name.ends_with(".out.yaml") {
                // A step begins a new YAML document.
                let text = fs::read_to_string(&path).unwrap().replace("\n# step:", "\n--- # step:");
                inputs.push((name, testing::documents(&text.replace("{GATEWAY_CLASS_NAME}", "holdfast"))));
            }
        }
    }
    inputs
}

/// Returns the object, and whether it decoded without an error.
fn object(document: &Value) -> Option<(Object, bool)> {
    match decode(document.clone(), None) {
        Decoded::Object(object, faults) => Some((*object, !faults.iter().any(|fault| fault.is_error()))),
        Decoded::Unusable(..) | Decoded::Foreign(_) | Decoded::Unserved(_) | Decoded::Nameless(_) => None,
    }
}

/// Returns whether the object is stored, and checks that a stored object is restored equal.
fn comes_back(at: &str, object: &Object, whole: bool) -> bool {
    let Some(kept) = stored(object, SINCE) else {
        let is_known = KEPT.contains(&&*object.key.kind);
        assert!(!whole || !is_known, "{at}: {} is not stored", object.key);
        assert_eq!(is_kept(&object.body), is_known, "{at}: {}", object.key);
        return false;
    };
    assert!(KEPT.contains(&&*object.key.kind) && is_kept(&object.body), "{at}: {} is stored", object.key);
    let has_passwords = match &object.body {
        Body::TrafficPolicy(policy) => format!("{policy:?}").contains("users: Some("),
        body => matches!(body, Body::Secret(_)),
    };
    let payload = String::from_utf8_lossy(&kept.payload).to_lowercase();
    let names_credentials =
        ["authorization", "cookie", "token", "secret", "api-key"].iter().any(|word| payload.contains(word));
    assert!(kept.sensitive || !has_passwords, "{at}: {}", object.key);
    assert!(!kept.sensitive || has_passwords || names_credentials, "{at}: {}", object.key);
    assert_eq!((&kept.key, &kept.uid, kept.generation, kept.since), {
        (&object.key, &object.metadata.uid, object.metadata.generation, SINCE)
    });
    let back = restored(&kept);
    assert_eq!(back.as_ref(), Some(object), "{at}: {}", object.key);
    assert!(stored(&back.unwrap(), SINCE) == Some(kept), "{at}: {} has other bytes the second time", object.key);
    true
}

#[test]
fn every_whole_object_comes_back_equal() {
    let mut kinds = BTreeMap::<String, usize>::new();
    for (at, documents) in inputs() {
        for mut written in documents {
            let Some((plain, whole)) = object(&written) else { continue };
            if comes_back(&at, &plain, whole) {
                *kinds.entry(plain.key.kind.to_string()).or_default() += 1;
            }
            // The same object with metadata of an API server, including edge values.
            written["metadata"]["uid"] = json!("6f5d7c1e-0000-4000-8000-000000000001");
            written["metadata"]["generation"] = json!(i64::MAX);
            written["metadata"]["labels"] = json!({"b": "", "a": "\u{0}\"ä"});
            written["metadata"]["annotations"] = json!({"long": "x".repeat(1024), "longer": "x".repeat(1025)});
            for created in ["2024-02-29T23:59:59Z", "1969-12-31T23:59:58.5+01:00", "0001-01-01T00:00:00Z"] {
                written["metadata"]["creationTimestamp"] = json!(created);
                let (full, whole) = object(&written).unwrap();
                assert!(full.metadata.created.is_some() && full.metadata.annotations.len() == 1);
                comes_back(&at, &full, whole);
            }
        }
    }
    assert!(KEPT.iter().all(|kind| kinds.get(*kind).is_some_and(|count| *count > 3)), "tried: {kinds:?}");
}

#[test]
fn broken_objects_come_back_equal_or_are_not_stored() {
    let seeds = std::env::var("HOLDFAST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let (mut back, mut not_stored) = (0, 0);
    for (at, documents) in inputs() {
        for seed in 1..=seeds {
            let mutated = mutate::mutated(&documents, &mut choices(seed));
            let Some((object, whole)) = object(&mutated) else { continue };
            let count =
                if comes_back(&format!("{at}, seed {seed}"), &object, whole) { &mut back } else { &mut not_stored };
            *count += 1;
        }
    }
    assert!(back > 1000 && not_stored > 1000, "{back} came back, {not_stored} were not stored");
}

#[test]
fn what_was_altered_does_not_come_back() {
    let mut tried = 0;
    for (index, (at, documents)) in inputs().into_iter().enumerate() {
        let mut choose = choices(1 + index as u64);
        for object in documents.iter().filter_map(|document| Some(object(document)?.0)) {
            let Some(kept) = stored(&object, SINCE) else { continue };
            let at = format!("{at}: {}", object.key);
            let with = |payload: Vec<u8>| {
                let mut altered = kept.clone();
                altered.payload = payload.into();
                restored(&altered)
            };
            let bytes = kept.payload.to_vec();
            for _ in 0..10 {
                let length = choose(bytes.len());
                assert_eq!(with(bytes[..length].to_vec()), None, "{at}: cut at {length}");
                // The change may result in another valid text, which is then restored as changed, or not at all.
                let mut flipped = bytes.clone();
                flipped[length] ^= 1 << choose(8);
                if let Some(other) = with(flipped.clone()) {
                    assert_eq!(stored(&other, SINCE).unwrap().payload, flipped, "{at}: flipped at {length}");
                }
            }
            assert_eq!(with([&bytes[..], b" "].concat()), None, "{at}: longer");
            assert_eq!(with(Vec::new()), None, "{at}: empty");
            of_another_version(&at, &object, &with);
            let mut foreign = [(); 4].map(|()| kept.clone());
            foreign[0].uid = "another".into();
            foreign[1].generation += 1;
            foreign[2].key.name = "another".into();
            foreign[3].sensitive ^= true;
            assert!(foreign.iter().all(|foreign| restored(foreign).is_none()), "{at}: another object's");
            tried += 1;
        }
    }
    assert!(tried > 300, "only {tried} objects were tried");
}

/// Checks that a payload with an unknown field at any place, or with a missing field, is not restored.
fn of_another_version(at: &str, object: &Object, with: &dyn Fn(Vec<u8>) -> Option<Object>) {
    let document = document(object).unwrap();
    let mut places = Vec::new();
    gather(&document, String::new(), &mut places);
    // Users choose the fields of JSON access logs and of JSON response bodies.
    places.retain(|place| !place.contains("/json"));
    for place in places {
        let mut changed = document.clone();
        changed.pointer_mut(&place).unwrap().as_object_mut().unwrap().insert("holdfastTestField".into(), json!(1));
        assert_eq!(with(serde_json::to_vec(&changed).unwrap()), None, "{at}: a field more in {place:?}");
    }
    for field in document.as_object().unwrap().keys() {
        let mut changed = document.clone();
        changed.as_object_mut().unwrap().remove(field);
        assert_eq!(with(serde_json::to_vec(&changed).unwrap()), None, "{at}: without {field}");
    }
}

/// Collects the JSON pointers of the objects in a value.
fn gather(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                gather(value, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
            places.push(place);
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| gather(value, format!("{place}/{index}"), places));
        }
        _ => {}
    }
}
