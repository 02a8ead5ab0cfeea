//! Tests of the store that several processes share: whole generations whichever process is killed at any time, one
//! successful of two writers, and reported damage.

use bytes::Bytes;
use holdfast_store::shards::{
    Answered, BLOB_BYTES_MAX, Bucket, Expected, Observation, ObservedScope, Offer, OffersByScope, OnTrial, Refreshed,
    Refused, ScopeOffers,
};
use holdfast_store::{
    Batch, Change, LastValidStore, MemoryBucket, MemoryStore, ShardStore, StoreError, StoredObject, conformance,
};

use crate::common::{Contents, key, object, options, promote, resource, scope, verdict};

fn open(bucket: &MemoryBucket) -> ShardStore<MemoryBucket> {
    ShardStore::open(bucket.clone(), &options(None)).unwrap()
}

#[test]
fn it_conforms_with_a_key_and_without() {
    for key in [None, Some(7)] {
        conformance::check(|| ShardStore::open(MemoryBucket::default(), &options(key)).unwrap());
    }
}

/// Endless numbers, equal for equal seeds.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..=self.below(4) {
            let at = scope(["infra/one", "infra/two"][self.below(2) as usize]);
            let name = format!("o{}", self.below(12));
            let (generation, large) = (self.below(50), self.below(3) * 130_000);
            let payload = format!("{name} {generation} {}", "x".repeat(large as usize));
            batch.push(match self.below(8) {
                0..=3 => Change::Promote(at, object(&name, generation as i64, payload)),
                4 => Change::Forget(key(&name)),
                5 => Change::Acknowledge(at, vec![resource(&name, payload), resource("always", "the same")]),
                6 => Change::Convict(at, verdict(self.below(5) as u8, generation as i64)),
                _ => Change::ForgetGateway(at.gateway),
            });
        }
        batch
    }
}

#[test]
fn reads_are_whole_generations_whenever_a_process_is_killed() {
    for seed in 0..12 {
        let mut dice = SeededNumbers(seed);
        let bucket = MemoryBucket::default();
        let mut writers = [open(&bucket), open(&bucket)];
        let mut reader = open(&bucket);
        // The last commit; a commit of a killed writer may have succeeded as well.
        let mut committed = Contents::default();
        for _ in 0..30 {
            let at = dice.below(2) as usize;
            let batch = dice.batch();
            let mut after = MemoryStore::default();
            after.commit(Batch::of_everything(&writers[at]).unwrap()).unwrap();
            after.commit(batch.clone()).unwrap();
            let killed = dice.below(3) == 0;
            bucket.fail_after(killed.then(|| dice.below(9)));
            let generation = writers[at].generation();
            let outcome = writers[at].commit(batch);
            bucket.fail_after(None);
            match outcome {
                // A commit without a change is not written, and the writer learns nothing.
                Ok(()) if writers[at].generation() == generation => {}
                Ok(()) => committed = Contents::of(&after),
                Err(StoreError::Conflict) => {
                    writers[at].refresh().unwrap();
                    assert_eq!(Contents::of(&writers[at]), committed, "seed {seed}: the loser reads and follows");
                }
                // A killed writer is replaced by a new one.
                Err(_) => writers[at] = open(&bucket),
            }
            let mut new = open(&bucket);
            assert_eq!(Contents::of(&new), committed, "seed {seed}");
            reader.refresh().unwrap();
            assert_eq!(Contents::of(&reader), committed, "seed {seed}: of one that only looks");
            assert!(new.notices().is_empty() && reader.notices().is_empty(), "seed {seed}");
        }
        let mut last = open(&bucket);
        last.commit(promote(&scope("infra/one"), object("last", 1, "1"))).unwrap();
        last.commit(promote(&scope("infra/one"), object("last", 2, "2"))).unwrap();
        let before = bucket.list().unwrap().len();
        last.commit(promote(&scope("infra/one"), object("last", 3, "3"))).unwrap();
        assert_eq!(bucket.list().unwrap().len(), before, "seed {seed}: nothing is left behind");
    }
}

#[test]
fn of_two_writers_one_wins_and_the_other_follows() {
    let bucket = MemoryBucket::default();
    let (mut one, mut two) = (open(&bucket), open(&bucket));
    let at = scope("infra/one");
    one.commit(promote(&at, object("a", 1, "by one"))).unwrap();
    let refused = two.commit(promote(&at, object("a", 2, "by two")));
    assert!(matches!(refused, Err(StoreError::Conflict)));
    assert_eq!(two.refresh().unwrap(), Refreshed::Newer);
    assert_eq!(two.refresh().unwrap(), Refreshed::Same);
    assert_eq!(Contents::of(&two), Contents::of(&one));
    two.commit(promote(&at, object("a", 2, "by two"))).unwrap();
    assert!(matches!(one.commit(promote(&at, object("a", 3, "again"))), Err(StoreError::Conflict)));
}

