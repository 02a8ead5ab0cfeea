//! Duplicate matches: matches of two route objects at one host. The older object gets the requests; the other object is
//! reported with the winner.
//!
//! Duplicates are computed on request, for reports: serving depends only on the order of routes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_api::section::ObjectSection;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_envoy::model::{Match, NamedMatch, PathMatch};
use holdfast_graph::ObjectKey;

use crate::assembly::fleet::Fleet;
use crate::httpproxy;
use crate::outcome::route::Rendered;

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

/// The conditions of a route in a canonical order.
#[derive(PartialEq, Eq, Hash)]
struct CanonicalMatch<'a> {
    path: &'a PathMatch,
    method: Option<&'a str>,
    headers: Vec<&'a NamedMatch>,
    query: Vec<&'a NamedMatch>,
    grpc: bool,
}

impl<'a> CanonicalMatch<'a> {
    fn new(matches: &'a Match) -> Self {
        let Match { path, method, headers, query, grpc } = matches;
        let sorted = |list: &'a [NamedMatch]| {
            let mut list: Vec<&NamedMatch> = list.iter().collect();
            list.sort_unstable();
            list
        };
        Self { path, method: method.as_deref(), headers: sorted(headers), query: sorted(query), grpc: *grpc }
    }
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
    /// Returns the duplicate matches of the fleet's route objects. A host with routes of one object has none, so that
    /// matches are compared at few hosts.
    pub(crate) fn duplicates(&self) -> Duplicates {
        let mut found: BTreeMap<_, BTreeSet<(TableName, Host)>> = BTreeMap::new();
        let mut lost: HashMap<&ObjectKey, usize> = HashMap::new();
        for (table, host, routes) in self.hosts_in_order() {
            let routes: Vec<_> = routes.filter(|rendered| !httpproxy::is_proxy(&rendered.route.key)).collect();
            let Some(owner) = routes.first().map(|rendered| &rendered.route.key) else { continue };
            if routes.iter().all(|rendered| rendered.route.key == *owner) {
                continue;
            }
            let mut first: HashMap<CanonicalMatch<'_>, &ObjectKey> = HashMap::new();
            for rendered in routes {
                let key = &rendered.route.key;
                let winner = *first.entry(CanonicalMatch::new(&rendered.route.matches)).or_insert(key);
                if winner != key {
                    *lost.entry(key).or_default() += 1;
                    let at = (key, section_of(rendered), winner);
                    found.entry(at).or_default().insert((table.clone(), host.clone()));
                }
            }
        }
        let mut duplicates = Duplicates { wholly: self.wholly(&lost), ..Duplicates::default() };
        for ((loser, section, winner), places) in found {
            let duplicate = Duplicate { section, winner: winner.clone(), places };
            duplicates.lost.entry(loser.clone()).or_default().push(duplicate);
        }
        duplicates
    }

    /// Returns the objects that lost as many matches as they have in all.
    fn wholly(&self, lost: &HashMap<&ObjectKey, usize>) -> BTreeSet<ObjectKey> {
        if lost.is_empty() {
            return BTreeSet::new();
        }
        let mut placed: HashMap<&ObjectKey, usize> = HashMap::new();
        for rendered in self.hosts_in_order().flat_map(|(_, _, routes)| routes) {
            if lost.contains_key(&rendered.route.key) {
                *placed.entry(&rendered.route.key).or_default() += 1;
            }
        }
        let wholly = lost.iter().filter(|(key, lost)| placed.get(*key) == Some(lost));
        wholly.map(|(key, _)| ObjectKey::clone(key)).collect()
    }
}

/// Returns the match that a route is, as in `rules[0].matches[1]`.
fn section_of(rendered: &Rendered) -> String {
    let precedence = &rendered.route.precedence;
    format!("{}.matches[{}]", ObjectSection::Rule(precedence.rule), precedence.entry)
}
