//! Duplicate matches: matches of two route objects at one host. The older object gets the requests; the other object is
//! reported with the winner.
//!
//! Lost matches are found where a host is finished, and reports read them: serving depends only on the order of routes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;

use crate::assembly::fleet::Fleet;

/// Hosts that a report names; further hosts are only counted.
const HOSTS_SHOWN: usize = 3;

/// A match of a route object that an older object also has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The match, as in `rules[0].matches[1]`.
    pub section: String,
    /// The object that gets the requests.
    pub(crate) winner: ObjectKey,
    /// The affected hosts of each table.
    pub places: BTreeSet<(TableName, Host)>,
}

/// Duplicate matches of the route objects of one Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// The duplicates, by the object that lost.
    pub lost: BTreeMap<ObjectKey, Vec<Duplicate>>,
    /// The objects that lost all their matches.
    pub wholly: BTreeSet<ObjectKey>,
}

impl Duplicate {
    /// Returns the duplicate as a sentence.
    pub fn message(&self) -> String {
        let hosts: BTreeSet<&str> = self.places.iter().map(|(_, host)| host.domain()).collect();
        let shown = hosts.iter().take(HOSTS_SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = match hosts.len().saturating_sub(HOSTS_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let Self { winner, .. } = self;
        let (kind, name) = (&winner.kind, winner.namespaced_name());
        format!("the older {kind} {name} has the same match and gets the requests instead, for {shown}{more}")
    }
}

impl Fleet {
    /// Returns the duplicate matches of the fleet's route objects.
    pub(crate) fn duplicates(&self) -> Duplicates {
        let mut found: BTreeMap<_, BTreeSet<(TableName, Host)>> = BTreeMap::new();
        let mut lost: HashMap<&ObjectKey, usize> = HashMap::new();
        for (place, one) in self.lost_matches.each() {
            *lost.entry(&one.loser).or_default() += 1;
            found.entry((&one.loser, &one.section, &one.winner)).or_default().insert(place.clone());
        }
        let mut duplicates = Duplicates { wholly: self.wholly(&lost), ..Duplicates::default() };
        for ((loser, section, winner), places) in found {
            let duplicate = Duplicate { section: section.clone(), winner: winner.clone(), places };
            duplicates.lost.entry(loser.clone()).or_default().push(duplicate);
        }
        duplicates
    }

    /// Returns the objects that lost as many matches as they have in all.
    fn wholly(&self, lost: &HashMap<&ObjectKey, usize>) -> BTreeSet<ObjectKey> {
        let wholly = lost.iter().filter(|(key, lost)| self.routes_at_hosts(key) == **lost);
        wholly.map(|(key, _)| ObjectKey::clone(key)).collect()
    }
}
