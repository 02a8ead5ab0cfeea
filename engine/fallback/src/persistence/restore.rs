//! Conversion of a store's contents to the engine's form at the start.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use holdfast_api::apis::document;
use holdfast_api::object::Object;
use holdfast_store::{LastValidStore, Scope, StoreError, StoredObject};

use super::restored::Restored;

/// Minimum number of stored versions for which a thread is worth its start.
const VERSIONS_OF_THREAD: usize = 256;

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
    restored.add(scope.clone(), decoded(&stored), store.configuration(scope)?, store.verdicts(scope)?);
    Ok(())
}

/// Decodes the stored versions, in their order. A large store is decoded on all cores: the stored configuration is served
/// only after that.
fn decoded(stored: &[StoredObject]) -> Vec<(Object, i64)> {
    let decode = |part: &[StoredObject]| -> Vec<(Object, i64)> {
        part.iter().filter_map(|stored| Some((document::restored(stored)?, stored.since))).collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let length = stored.len().div_ceil(threads).max(VERSIONS_OF_THREAD);
    let (own, others) = stored.split_at(length.min(stored.len()));
    thread::scope(|scope| {
        let others: Vec<_> = others.chunks(length).map(|part| scope.spawn(move || decode(part))).collect();
        let mut all = decode(own);
        others.into_iter().for_each(|part| all.extend(part.join().unwrap_or_else(|panic| resume_unwind(panic))));
        all
    })
}
