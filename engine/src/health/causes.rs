//! Causes: which problems follow from problems of other objects.
//!
//! A problem that follows from another one is no finding of its own: it is a part of the finding of its cause.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::fault::Class;
use holdfast_check::certificate::DateFault;
use holdfast_graph::ObjectKey;

use super::facts::ObjectProblem;

/// Returns, for each problem, the problems that it follows from; the problem itself where no other one is its cause.
pub(super) fn roots(found: &[ObjectProblem]) -> Vec<BTreeSet<usize>> {
    let possible = possible(found);
    (0..found.len()).map(|index| root(index, found, &possible)).collect()
}

/// Returns the problems that can be a cause, by object: those that prevent something from being served, and certificates
/// that expire soon.
fn possible(found: &[ObjectProblem]) -> BTreeMap<ObjectKey, Vec<usize>> {
    let mut possible: BTreeMap<ObjectKey, Vec<usize>> = BTreeMap::new();
    let is_possible = |problem: &ObjectProblem| problem.class != Class::Ignored || is_expiring(problem);
    for (index, problem) in found.iter().enumerate().filter(|(_, problem)| is_possible(problem)) {
        possible.entry(problem.object.key()).or_default().push(index);
    }
    possible
}

/// Returns whether a problem is a warning about a certificate that expires soon.
fn is_expiring(problem: &ObjectProblem) -> bool {
    let [.., expiring] = DateFault::REASONS;
    problem.reason == expiring
}

fn root(index: usize, found: &[ObjectProblem], possible: &BTreeMap<ObjectKey, Vec<usize>>) -> BTreeSet<usize> {
    let (mut known, mut next, mut roots) = (BTreeSet::from([index]), vec![index], BTreeSet::new());
    while let Some(index) = next.pop() {
        let Some(problem) = found.get(index) else { continue };
        let cause = problem.cause.as_ref().filter(|cause| **cause != problem.object.key());
        let is_behind = |index: &usize| found.get(*index).is_some_and(|one| is_expiring(one) == is_expiring(problem));
        let behind = cause.and_then(|cause| possible.get(cause)).into_iter().flatten().copied().filter(is_behind);
        let behind: Vec<usize> = behind.collect();
        if behind.is_empty() {
            roots.insert(index);
        } else {
            next.extend(related(problem, &behind, found).into_iter().filter(|index| known.insert(*index)));
        }
    }
    // Problems that name each other as causes have no other one.
    if roots.is_empty() { BTreeSet::from([index]) } else { roots }
}

/// Returns the problems of the cause that a problem can follow from: a lost conflict has consequences of its own class,
/// and a message that quotes the messages of some problems is about these. All are returned if none is of that sort.
fn related(problem: &ObjectProblem, behind: &[usize], found: &[ObjectProblem]) -> Vec<usize> {
    let is_conflict = |problem: &ObjectProblem| problem.class == Class::Conflict;
    let is_alike = |one: &ObjectProblem| is_conflict(one) == is_conflict(problem);
    let is_quoted = |one: &ObjectProblem| !one.message.is_empty() && problem.message.contains(&one.message);
    let alike = narrowed(behind, found, is_alike);
    narrowed(&alike, found, is_quoted)
}

/// Returns the problems of this sort; all if there is none.
fn narrowed(all: &[usize], found: &[ObjectProblem], is_meant: impl Fn(&ObjectProblem) -> bool) -> Vec<usize> {
    let meant = all.iter().copied().filter(|index| found.get(*index).is_some_and(&is_meant));
    let meant: Vec<usize> = meant.collect();
    if meant.is_empty() { all.to_vec() } else { meant }
}
