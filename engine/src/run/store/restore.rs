//! What a store holds, as the engine takes it in at the start.

use holdfast_store::{LastValidStore, Scope, StoreError};

use crate::apis::document;
use crate::fallback::restored::Restored;

/// Reads everything. What cannot be read of one scope is told and left out; the rest counts.
///
/// # Errors
/// Where the store cannot even say what it holds.
pub fn restore(store: &impl LastValidStore) -> Result<(Restored, Vec<String>), StoreError> {
    let (mut restored, mut notices) = (Restored::default(), Vec::new());
    for scope in store.scopes()? {
        if let Err(error) = scope_of(store, &scope, &mut restored) {
            notices.push(format!("what is stored of {} and Envoy {} is left out: {error}", scope.gateway, scope.build));
        }
    }
    Ok((restored, notices))
}

fn scope_of(store: &impl LastValidStore, scope: &Scope, restored: &mut Restored) -> Result<(), StoreError> {
    let mut objects = Vec::new();
    for key in store.objects(scope)? {
        // The newest comes first from the store, and last to the engine.
        for stored in store.versions(scope, &key)?.iter().rev() {
            objects.extend(document::restored(stored).map(|object| (object, stored.since)));
        }
    }
    restored.add(scope.clone(), objects, store.configuration(scope)?, store.verdicts(scope)?);
    Ok(())
}
