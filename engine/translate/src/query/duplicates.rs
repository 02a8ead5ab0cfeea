//! Duplicate matches: matches of two route objects at one host. The older object gets the requests; the other object is
//! reported with the winner.
//!
//! Lost matches are found where a host is finished, and reports read them: serving depends only on the order of routes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_api::fault::{Class, Fault};
use holdfast_api::section;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;

use crate::assembly::fleet::Fleet;
use crate::overlay::Overlay;

/// Hosts that a report names; further hosts are only counted.
const HOSTS_SHOWN: usize = 3;
/// The field of faults about a match that only an earlier version has at its position.
const RULES: &str = "spec.rules";

/// A match of a route object that an older object also has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The match, as in `rules[0].matches[1]`.
    section: String,
    /// Whether an earlier version of the object is served, which has the match.
    is_earlier: bool,
    /// The object that gets the requests.
    winner: ObjectKey,
    /// The affected hosts of each table.
    places: BTreeSet<(TableName, Host)>,
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
    /// Returns the match and the duplicate as a sentence.
    pub fn sentence(&self) -> String {
        let of_version = if self.is_earlier { " of the last valid version, which is served" } else { "" };
        format!("{}{of_version}: {}", self.section, self.message())
    }

    /// Returns the duplicate as a fault of its object. The desired version may have another match at the position.
    pub(super) fn fault(&self, key: &ObjectKey) -> Fault {
        let (field, message) = match self.is_earlier {
            true => (RULES.to_owned(), self.sentence()),
            false => (section::field(&self.section), self.message()),
        };
        Fault::new(key, Class::Conflict, field, "DuplicateMatch", message)
    }

    fn message(&self) -> String {
        let hosts: BTreeSet<&str> = self.places.iter().map(|(_, host)| host.domain()).collect();
        let shown = hosts.iter().take(HOSTS_SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = match hosts.len().saturating_sub(HOSTS_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let Self { winner, .. } = self;
        let (kind, name) = (&winner.kind, winner.namespaced_name());
        // A match of an earlier version yields to newer objects too.
        let older = if self.is_earlier { "" } else { "the older " };
        format!("{older}{kind} {name} has the same match and gets the requests instead, for {shown}{more}")
    }
}

impl Fleet {
    /// Returns the duplicate matches of the fleet's route objects, some of which are served in an earlier version.
    pub(crate) fn duplicates(&self, earlier: Option<&Overlay>) -> Duplicates {
        let mut found: BTreeMap<_, BTreeSet<(TableName, Host)>> = BTreeMap::new();
        let mut lost: HashMap<&ObjectKey, usize> = HashMap::new();
        for (place, one) in self.lost_matches.each() {
            *lost.entry(&one.loser).or_default() += 1;
            found.entry((&one.loser, &one.section, &one.winner)).or_default().insert(place.clone());
        }
        let mut duplicates = Duplicates { wholly: self.wholly(&lost), ..Duplicates::default() };
        for ((loser, section, winner), places) in found {
            let is_earlier = earlier.is_some_and(|earlier| earlier.objects.contains_key(loser));
            let duplicate = Duplicate { section: section.clone(), is_earlier, winner: winner.clone(), places };
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
