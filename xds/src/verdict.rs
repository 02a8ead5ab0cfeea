//! Evaluation of an answer: its effect on what the client has, and the verdicts about resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::blame::{Blame, blame, reason};
use crate::connection::{ClientVerdict, Protocol};
use crate::cursor::Cursor;
use crate::due::LastSent;
use crate::flight::{SentName, UnansweredResponse};
use crate::scrub::scrub;
use crate::{Outcome, ResourceType, Version};

/// Evaluates the answer to a response: with an error it is a refusal, otherwise never.
///
/// A refusal of a single resource blames this resource, which is never sent again on this stream. A refusal of several
/// clusters or listeners blames those that Envoy names; the others were applied. Where Envoy names none, it has applied
/// nothing, and the fault of one resource affected all: they are sent again separately (or, where a response must be
/// complete, in halves), and are judged by the answers to these responses.
pub(crate) fn land(
    cursor: &mut Cursor,
    flight: UnansweredResponse,
    error: Option<&str>,
    now: u64,
) -> Vec<ClientVerdict> {
    let Some(error) = error else {
        cursor.accept(flight.nonce, &flight.items);
        return verdicts(cursor, Outcome::Acknowledged, names_of(&flight.items));
    };
    let refused = || Outcome::Refused { message: scrub(error) };
    let resources = flight.resources();
    if resources == 0 {
        return verdicts(cursor, refused(), names_of(&flight.items));
    }
    let names = flight.items.iter().filter(|item| item.version.is_some()).map(|item| &*item.name);
    let (blamed, rest): (BTreeSet<String>, RestOfResponse) = if resources == 1 {
        (names.map(str::to_owned).collect(), RestOfResponse::Unknown)
    } else {
        match blame(error, names) {
            Blame::Exactly(names) => (names.into_iter().map(str::to_owned).collect(), RestOfResponse::Applied),
            Blame::AtLeast(names) => (names.into_iter().map(str::to_owned).collect(), RestOfResponse::Unknown),
            Blame::Unnamed => (BTreeSet::new(), RestOfResponse::Unknown),
        }
    };
    // A response for a single resource gives a verdict about this resource. Complete responses would be both many and
    // large, so halves end sooner.
    let company = if cursor.must_be_complete() { (resources / 2).max(1) } else { 1 };
    let since = [flight.changes_since, flight.removals_since].into_iter().flatten().min().unwrap_or(now);
    let (bad, others): (Vec<SentName>, Vec<SentName>) =
        flight.items.into_iter().partition(|item| item.version.is_some() && blamed.contains(&*item.name));
    let named: Vec<&str> = bad.iter().map(|item| &*item.name).collect();
    let is_listener = cursor.kind == ResourceType::Listener;
    let mut result = match bad.len() {
        // Each listener has its own reason: one may be refused for its content, and another for an address that is in
        // use.
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
        RestOfResponse::Applied => {
            cursor.accept(flight.nonce, &others);
            result.extend(verdicts(cursor, Outcome::Acknowledged, names_of(&others)));
        }
        RestOfResponse::Unknown => others.into_iter().for_each(|item| retry(cursor, item, company, since)),
    }
    result
}

/// The outcome for the resources that a refusal does not blame.
enum RestOfResponse {
    Applied,
    Unknown,
}

fn names_of(items: &[SentName]) -> Vec<(Arc<str>, Option<Version>)> {
    items.iter().map(|item| (item.name.clone(), item.version)).collect()
}

fn verdicts(cursor: &Cursor, outcome: Outcome, resources: Vec<(Arc<str>, Option<Version>)>) -> Vec<ClientVerdict> {
    if resources.is_empty() { Vec::new() } else { vec![ClientVerdict { kind: cursor.kind, outcome, resources }] }
}

/// Records that this content is never sent again.
fn refuse(cursor: &mut Cursor, item: SentName, since: u64) {
    let Some(version) = item.version else { return };
    cursor.refusals.add(item.name.clone(), version);
    let mut due = cursor.lift(&item.name, since);
    // A complete response must continue to repeat the previous resource.
    if cursor.must_be_complete() && due.held.is(version) {
        due.held = item.before;
    }
    // A scheduled resend is cancelled for this content, but not for a newer one.
    due.again &= cursor.seen.get(&item.name).is_none_or(|resource| resource.version != version);
    cursor.place(item.name, due);
}

/// Sends a resource that was refused together with others once more, with fewer others. Names that wait for it keep
/// waiting, also with a newer content.
fn retry(cursor: &mut Cursor, item: SentName, company: usize, since: u64) {
    cursor.accepted.lose(item.name.clone());
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
        // The client may still have the resource: its removal is sent once more.
        None if matches!(due.held, LastSent::Nothing | LastSent::Absent) && cursor.protocol == Protocol::Sotw => {
            due.held = item.before;
        }
        None if matches!(due.held, LastSent::Nothing | LastSent::Absent) => {
            due.held = LastSent::Has { version: None, resource: None };
        }
        None => {}
    }
    cursor.place(item.name, due);
}
