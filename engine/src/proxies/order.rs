//! The order of routes in a host: total, and the same whatever order the routes came in.
//!
//! Exact paths come before regular expressions and those before prefixes, the longer before the shorter, more headers
//! before fewer, more query parameters before fewer; what is still equal is sorted by what it says.

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
            .then_with(|| length(&b.path).cmp(&length(&a.path)))
            .then_with(|| b.path.text().cmp(a.path.text()))
            .then_with(|| self.standing.cmp(&other.standing))
            .then_with(|| b.headers.len().cmp(&a.headers.len()))
            .then_with(|| b.query.len().cmp(&a.query.len()))
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
            Path::Regex(_) => 1,
            Path::Prefix(_) => 2,
        }
    }
}

fn length(path: &Path) -> usize {
    path.text().chars().count()
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
