//! Conversion of a store's contents to the engine's form at the start.

use holdfast_store::{LastValidStore, Scope, StoreError};

use super::restored::Restored;

/// Reads the whole store. A scope that cannot be read is left out with a notice.
///
/// # Errors
/// Returns an error if not even the scopes can be listed.
pub fn restore(store: &impl LastValidStore) -> Result<(Restored, Vec<String>), StoreError> {
    let (mut restored, mut notices) = (Restored::default(), Vec::new());
    for scope in store.scopes()? {
        if let Err(error) = scope_of(store, &scope, &mut restored) {
            notices.push(format!(
                "the stored state of Gateway {} and Envoy {} cannot be read, and is ignored: {error}",
                scope.gateway, scope.build
            ));
        }
    }
    Ok((restored, notices))
}

fn scope_of(store: &impl LastValidStore, scope: &Scope, restored: &mut Restored) -> Result<(), StoreError> {
    let mut stored = Vec::new();
    for key in store.objects(scope)? {
        // The store returns the newest version first; the engine expects it last.
        stored.extend(store.versions(scope, &key)?.into_iter().rev());
    }
    restored.add(scope.clone(), stored, store.configuration(scope)?, store.verdicts(scope)?);
    Ok(())
}
