//! What a fleet was offered last, by audience: everyone, a build or a node.
//!
//! Each audience has its own [`Published`], so that what is compared in full is compared once for all its clients. A new
//! one branches off from what everyone has: a client that moves from one to the other pays for what differs, too.
//!
//! An edition is the number of a content. Who has seen an edition needs no look at it again, whatever the audience.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::published::Published;
use crate::{EnvoyId, Offers, Snapshot};

/// See the module.
#[derive(Debug)]
pub(crate) struct Audiences {
    everyone: Audience,
    builds: BTreeMap<Arc<str>, Audience>,
    nodes: BTreeMap<Arc<str>, Audience>,
    fresh_only: bool,
}

#[derive(Debug)]
struct Audience {
    published: Published,
    edition: u64,
}

/// What one client is offered.
pub(crate) struct Offer {
    pub(crate) edition: Edition,
    pub(crate) snapshot: Snapshot,
}

/// What tells one offer from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edition {
    number: u64,
    pub(crate) fresh_only: bool,
}

impl Audiences {
    /// `editions` is the number of the newest edition, and shared by all that a client may ever be offered.
    pub(crate) fn new(offers: Offers, editions: &AtomicU64) -> Self {
        let published = Published::new(offers.everyone);
        let mut audiences = Self {
            everyone: Audience { published, edition: next(editions) },
            builds: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fresh_only: offers.fresh_only,
        };
        replace_all(&mut audiences.builds, offers.builds, &audiences.everyone, editions);
        replace_all(&mut audiences.nodes, offers.nodes, &audiences.everyone, editions);
        audiences
    }

    /// Takes the next offers; says whether any client may have to be told.
    pub(crate) fn replace(&mut self, offers: Offers, editions: &AtomicU64) -> bool {
        let mut differs = self.fresh_only != offers.fresh_only;
        self.fresh_only = offers.fresh_only;
        differs |= self.everyone.replace(offers.everyone, editions);
        differs |= replace_all(&mut self.builds, offers.builds, &self.everyone, editions);
        differs |= replace_all(&mut self.nodes, offers.nodes, &self.everyone, editions);
        differs
    }

    /// What this Envoy is offered, unless it is what it has seen.
    pub(crate) fn offer(&self, envoy: &EnvoyId, seen: Option<Edition>) -> Option<Offer> {
        let of_build = || self.builds.get(&envoy.build);
        let audience = self.nodes.get(&envoy.node).or_else(of_build).unwrap_or(&self.everyone);
        let edition = Edition { number: audience.edition, fresh_only: self.fresh_only };
        (seen != Some(edition)).then(|| Offer { edition, snapshot: audience.published.snapshot().clone() })
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

    /// Another audience that starts with what this one has.
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
