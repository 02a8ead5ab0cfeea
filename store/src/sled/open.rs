//! Opening: for any content of the folder, the result is a store, or the reason why there is none.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::error::{SledError, guarded};
use super::folder::{self, Aside, StoreFiles};
use super::keys::Name;
use super::load::{self, FolderContent, Loaded};
use super::rollback;
use super::seal::Sealer;
use super::section::{SectionEntry, StoreSection};
use super::state::{Fresh, SledState};
use super::write;
use crate::record::Scope;

/// Result of opening.
pub(super) struct Opening {
    pub(super) files: StoreFiles,
    pub(super) state: SledState,
    pub(super) unnamed: BTreeSet<Name>,
    pub(super) notices: Vec<String>,
}

impl Opening {
    /// Adds the notices of what was done before.
    fn after(mut self, mut earlier: Vec<String>) -> Self {
        earlier.append(&mut self.notices);
        Self { notices: earlier, ..self }
    }
}

/// Opens the store in the folder; a folder that cannot be used is set aside.
pub(super) fn open(folder: &Path, identity: &str, sealer: Option<&Sealer>) -> Result<Opening, SledError> {
    let mut notices = Vec::new();
    rollback::restore(folder, &mut notices)?;
    if folder::is_strange(folder)? {
        aside(folder, Aside::Other, "it is not a store of Holdfast", &mut notices)?;
    }
    let files = match files(folder, &mut notices) {
        Err(SledError::Corrupt(why)) => {
            aside(folder, Aside::Damaged, &format!("it is damaged: {why}"), &mut notices)?;
            StoreFiles::open(folder)?
        }
        other => other?,
    };
    let found = guarded(|| load::load(files.tree(), sealer, Some(identity)));
    let (why, text) = match found {
        Ok(FolderContent::Empty) if files.marked() > 0 => {
            (Aside::Damaged, "it is damaged: all of its content is lost".to_owned())
        }
        Ok(FolderContent::Empty) => return opening(files, SledState::default(), notices),
        Ok(FolderContent::Ours(loaded)) => return ours(folder, files, *loaded, identity, sealer, notices),
        Ok(FolderContent::Foreign) => (Aside::Other, "it is not a store of Holdfast".to_owned()),
        Ok(FolderContent::Newer(schema)) => {
            (Aside::Newer, format!("it was written by a newer version of Holdfast (schema {schema})"))
        }
        Ok(FolderContent::Other(other)) => {
            (Aside::Other, format!("it belongs to another installation ({other:?}, this one is {identity:?})"))
        }
        Ok(FolderContent::Damaged) => (Aside::Damaged, "it is damaged: nothing in it can be read".to_owned()),
        Err(SledError::Corrupt(text)) => (Aside::Damaged, format!("it is damaged: {text}")),
        Err(other) => return Err(other),
    };
    files.close();
    let has_copy = why == Aside::Newer && rollback::prepare(folder)?;
    aside(folder, why, &text, &mut notices)?;
    if has_copy {
        return open(folder, identity, sealer).map(|opening| opening.after(notices));
    }
    opening(StoreFiles::open(folder)?, SledState::default(), notices)
}

fn opening(files: StoreFiles, state: SledState, notices: Vec<String>) -> Result<Opening, SledError> {
    let unnamed = load::unnamed(files.tree(), &state).unwrap_or_default();
    Ok(Opening { files, state, unnamed, notices })
}

/// Opens sled; snapshots that sled cannot read are removed once.
fn files(folder: &Path, notices: &mut Vec<String>) -> Result<StoreFiles, SledError> {
    match StoreFiles::open(folder) {
        Err(SledError::Corrupt(_)) => {
            folder::remove_snapshots(folder)?;
            let files = StoreFiles::open(folder)?;
            notices.push(format!("{}: an index of its files was damaged and has been rebuilt", folder.display()));
            Ok(files)
        }
        other => other,
    }
}

/// Opens a store of this installation. Where sled cannot read some of its own files, the readable data moves to a new
/// folder.
fn ours(
    folder: &Path,
    files: StoreFiles,
    loaded: Loaded,
    identity: &str,
    sealer: Option<&Sealer>,
    mut notices: Vec<String>,
) -> Result<Opening, SledError> {
    let Loaded { mut state, damage, files_damaged, unreadable, .. } = loaded;
    let files = rollback::upgraded(folder, files, &mut notices)?;
    notices.extend(damage.iter().map(|line| format!("{}: {line}", folder.display())));
    let (generation, marked) = (state.generation, files.marked());
    if generation < marked && damage.is_empty() {
        // sled takes damage in its log for the end of the log.
        notices.push(format!(
            "{}: generation {marked} was committed, but the newest readable generation is {generation}: it is used, \
             as a whole",
            folder.display()
        ));
    }
    if unreadable > 0 {
        let why = if sealer.is_some() { "with another key" } else { "and there is no key" };
        notices
            .push(format!("{}: {unreadable} records are sealed {why}: they are treated as missing", folder.display()));
    }
    if !files_damaged && let Ok(unnamed) = load::unnamed(files.tree(), &state) {
        return Ok(Opening { files, state, unnamed, notices });
    }
    let fresh = payloads(&files, sealer, &mut state);
    files.close();
    aside(
        folder,
        Aside::Damaged,
        "parts of its files cannot be read; the readable records were copied to a new store",
        &mut notices,
    )?;
    let files = StoreFiles::open(folder)?;
    for shelf in state.scopes.values_mut() {
        let shelf = Arc::make_mut(shelf);
        shelf.objects.soil();
        shelf.resources.soil();
        shelf.verdicts.soil();
    }
    state.generation += 1;
    let writes = write::difference(&SledState::default(), &mut state, &fresh, identity, sealer)?;
    files.commit(writes.puts, Vec::new(), state.generation)?;
    opening(files, state, notices)
}

/// Returns every readable payload. Unreadable ones are removed from the state.
fn payloads(files: &StoreFiles, sealer: Option<&Sealer>, state: &mut SledState) -> Fresh {
    let mut fresh = Fresh::default();
    for (scope, shelf) in &mut state.scopes {
        let shelf = Arc::make_mut(shelf);
        fetch(files, sealer, scope, &mut shelf.objects, &mut fresh);
        if !fetch(files, sealer, scope, &mut shelf.resources, &mut fresh) {
            // No Envoy has acknowledged a part of a configuration.
            shelf.resources.retain(|_, _| false);
        }
    }
    fresh
}

/// Reads the payloads of a section. Returns whether all were undamaged.
fn fetch<E: SectionEntry>(
    files: &StoreFiles,
    sealer: Option<&Sealer>,
    scope: &Scope,
    section: &mut StoreSection<E>,
    fresh: &mut Fresh,
) -> bool {
    let mut whole = true;
    section.retain(|key, content| {
        let name = E::name(scope, key, content);
        match load::payload(files.tree(), sealer, &name, content) {
            Ok(Some(payload)) => {
                fresh.payloads.insert(name, payload.into());
                true
            }
            Ok(None) => false,
            Err(_) => {
                whole = false;
                false
            }
        }
    });
    whole
}

fn aside(folder: &Path, why: Aside, text: &str, notices: &mut Vec<String>) -> Result<(), SledError> {
    let (place, gone) = folder::set_aside(folder, why)?;
    notices.push(format!("{}: {text}; it was set aside as {}", folder.display(), place.display()));
    if gone.is_some() {
        notices.push(format!("{}: an older folder with this name was removed before", place.display()));
    }
    Ok(())
}
