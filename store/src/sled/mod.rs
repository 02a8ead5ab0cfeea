//! Store on the disk, with sled.
//!
//! sled calls itself beta, so its results are always verified: every record has the digest with which it was written
//! ([`envelope`]), and is reachable from the root of its generation through tables and pages. A commit writes new
//! payloads, their pages, and a root: the root of the previous generation is kept, with all that it names. A commit is
//! one batch in one tree, and is on the disk before the commit returns.
//!
//! Damaged, foreign or newer stores are set aside and never served; the loss of a store costs only the remembered data.
//! This module does not decide what is stored.

mod envelope;
pub(crate) mod error;
mod folder;
mod form;
mod keys;
mod load;
mod open;
mod rollback;
pub(crate) mod seal;
mod section;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;

use self::envelope::EnvelopeFlaw;
use self::error::SledError;
use self::folder::StoreFiles;
use self::form::{ContentPlace, ResourceEntry, StoredContent, Versions};
use self::keys::Name;
use self::open::Opening;
pub use self::seal::Key;
use self::seal::Sealer;
use self::section::SectionEntry;
use self::state::{Fresh, ScopeSections, SledState, StateChanges};
pub use self::survey::{Survey, SurveyedObject, SurveyedResource, SurveyedScope, survey};
use crate::LastValidStore;
use crate::batch::Batch;
use crate::error::StoreError;
use crate::record::{Scope, Statistics, StoredObject, StoredResource, StoredVerdict};

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Identity of the installation: the cluster and the name of the controller. A store of another installation is not
    /// used.
    pub identity: Arc<str>,
    /// Key for sealing sensitive payloads. Without a key they are kept in memory only.
    pub key: Option<Key>,
}

/// An opened store.
pub struct Opened {
    /// The store.
    pub store: SledStore,
    /// Messages for operators: damage that was found, folders that were set aside.
    pub notices: Vec<String>,
}

/// A store on the disk.
pub struct SledStore {
    folder: PathBuf,
    identity: Arc<str>,
    sealer: Option<Sealer>,
    /// `None` after an error that even reopening did not resolve.
    files: Option<StoreFiles>,
    /// Whether the last commit failed. Then sled accepts no further commits, and must be reopened first.
    failed: bool,
    state: SledState,
    /// Records that only the previous generation names: the next commit removes them.
    expiring: BTreeSet<Name>,
    notices: Vec<String>,
}

impl SledStore {
    /// Opens the store in a folder, which is created where it does not exist. A folder that cannot be used is set aside
    /// under another name beside it.
    ///
    /// # Errors
    /// Fails where a store is impossible: the disk is full, another process uses the folder, or the file system
    /// refuses.
    pub fn open(folder: &Path, options: &Options) -> Result<Opened, StoreError> {
        let sealer = options.key.as_ref().map(Sealer::new);
        let opening = open::open(folder, &options.identity, sealer.as_ref()).map_err(|error| error.at(folder))?;
        let Opening { files, state, unnamed, notices } = opening;
        let mut store = Self {
            folder: folder.to_owned(),
            identity: options.identity.clone(),
            sealer,
            files: Some(files),
            failed: false,
            state,
            expiring: unnamed,
            notices: Vec::new(),
        };
        store.repair();
        Ok(Opened { store, notices })
    }

    /// Checks that there is enough space to open a store in a folder.
    ///
    /// # Errors
    /// Fails where there is not, with the number of free bytes.
    pub fn has_room(folder: &Path) -> Result<(), StoreError> {
        folder::room(folder, 0).map_err(|error| error.at(folder))
    }

    /// Writes a damaged store again without its damaged parts.
    fn repair(&mut self) {
        if self.state.scopes.values().any(|shelf| shelf.is_dirty()) {
            let mut state = self.state.clone();
            state.scopes.retain(|_, shelf| !shelf.is_empty());
            // The damage is already reported; where this write fails, the next commit repeats it.
            self.failed = self.write(state, &Fresh::default()).is_err();
        }
    }

    /// Reopens the store after a commit that failed.
    fn revive(&mut self) -> Result<(), SledError> {
        if let Some(files) = self.files.take() {
            files.close();
        }
        let opening = open::open(&self.folder, &self.identity, self.sealer.as_ref())?;
        let remembered = std::mem::replace(&mut self.state, opening.state);
        self.state.take_over(&remembered);
        self.expiring = opening.unnamed;
        self.files = Some(opening.files);
        self.notices.extend(opening.notices);
        self.failed = false;
        Ok(())
    }

    fn write(&mut self, mut state: SledState, fresh: &Fresh) -> Result<(), SledError> {
        state.generation += 1;
        let sealer = self.sealer.as_ref();
        let writes = write::difference(&self.state, &mut state, fresh, &self.identity, sealer)?;
        if writes.added.is_empty() && writes.dropped.is_empty() {
            // The change, if there is one, is in memory only.
            state.generation = self.state.generation;
            self.state = state;
            return Ok(());
        }
        let Some(files) = &self.files else { return Err(SledError::Other("its files are not open".into())) };
        let mut removed = Vec::new();
        for name in self.expiring.difference(&writes.added) {
            // Includes all chunks.
            for key in files.tree().scan_prefix(name).keys() {
                removed.push(error::guarded(|| key)?);
            }
        }
        files.commit(writes.puts, removed, state.generation)?;
        self.expiring = writes.dropped;
        self.state = state;
        Ok(())
    }

