//! Conversion of a store's contents to the engine's form at the start.

use holdfast_api::apis::document;
use holdfast_api::object::Object;
use holdfast_store::{LastValidStore, Scope, StoreError, StoredObject};

use super::restored::Restored;

/// Reads the whole store. A scope that cannot be read is left out with a notice.
///
/// # Errors
/// Returns an error if not even the scopes can be listed.
pub fn restore(store: &impl LastValidStore) -> Result<(Restored, Vec<String>), StoreError> {
    restore_with(store, decoded)
}

/// As [`restore`]; `decode` does the same as [`decoded`], perhaps in parts at the same time.
///
/// # Errors
/// As [`restore`].
pub fn restore_with(
    store: &impl LastValidStore,
    decode: fn(&[StoredObject]) -> Vec<(Object, i64)>,
) -> Result<(Restored, Vec<String>), StoreError> {
    let (mut restored, mut notices) = (Restored::default(), Vec::new());
    for scope in store.scopes()? {
        if let Err(error) = scope_of(store, &scope, decode, &mut restored) {
            notices.push(format!(
                "the stored state of Gateway {} and Envoy {} cannot be read, and is ignored: {error}",
                scope.gateway, scope.build
            ));
        }
    }
    Ok((restored, notices))
}

fn scope_of(
    store: &impl LastValidStore,
    scope: &Scope,
    decode: fn(&[StoredObject]) -> Vec<(Object, i64)>,
    restored: &mut Restored,
) -> Result<(), StoreError> {
    let mut stored = Vec::new();
    for key in store.objects(scope)? {
        // The store returns the newest version first; the engine expects it last.
        stored.extend(store.versions(scope, &key)?.into_iter().rev());
    }
    restored.add(scope.clone(), decode(&stored), store.configuration(scope)?, store.verdicts(scope)?);
    Ok(())
}

/// Decodes stored versions, in their order. A version that does not decode as it was stored is left out.
pub fn decoded(stored: &[StoredObject]) -> Vec<(Object, i64)> {
    stored.iter().filter_map(|stored| Some((document::restored(stored)?, stored.since))).collect()
}
