//! Latest offers to a fleet, by audience: all Envoys, a build or a node.
//!
//! Each audience has its own [`Published`], so that snapshots are compared in full only once for all clients of the
//! audience. A new audience branches off from the snapshot for all Envoys: for a client that moves to another audience,
//! only the differences are compared and sent.
//!
//! An edition is the number of a content. A client that has seen an edition needs no comparison with it again, whatever
//! the audience is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::published::Published;
use crate::{Again, EnvoyId, Offers, ResourceType, Snapshot, Waiting};

/// The audiences of a fleet; see the module documentation.
#[derive(Debug)]
pub(crate) struct FleetAudiences {
    everyone: Audience,
    builds: BTreeMap<Arc<str>, Audience>,
    nodes: BTreeMap<Arc<str>, Audience>,
    fresh_only: bool,
    waiting: Waiting,
    again: BTreeMap<Arc<str>, Turns>,
}

/// Contents that are sent to one Envoy once more.
pub(crate) type Turns = BTreeMap<(ResourceType, Arc<str>), Again>;

#[derive(Debug)]
struct Audience {
    published: Published,
    edition: u64,
}

/// The offer for one client.
pub(crate) struct AudienceOffer {
    pub(crate) edition: Edition,
    pub(crate) snapshot: Snapshot,
    pub(crate) again: Turns,
}

/// The identity of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edition {
    number: u64,
    pub(crate) fresh_only: bool,
    /// The newest turn of the contents that are sent once more.
    pub(crate) turn: u64,
}

impl FleetAudiences {
    /// Returns the audiences for these offers. `editions` is the number of the newest edition, and is shared by all
    /// offers that a client may ever get.
    pub(crate) fn new(offers: Offers, editions: &AtomicU64) -> Self {
        let published = Published::new(offers.everyone);
        let mut audiences = Self {
            everyone: Audience { published, edition: next(editions) },
            builds: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fresh_only: offers.fresh_only,
            waiting: offers.waiting,
            again: offers.again,
        };
        replace_all(&mut audiences.builds, offers.builds, &audiences.everyone, editions);
        replace_all(&mut audiences.nodes, offers.nodes, &audiences.everyone, editions);
        audiences
    }

    /// Replaces the offers; returns whether any client may be affected.
    pub(crate) fn replace(&mut self, offers: Offers, editions: &AtomicU64) -> bool {
        let mut differs = self.fresh_only != offers.fresh_only || self.waiting != offers.waiting;
        differs |= self.again != offers.again;
        self.fresh_only = offers.fresh_only;
        self.waiting = offers.waiting;
        self.again = offers.again;
        differs |= self.everyone.replace(offers.everyone, editions);
        differs |= replace_all(&mut self.builds, offers.builds, &self.everyone, editions);
        differs |= replace_all(&mut self.nodes, offers.nodes, &self.everyone, editions);
        differs
    }

    /// Returns the offer for this Envoy, unless the Envoy has seen it.
    pub(crate) fn offer(&self, envoy: &EnvoyId, seen: Option<Edition>) -> Option<AudienceOffer> {
        let (audience, waits) = match (self.nodes.get(&envoy.node), self.builds.get(&envoy.build)) {
            (Some(of_node), _) => (of_node, false),
            (None, Some(of_build)) => (of_build, self.waiting.builds.contains(&envoy.build)),
            (None, None) => (&self.everyone, self.waiting.everyone),
        };
        if waits {
            return None;
        }
        let again = self.again.get(&envoy.node);
        let turn = again.into_iter().flat_map(BTreeMap::values).map(|again| again.turn).max().unwrap_or_default();
        let edition = Edition { number: audience.edition, fresh_only: self.fresh_only, turn };
        (seen != Some(edition)).then(|| AudienceOffer {
            edition,
            snapshot: audience.published.snapshot().clone(),
            again: again.cloned().unwrap_or_default(),
        })
    }
}

impl Audience {
    fn replace(&mut self, snapshot: Snapshot, editions: &AtomicU64) -> bool {
        let differs = self.published.replace(snapshot);
        if differs {
            self.edition = next(editions);
        }
        differs
    }

    /// Returns another audience with the same content.
    fn branch(&self) -> Self {
        Self { published: self.published.clone(), edition: self.edition }
    }
}

fn replace_all(
    audiences: &mut BTreeMap<Arc<str>, Audience>,
    offered: BTreeMap<Arc<str>, Snapshot>,
    everyone: &Audience,
    editions: &AtomicU64,
) -> bool {
    let before = audiences.len();
    audiences.retain(|name, _| offered.contains_key(name));
    let mut differs = audiences.len() != before;
    for (name, snapshot) in offered {
        let audience = audiences.entry(name).or_insert_with(|| {
            differs = true;
            everyone.branch()
        });
        differs |= audience.replace(snapshot, editions);
    }
    differs
}

