//! Excerpt of what the scopes know about some objects, in the form of a store.
//!
//! A trial of one object needs the last valid versions and the refusals of that object and of the objects around it, and
//! must not change the scopes themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_store::shards::ScopeOffers;
use holdfast_xds::Snapshot;

use crate::evidence::accepted_by::AcceptedBy;
use crate::persistence::restored::{Restored, RestoredScope};
use crate::persistence::restored_version::RestoredVersion;
use crate::scope::FallbackScope;

/// Returns the last valid versions and the refusals of these objects in scopes of Gateways among them, without any
/// configuration.
pub fn excerpt<'a>(scopes: impl Iterator<Item = &'a FallbackScope>, keys: &BTreeSet<ObjectKey>) -> Restored {
    let scopes = scopes.filter(|scope| !scope.id.is_apart() && keys.contains(&scope.id.gateway));
    Restored { scopes: scopes.map(|scope| of_scope(scope, keys)).collect() }
}

fn of_scope(scope: &FallbackScope, keys: &BTreeSet<ObjectKey>) -> RestoredScope {
    let newest_last = |key| scope.evidence.last_valid.of(key, None).collect::<Vec<_>>().into_iter().rev();
    let verdicts = keys.iter().flat_map(|key| scope.verdicts.quarantine.of(key));
    RestoredScope {
        gateway: scope.id.name.clone(),
        build: scope.id.build.clone(),
        snapshot: Snapshot::default(),
        versions: keys.iter().flat_map(newest_last).cloned().map(RestoredVersion::Known).collect(),
        verdicts: verdicts.map(|(content, verdict)| (content, verdict.clone())).collect(),
        accepted_by: AcceptedBy::default(),
        offers: ScopeOffers::default(),
    }
}

/// Returns the versions of an object in all scopes.
pub fn versions<'a>(restored: &'a Restored, key: &'a ObjectKey) -> impl Iterator<Item = Arc<Object>> {
    let versions = restored.scopes.iter().flat_map(|scope| &scope.versions);
    versions.filter(move |version| version.key() == key).filter_map(|version| Some(version.version()?.object))
}