#[test]
fn a_commit_writes_what_it_concerns_and_the_same_records_in_any_order_are_the_same_blobs() {
    let at = scope("infra/one");
    let many = |order: &mut dyn Iterator<Item = usize>| {
        let one = |batch: Batch, n: usize| {
            batch.with(Change::Promote(at.clone(), object(&format!("o{n:04}"), 1, vec![b'x'; 4_000])))
        };
        order.fold(Batch::default(), one)
    };
    let (bucket, other) = (MemoryBucket::default(), MemoryBucket::default());
    let mut store = open(&bucket);
    store.commit(many(&mut (0..1_000))).unwrap();
    open(&other).commit(many(&mut (0..1_000).rev())).unwrap();
    assert_eq!(bucket.list().unwrap(), other.list().unwrap());
    assert!(bucket.list().unwrap().len() > 16, "4 MB are not one blob");
    let before = bucket.writes();
    store.commit(promote(&at, object("o0500", 2, "edited"))).unwrap();
    assert_eq!(bucket.writes() - before, 2, "a leaf and the manifest");
    store.commit(promote(&at, object("o0500", 2, "edited"))).unwrap();
    assert_eq!(bucket.writes() - before, 2, "what changes nothing writes nothing");
    let large = object("large", 1, vec![b'y'; 3 * BLOB_BYTES_MAX]);
    store.commit(promote(&at, large.clone())).unwrap();
    assert!(open(&bucket).versions(&at, &large.key).unwrap() == [large]);
    for name in bucket.list().unwrap() {
        assert!(bucket.get(&name).unwrap().unwrap().0.len() <= BLOB_BYTES_MAX, "{name}");
    }
}

#[test]
fn damage_is_reported_contained_and_repaired_by_the_next_commit() {
    let bucket = MemoryBucket::default();
    let mut store = open(&bucket);
    let (one, two) = (scope("infra/one"), scope("infra/two"));
    let batch = promote(&one, object("a", 1, "a"))
        .with(Change::Acknowledge(one.clone(), vec![resource("r", "r")]))
        .with(Change::Convict(two.clone(), verdict(1, 1)));
    store.commit(batch).unwrap();
    let whole = Contents::of(&store);
    for name in bucket.list().unwrap() {
        let (sound, _) = bucket.get(&name).unwrap().unwrap();
        for at in (0..sound.len()).step_by(7) {
            let mut bytes = sound.to_vec();
            bytes[at] ^= 0x40;
            bucket.put(&name, bytes.into(), &Expected::Anything).unwrap();
            match ShardStore::open(bucket.clone(), &options(None)) {
                Ok(mut read) => {
                    assert!(Contents::of(&read).is_within(&whole), "{name} at {at}");
                    assert_eq!(read.notices().len(), 1, "{name} at {at}");
                }
                // Data that claims to be of a newer version is left to that version.
                Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
            }
            bucket.put(&name, sound.clone(), &Expected::Anything).unwrap();
        }
        bucket.delete(&name).unwrap();
        let mut reader = open(&bucket);
        assert!(Contents::of(&reader).is_within(&whole), "{name} is gone");
        let _ = reader.notices();
        bucket.put(&name, sound, &Expected::Anything).unwrap();
    }
    // All blobs are removed: a store that has read them writes them again.
    let mut store = open(&bucket);
    bucket.list().unwrap().iter().for_each(|name| bucket.delete(name).unwrap());
    assert!(matches!(store.commit(promote(&one, object("b", 1, "b"))), Err(StoreError::Conflict)));
    assert_eq!(store.refresh().unwrap(), Refreshed::Lost);
    assert_eq!(Contents::of(&store), whole, "what is known stays");
    store.commit(promote(&one, object("b", 1, "b"))).unwrap();
    assert_eq!(Contents::of(&open(&bucket)), Contents::of(&store));
}

