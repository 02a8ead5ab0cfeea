//! The order of routes in a host: total, and the same whatever order the routes came in.
//!
//! Exact paths come before regular expressions and those before prefixes, the longer before the shorter, more headers
//! before fewer, more query parameters before fewer; what is still equal is sorted by what it says. What stands for
//! something broken comes after what is equal so far, and before what is broader.

use std::cmp::Ordering;

use super::conditions::Conditions;
use super::path::Path;
use crate::model::{NamedMatch, ValueMatch};

/// A route's place among the others of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank<'a> {
    /// What it asks for.
    pub(crate) conditions: &'a Conditions,
    /// How it ranks among those that ask for the same path.
    pub(crate) standing: Standing,
}

/// Whether somebody wrote a route; those that nobody wrote come after those for the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Standing {
    /// Somebody wrote it.
    Written,
    /// It was made by the expansion of a rewrite.
    Implicit,
    /// It stands for something of which only a part can be told.
    Placeholder,
    /// It stands for a regular expression of which a beginning can be read, of so many characters at least.
    Beginning(usize),
    /// It stands for something of which nothing can be told, and comes after all others.
    Last,
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.conditions, other.conditions);
        let last = |rank: &Self| rank.standing == Standing::Last;
        last(self)
            .cmp(&last(other))
            .then_with(|| self.kind().cmp(&other.kind()))
            .then_with(|| other.length().cmp(&self.length()))
            .then_with(|| b.path.text().cmp(a.path.text()))
            .then_with(|| self.is_implicit().cmp(&other.is_implicit()))
            .then_with(|| b.headers.len().cmp(&a.headers.len()))
            .then_with(|| b.query.len().cmp(&a.query.len()))
            .then_with(|| self.standing.cmp(&other.standing))
            .then_with(|| a.headers.iter().map(key).cmp(b.headers.iter().map(key)))
            .then_with(|| a.query.iter().map(key).cmp(b.query.iter().map(key)))
            .then_with(|| a.path.cmp(&b.path))
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Rank<'_> {
    fn kind(&self) -> u8 {
        match self.conditions.path {
            // The path without its slash ranks as the prefix that nobody wrote would.
            Path::Exact(_) if self.standing == Standing::Implicit => 2,
            Path::Exact(_) => 0,
            // It ranks as a prefix does, so that narrower prefixes come first.
            Path::Regex(_) if matches!(self.standing, Standing::Beginning(_)) => 2,
            Path::Regex(_) => 1,
            Path::Prefix(_) => 2,
        }
    }

    fn length(&self) -> usize {
        match self.standing {
            Standing::Beginning(told) => told,
            _ => self.conditions.path.text().chars().count(),
        }
    }

    fn is_implicit(&self) -> bool {
        self.standing == Standing::Implicit
    }
}

/// Values before patterns before presence, and what must be before what must not be.
fn key(condition: &NamedMatch) -> (&str, u8, bool, &NamedMatch) {
    let kind = match condition.value {
        ValueMatch::Exact(_) => 0,
        ValueMatch::Regex(_) => 1,
        ValueMatch::Like(_) => 2,
        ValueMatch::Present => 3,
    };
    (&condition.name, kind, condition.inverted, condition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Like, Part};

    /// Conditions that overlap in every way: paths, and headers and parameters of every kind.
    fn all() -> Vec<Conditions> {
        let text = |value: &str| ValueMatch::Exact(value.into());
        let contains =
            |value: &str| ValueMatch::Like(Like { part: Part::Contains, text: value.into(), ignore_case: false });
        let values = [text("1"), text("2"), ValueMatch::Regex("1.*".into()), contains("1"), contains("2")];
        let values = values.into_iter().chain([ValueMatch::Present]);
        let named =
            |name: &str, value: &ValueMatch, inverted| NamedMatch { inverted, ..NamedMatch::new(name, value.clone()) };
        let mut sets = vec![Vec::new()];
        for value in values {
            for inverted in [false, true] {
                sets.push(vec![named("a", &value, inverted)]);
                sets.push(vec![named("a", &value, inverted), named("b", &text("1"), false)]);
                sets.push(vec![named("a", &text("1"), false), named("b", &value, inverted)]);
            }
        }
        let regex = Path::Regex("(?:/a|/b).*".into());
        let paths = [Path::Prefix("/a".into()), Path::Exact("/a".into()), Path::Prefix("/b".into()), regex];
        let mut all = Vec::new();
        for path in paths {
            for set in &sets {
                let (set, none) = (set.iter().cloned().collect(), std::collections::BTreeSet::new);
                all.push(Conditions { path: path.clone(), headers: std::clone::Clone::clone(&set), query: none() });
                all.push(Conditions { path: path.clone(), headers: none(), query: set });
            }
        }
        all.dedup();
        all
    }

    #[test]
    fn the_order_is_total() {
        let all = all();
        let standings = [
            Standing::Written,
            Standing::Implicit,
            Standing::Placeholder,
            Standing::Beginning(2),
            Standing::Beginning(1),
            Standing::Last,
        ];
        let ranks = all.iter().zip(standings.iter().cycle());
        let ranks: Vec<Rank<'_>> =
            ranks.map(|(conditions, standing)| Rank { conditions, standing: *standing }).collect();
        for a in &ranks {
            for b in &ranks {
                assert_eq!(a.cmp(b), b.cmp(a).reverse(), "{a:?} and {b:?}");
                assert_eq!(a.cmp(b) == Ordering::Equal, a == b, "{a:?} and {b:?}");
            }
        }
        // Each comes before all that the sorted list has after it: no three go round in a circle.
        let mut sorted: Vec<&Rank<'_>> = ranks.iter().collect();
        sorted.sort();
        for (index, a) in sorted.iter().enumerate() {
            assert!(sorted.iter().skip(index).all(|b| a.cmp(b) != Ordering::Greater), "{a:?}");
        }
    }
}