    fn shelf(&self, scope: &Scope) -> Option<&ScopeSections> {
        self.state.scopes.get(scope).map(|shelf| &**shelf)
    }

    fn payload<E: SectionEntry>(
        &self,
        scope: &Scope,
        key: &E::Key,
        content: &StoredContent,
    ) -> Result<Option<Bytes>, StoreError> {
        if let ContentPlace::Memory(bytes) = &content.place {
            return Ok(Some(bytes.clone()));
        }
        let Some(files) = &self.files else {
            return Err(StoreError::Unavailable(format!("{}: its files are not open", self.folder.display())));
        };
        let name = E::name(scope, key, content);
        let read = load::payload(files.tree(), self.sealer.as_ref(), &name, content);
        match read {
            Ok(payload) => Ok(payload.map(Bytes::from)),
            // After a failed commit, sled may also refuse to read: this is no damage.
            Err(EnvelopeFlaw::Unreadable) => {
                Err(StoreError::Unavailable(format!("{}: sled does not return a record", self.folder.display())))
            }
            Err(_) => Err(StoreError::Damaged { name: String::new() }),
        }
    }
}

impl LastValidStore for SledStore {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        if self.failed {
            self.revive().map_err(|error| error.at(&self.folder))?;
        }
        let mut changes =
            StateChanges { state: self.state.clone(), fresh: Fresh::default(), sealer: self.sealer.as_ref() };
        batch.into_changes().into_iter().try_for_each(|change| changes.apply(change))?;
        changes.tidy();
        let StateChanges { state, fresh, .. } = changes;
        self.write(state, &fresh).map_err(|error| {
            self.failed = true;
            error.at(&self.folder)
        })
    }

    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        let some = |shelf: &ScopeSections| {
            let readable = |contents: Vec<&StoredContent>| contents.iter().any(|content| content.readable());
            !shelf.verdicts.is_empty()
                || shelf.objects.iter().any(|(_, versions)| readable(versions.contents()))
                || shelf.resources.iter().any(|(_, resource)| readable(resource.contents()))
        };
        Ok(self.state.scopes.iter().filter(|(_, shelf)| some(shelf)).map(|(scope, _)| scope.clone()).collect())
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        let known = self.shelf(scope).and_then(|shelf| shelf.objects.get(key));
        let mut versions = Vec::new();
        for version in known.into_iter().flatten() {
            let payload = self.payload::<Versions>(scope, key, &version.content);
            let Some(payload) = payload.map_err(|error| named(error, || key.to_string()))? else { continue };
            versions.push(StoredObject {
                key: key.clone(),
                uid: version.uid.clone(),
                generation: version.generation,
                since: version.since,
                sensitive: version.content.sensitive,
                payload,
            });
        }
        Ok(versions)
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        let readable = |versions: &Versions| versions.iter().any(|version| version.content.readable());
        let known = self.shelf(scope).into_iter().flat_map(|shelf| shelf.objects.iter());
        let mut objects: Vec<_> =
            known.filter(|(_, versions)| readable(versions)).map(|(key, _)| key.clone()).collect();
        objects.sort_unstable();
        Ok(objects)
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        let mut resources = Vec::new();
        for (key, resource) in self.shelf(scope).into_iter().flat_map(|shelf| shelf.resources.iter()) {
            let body = self.payload::<ResourceEntry>(scope, key, &resource.content);
            let Some(body) = body.map_err(|error| named(error, || key.1.to_string()))? else { continue };
            resources.push(StoredResource {
                type_url: key.0.clone(),
                name: key.1.clone(),
                version: resource.version,
                sensitive: resource.content.sensitive,
                origins: resource.origins.to_vec(),
                body,
            });
        }
        resources.sort_unstable_by(|a, b| (&a.type_url, &a.name).cmp(&(&b.type_url, &b.name)));
        Ok(resources)
    }

    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError> {
        let known = self.shelf(scope).into_iter().flat_map(|shelf| shelf.verdicts.iter());
        let mut verdicts: Vec<StoredVerdict> = known.map(|(_, verdict)| (**verdict).clone()).collect();
        verdicts.sort_by_key(|verdict| (verdict.since, verdict.content));
        Ok(verdicts)
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            bytes_on_disk: folder::bytes_on_disk(&self.folder),
            sealed: self.sealer.is_some(),
            ..self.state.statistics()
        }
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        if let Some(files) = self.files.take() {
            files.close();
        }
    }
}

fn named(error: StoreError, name: impl Fn() -> String) -> StoreError {
    match error {
        StoreError::Damaged { .. } => StoreError::Damaged { name: name() },
        other => other,
    }
}
