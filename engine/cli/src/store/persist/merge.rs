//! Merging of waiting changes: removes changes that later ones supersede.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_store::record::VERSIONS_KEPT;
use holdfast_store::{Batch, Change};

/// The weight of a batch: its changes, and the resources in them.
pub(super) fn weight(batch: &Batch) -> usize {
    let more = |change: &Change| if let Change::Acknowledge(_, resources) = change { resources.len() } else { 0 };
    batch.changes().iter().map(|change| 1 + more(change)).sum()
}

/// The batch without superseded changes, with the same result.
pub(super) fn merged(batch: Batch) -> Batch {
    let (mut promoted, mut forgotten) = (BTreeMap::new(), BTreeSet::new());
    let (mut acknowledged, mut judged, mut gone) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    // From the last to the first: a change about a subject that was already seen is superseded.
    let mut kept: Vec<Change> = batch
        .into_changes()
        .into_iter()
        .rev()
        .filter(|change| match change {
            Change::Promote(scope, object) => {
                let later: &mut Vec<_> = promoted.entry((scope.clone(), object.key.clone())).or_default();
                let version = (object.uid.clone(), object.payload.clone());
                let new = !later.contains(&version);
                if new {
                    later.push(version);
                }
                new && later.len() <= VERSIONS_KEPT
                    && !forgotten.contains(&object.key)
                    && !gone.contains(&scope.gateway)
            }
            Change::Forget(key) => forgotten.insert(key.clone()),
            Change::Acknowledge(scope, _) => acknowledged.insert(scope.clone()) && !gone.contains(&scope.gateway),
            Change::Convict(scope, verdict) => {
                judged.insert((scope.clone(), verdict.content)) && !gone.contains(&scope.gateway)
            }
            Change::Acquit(scope, content) => {
                judged.insert((scope.clone(), *content)) && !gone.contains(&scope.gateway)
            }
            Change::ForgetGateway(gateway) => gone.insert(gateway.clone()),
        })
        .collect();
    kept.reverse();
    kept.into_iter().fold(Batch::default(), Batch::with)
}
