//! What an answer means for what its client has, and whom it tells anything about.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::blame::{Blame, blame, reason};
use crate::connection::{Protocol, Verdict};
use crate::cursor::Cursor;
use crate::due::Held;
use crate::flight::{Flight, Item};
use crate::scrub::scrub;
use crate::{Outcome, ResourceType, Version};

/// Takes in the answer to a response: with an error it is a refusal, without one it never is.
///
/// A refusal of a single resource is that resource's; it is never sent again on this stream. A refusal of several
/// clusters or listeners is that of those which Envoy names; the others it has applied. Where it names none, it has
/// applied nothing and the fault of one has hit all: they are sent again, alone (or, where a response must be complete,
/// in halves), and judged by the answers to that.
pub(crate) fn land(cursor: &mut Cursor, flight: Flight, error: Option<&str>, now: u64) -> Vec<Verdict> {
    let Some(error) = error else {
        return verdicts(cursor, Outcome::Acknowledged, names_of(&flight.items));
    };
    let refused = || Outcome::Refused { message: scrub(error) };
    let resources = flight.resources();
    if resources == 0 {
        return verdicts(cursor, refused(), names_of(&flight.items));
    }
    let names = flight.items.iter().filter(|item| item.version.is_some()).map(|item| &*item.name);
    let (blamed, rest): (BTreeSet<String>, Rest) = if resources == 1 {
        (names.map(str::to_owned).collect(), Rest::Unknown)
    } else {
        match blame(error, names) {
            Blame::Exactly(names) => (names.into_iter().map(str::to_owned).collect(), Rest::Applied),
            Blame::AtLeast(names) => (names.into_iter().map(str::to_owned).collect(), Rest::Unknown),
            Blame::Nobody => (BTreeSet::new(), Rest::Unknown),
        }
    };
    // Alone each answer tells of one resource. Complete responses would be as many as large: halves end sooner.
    let company = if cursor.must_be_complete() { (resources / 2).max(1) } else { 1 };
    let since = [flight.changes_since, flight.removals_since].into_iter().flatten().min().unwrap_or(now);
    let (bad, others): (Vec<Item>, Vec<Item>) =
        flight.items.into_iter().partition(|item| item.version.is_some() && blamed.contains(&*item.name));
    let named: Vec<&str> = bad.iter().map(|item| &*item.name).collect();
    let is_listener = cursor.kind == ResourceType::Listener;
    let mut told = match bad.len() {
        // Of each listener its own reason: one may be for its content, and another for an address that is in use.
        2.. if is_listener => bad
            .iter()
            .flat_map(|item| {
                let message = scrub(&reason(error, &item.name, &named));
                verdicts(cursor, Outcome::Refused { message }, names_of(std::slice::from_ref(item)))
            })
            .collect(),
        _ => verdicts(cursor, refused(), names_of(&bad)),
    };
    for item in bad {
        refuse(cursor, item, since);
    }
    match rest {
        Rest::Applied => told.extend(verdicts(cursor, Outcome::Acknowledged, names_of(&others))),
        Rest::Unknown => others.into_iter().for_each(|item| retry(cursor, item, company, since)),
    }
    told
}

/// What became of the resources that a refusal doesn't blame.
enum Rest {
    Applied,
    Unknown,
}

fn names_of(items: &[Item]) -> Vec<(Arc<str>, Option<Version>)> {
    items.iter().map(|item| (item.name.clone(), item.version)).collect()
}

fn verdicts(cursor: &Cursor, outcome: Outcome, resources: Vec<(Arc<str>, Option<Version>)>) -> Vec<Verdict> {
    if resources.is_empty() { Vec::new() } else { vec![Verdict { kind: cursor.kind, outcome, resources }] }
}

/// This content is never sent again.
fn refuse(cursor: &mut Cursor, item: Item, since: u64) {
    let Some(version) = item.version else { return };
    cursor.refusals.add(item.name.clone(), version);
    let mut due = cursor.lift(&item.name, since);
    // A complete response must go on repeating what the client had before.
    if cursor.must_be_complete() && due.held.is(version) {
        due.held = item.before;
    }
    // What was to be sent again is not, if it is this; a newer content still is.
    due.again &= cursor.seen.get(&item.name).is_none_or(|resource| resource.version != version);
    cursor.place(item.name, due);
}

/// This was refused in company: it goes once more, in less. What waits for it waits on, also for a newer content.
fn retry(cursor: &mut Cursor, item: Item, company: usize, since: u64) {
    let mut due = cursor.lift(&item.name, since);
    if cursor.seen.contains_key(&item.name) {
        due.since = due.since.min(since);
    }
    match item.version {
        Some(version) if due.held.is(version) => {
            if cursor.must_be_complete() {
                due.held = item.before;
            }
            due.again = true;
            due.company = company;
        }
        Some(_) => {}
        // It may well have the resource still: told once more that it is gone.
        None if matches!(due.held, Held::Nothing | Held::Absent) && cursor.protocol == Protocol::Sotw => {
            due.held = item.before;
        }
        None if matches!(due.held, Held::Nothing | Held::Absent) => {
            due.held = Held::Has { version: None, resource: None };
        }
        None => {}
    }
    cursor.place(item.name, due);
}