fn next(editions: &AtomicU64) -> u64 {
    editions.fetch_add(1, Relaxed) + 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_graph::Origins;

    use super::*;
    use crate::testing::{envoy, routes};
    use crate::{Resource, ResourceType};

    const ROUTE: ResourceType = ResourceType::Route;
    const BUILDS: [&str; 3] = ["x", "y", "z"];
    const NODES: [&str; 3] = ["1", "2", "3"];

    /// Pseudo-random numbers, equal in each run.
    struct Choices(u64);

    impl Choices {
        fn of(&mut self, count: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % count
        }

        /// Returns a changed snapshot: from the previous one, from that of all Envoys, or from scratch.
        fn change(&mut self, before: Option<&Snapshot>, everyone: &Snapshot) -> Snapshot {
            let mut changed = match (self.of(4), before) {
                (0, _) => Snapshot::default(),
                (1 | 2, Some(before)) => before.clone(),
                _ => everyone.clone(),
            };
            for _ in 0..self.of(3) {
                let name = ["a", "b", "c", "d"][self.of(4)];
                match self.of(4) {
                    0 => changed.remove(ROUTE, name),
                    number => {
                        let body = vec![number as u8];
                        changed.insert(ROUTE, Arc::new(Resource::new(name, body, Origins::default())));
                    }
                }
            }
            changed
        }

        fn change_some(&mut self, entries: &mut BTreeMap<Arc<str>, Snapshot>, names: &[&str], everyone: &Snapshot) {
            for name in names {
                match self.of(4) {
                    0 => drop(entries.remove(*name)),
                    1 => {
                        let changed = self.change(entries.get(*name), everyone);
                        entries.insert(Arc::from(*name), changed);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn whatever_is_published_each_envoy_is_offered_its_own_and_only_where_it_is_another() {
        for seed in 0..200 {
            let mut choices = Choices(seed);
            let editions = AtomicU64::new(0);
            let mut offers = Offers::default();
            let mut audiences = FleetAudiences::new(offers.clone(), &editions);
            let mut envoys: Vec<(EnvoyId, Option<Edition>, Snapshot)> = Vec::new();
            for (build, node) in BUILDS.iter().flat_map(|build| NODES.map(|node| (*build, node))) {
                envoys.push((envoy(&format!("a/b {node} {build}")), None, Snapshot::default()));
            }
            for _ in 0..40 {
                let everyone = offers.everyone.clone();
                if choices.of(3) == 0 {
                    offers.everyone = choices.change(Some(&everyone), &everyone);
                }
                choices.change_some(&mut offers.builds, &BUILDS[..2], &everyone);
                choices.change_some(&mut offers.nodes, &NODES[..2], &everyone);
                offers.fresh_only = choices.of(8) == 0;
                let wakes = audiences.replace(offers.clone(), &editions);
                for (envoy, seen, has) in &mut envoys {
                    let wanted = offers.of(&envoy.build, &envoy.node);
                    match audiences.offer(envoy, *seen) {
                        Some(offer) => {
                            assert!(wakes || seen.is_none(), "seed {seed}: nobody would have looked");
                            assert_eq!(offer.edition.fresh_only, offers.fresh_only);
                            *seen = Some(offer.edition);
                            *has = offer.snapshot;
                        }
                        None => assert_eq!(seen.map(|seen| seen.fresh_only), Some(offers.fresh_only)),
                    }
                    assert_eq!(has, wanted, "seed {seed}: {envoy:?}");
                }
            }
        }
    }

    #[test]
    fn audiences_share_equal_content() {
        let editions = AtomicU64::new(0);
        let rebuilt = || routes("a=1 b=1");
        let mut audiences = FleetAudiences::new(Offers::everyone(rebuilt()), &editions);
        let first = audiences.offer(&envoy("a/b 1 x"), None).unwrap();
        // Built from scratch, and still there is nothing to compare and nothing to send.
        let mut offers = Offers::everyone(rebuilt());
        offers.nodes.insert(Arc::from("1"), rebuilt());
        audiences.replace(offers, &editions);
        assert!(audiences.offer(&envoy("a/b 1 x"), Some(first.edition)).is_none());
        let of_node = audiences.offer(&envoy("a/b 1 x"), None).unwrap();
        assert!(of_node.snapshot.of(ROUTE).ptr_eq(first.snapshot.of(ROUTE)));
    }

    #[test]
    fn a_change_for_one_node_is_no_news_for_others() {
        let editions = AtomicU64::new(0);
        let mut offers = Offers::everyone(routes("a=1"));
        let mut audiences = FleetAudiences::new(offers.clone(), &editions);
        let other = audiences.offer(&envoy("a/b 2 x"), None).unwrap().edition;
        offers.nodes.insert(Arc::from("1"), routes("a=2"));
        assert!(audiences.replace(offers.clone(), &editions));
        assert!(audiences.offer(&envoy("a/b 2 x"), Some(other)).is_none());
        assert!(!audiences.replace(offers, &editions), "the same again wakes nobody");
    }
}