#[test]
fn what_is_sensitive_is_sealed_or_not_shared() {
    let secret = "a canary of nine lives";
    let sensitive = |name: &str| StoredObject { sensitive: true, ..object(name, 1, secret) };
    let at = scope("infra/one");
    for key in [None, Some(1)] {
        let bucket = MemoryBucket::default();
        let mut store = ShardStore::open(bucket.clone(), &options(key)).unwrap();
        store.commit(promote(&at, sensitive("s")).with(Change::Promote(at.clone(), object("o", 1, "o")))).unwrap();
        for name in bucket.list().unwrap() {
            let (bytes, _) = bucket.get(&name).unwrap().unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "{name}");
        }
        let read = ShardStore::open(bucket.clone(), &options(key)).unwrap();
        assert_eq!(read.objects(&at).unwrap().len(), if key.is_some() { 2 } else { 1 });
        let mut other = ShardStore::open(bucket, &options(Some(2))).unwrap();
        assert!(other.scopes().unwrap().is_empty());
        assert_eq!(other.notices().len(), 1, "another key is told");
    }
}

#[test]
fn offers_and_observations_are_read_by_others() {
    let bucket = MemoryBucket::default();
    let (mut one, at) = (open(&bucket), scope("infra/one"));
    let trial = OnTrial { node: "holdfast-1/e1".into(), contents: vec![[8; 16]], apart: vec![key("a")] };
    let all = vec![Offer { kind: 4, content: [9; 16] }];
    let offers = OffersByScope::from([(at.clone(), ScopeOffers { all, trial: Some(trial) })]);
    one.share(promote(&at, object("a", 1, "a")), offers.clone()).unwrap();
    let two = open(&bucket);
    assert_eq!(two.offers(), &offers);
    let resource = Answered { kind: 4, name: "http/80".into(), version: [1; 16] };
    let refused = Refused { resource: resource.clone(), node: "e1".into(), message: "missing ]".into() };
    let seen = ObservedScope {
        gateway: at.gateway.clone(),
        build: at.build.clone(),
        nodes: vec!["e1".into()],
        acknowledged: vec![resource],
        refused: vec![refused],
    };
    let observation = Observation { observer: "holdfast-1".into(), beat: 3, scopes: vec![seen] };
    two.observe(&observation).unwrap();
    assert_eq!(one.observations().unwrap(), [observation]);
    one.commit(promote(&at, object("a", 2, "b"))).unwrap();
    assert_eq!(one.observations().unwrap().len(), 1, "it is no part of a generation");
    one.forget_observer("holdfast-1").unwrap();
    assert!(one.observations().unwrap().is_empty());
}

#[test]
fn what_belongs_to_others_is_left_alone() {
    let bucket = MemoryBucket::default();
    open(&bucket).commit(promote(&scope("infra/one"), object("a", 1, "a"))).unwrap();
    let other = holdfast_store::Options { identity: "another cluster".into(), key: None };
    assert!(matches!(ShardStore::open(bucket.clone(), &other), Err(StoreError::Unavailable(_))));
    let name = bucket.list().unwrap().remove(0);
    bucket.put(&name, Bytes::from_static(b"HFSH\x09\x00"), &Expected::Anything).unwrap();
    assert!(matches!(ShardStore::open(bucket, &options(None)), Err(StoreError::Unavailable(_))));
}

#[test]
fn removed_or_damaged_blobs_are_written_again_by_the_writer() {
    let bucket = MemoryBucket::default();
    let mut one = open(&bucket);
    one.commit(promote(&scope("infra/one"), object("a", 1, "x"))).unwrap();
    let whole = Contents::of(one.contents());
    let count = bucket.list().unwrap().len();
    assert!(count > 1, "a list and what it names");
    for removed in ["manifest", "s-", ""] {
        let mut gone = bucket.list().unwrap();
        gone.retain(|name| name.starts_with(removed));
        gone.iter().for_each(|name| bucket.delete(name).unwrap());
        // As the writer does repeatedly: it reads the observations of the others, and then has no change to commit.
        one.observations().unwrap();
        assert!(!one.notices().is_empty(), "{gone:?}: nobody was told");
        one.share(Batch::default(), OffersByScope::default()).unwrap();
        assert_eq!(Contents::of(open(&bucket).contents()), whole, "{gone:?}");
        let writes = bucket.writes();
        one.observations().unwrap();
        one.share(Batch::default(), OffersByScope::default()).unwrap();
        assert_eq!(bucket.writes(), writes, "once is enough");
        assert!(bucket.list().unwrap().len() <= 2 * count, "what was left is removed");
    }
    // A writer that finds damage repairs it.
    let leaf = bucket.list().unwrap().into_iter().find(|name| name != "manifest").unwrap();
    bucket.put(&leaf, Bytes::from_static(b"no leaf"), &Expected::Anything).unwrap();
    let mut other = open(&bucket);
    assert!(!other.notices().is_empty());
    other.share(Batch::default(), OffersByScope::default()).unwrap();
    let mut third = open(&bucket);
    assert!(third.notices().is_empty() && third.generation() > 0, "what is there now is whole");
}
