//! Benchmark of the store, compared with the cost of writing the same bytes to the disk.
//!
//! `cargo bench -p holdfast-store --bench commit` prints for a store of 10,000 objects: a commit of one of them, an
//! acknowledgement of 10,000 resources of which one changed, and opening with reading everything. The floor of the
//! first two is appending the same payload to a file with `fdatasync`, the floor of the last is reading the same bytes
//! from a file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BatchSize, Criterion};
use holdfast_graph::ObjectKey;
use holdfast_store::{Batch, Change, LastValidStore, Options, Scope, SledStore, StoredObject, StoredResource};

const COUNT: usize = 10_000;
/// Approximate size of a route.
const PAYLOAD_BYTES: usize = 2200;
const ROUNDS: u32 = 40;

fn scope() -> Scope {
    Scope { gateway: "infra/public".into(), build: "1.40.0".into() }
}

fn payload(number: usize, round: u32) -> Bytes {
    let mut payload = format!("{number} {round} ").into_bytes();
    payload.resize(PAYLOAD_BYTES, b'x');
    payload.into()
}

fn object(number: usize, round: u32) -> Change {
    let key = ObjectKey::new("gateway.networking.k8s.io", "Kind", "shop", format!("object-{number:05}"));
    let uid = format!("11111111-2222-3333-4444-{number:012}").into();
    let payload = payload(number, round);
    Change::Promote(scope(), StoredObject { key, uid, generation: round.into(), since: 0, sensitive: false, payload })
}

fn resources(round: u32) -> Vec<StoredResource> {
    let resource = |number: usize| StoredResource {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
        name: format!("resource-{number:05}").into(),
        version: [0; 16],
        sensitive: false,
        origins: Vec::new(),
        body: payload(number, if number == 7 { round } else { 0 }),
    };
    (0..COUNT).map(resource).collect()
}

fn open(folder: &Path) -> SledStore {
    SledStore::open(folder, &Options { identity: "bench".into(), key: None }).unwrap().store
}

fn all(store: &SledStore) -> usize {
    let scope = scope();
    let objects = store.objects(&scope).unwrap();
    let read = objects.iter().map(|key| store.versions(&scope, key).unwrap().len()).sum::<usize>();
    read + store.configuration(&scope).unwrap().len()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(mut act: impl FnMut(u32)) -> Duration {
    let one = |round| {
        let began = Instant::now();
        act(round);
        began.elapsed()
    };
    median((1..=ROUNDS).map(one).collect())
}

fn report(what: &str, product: Duration, floor: Duration) {
    let ratio = product.as_secs_f64() / floor.as_secs_f64();
    println!("{what}: {product:.2?}, floor {floor:.2?}, ratio {ratio:.1}");
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let mut store = open(&folder);
    store.commit((0..COUNT).map(|number| object(number, 0)).fold(Batch::default(), Batch::with)).unwrap();
    store.commit(Batch::default().with(Change::Acknowledge(scope(), resources(0)))).unwrap();

    let mut file = File::create(base.path().join("floor")).unwrap();
    let append = timed(|round| {
        file.write_all(&payload(7, round)).unwrap();
        file.sync_data().unwrap();
    });
    let commit = timed(|round| store.commit(Batch::default().with(object(7, round))).unwrap());
    report("commit of one object among 10,000", commit, append);
    let made: Vec<_> = (0..=ROUNDS).map(resources).collect();
    let mut made = made.into_iter();
    made.next();
    let acknowledge = timed(|_| {
        let resources = made.next().unwrap();
        store.commit(Batch::default().with(Change::Acknowledge(scope(), resources))).unwrap();
    });
    report("acknowledgement with one of 10,000 resources changed", acknowledge, append);

    let statistics = store.statistics();
    drop(store);
    let bytes: Vec<u8> = (0..2 * COUNT).flat_map(|number| payload(number, 0)).collect();
    fs::write(base.path().join("bytes"), &bytes).unwrap();
    let read = timed(|_| drop(black_box(fs::read(base.path().join("bytes")).unwrap())));
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let store = open(&folder);
        assert!(all(&store) >= 2 * COUNT);
        times.push(began.elapsed());
    }
    report("opening and reading all of 10,000 objects and 10,000 resources", median(times), read);
    println!("{} bytes on the disk for {} bytes of payload", statistics.bytes_on_disk, bytes.len());

    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let mut store = open(&folder);
    let mut round = ROUNDS;
    criterion.bench_function("commit of one object among 10,000", |bench| {
        bench.iter_batched(
            || {
                round += 1;
                Batch::default().with(object(7, round))
            },
            |batch| store.commit(batch).unwrap(),
            BatchSize::SmallInput,
        );
    });
    criterion.final_summary();
}
