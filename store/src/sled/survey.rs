//! Survey of a store that no process uses, without changing its content: for `inspect` and `verify`.
//!
//! Payloads are read to be verified and never returned.

use std::path::Path;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::error::{SledError, guarded};
use super::folder::{self, StoreFiles};
use super::form::{ContentPlace, StoredContent};
use super::load::{self, FolderContent};
use super::seal::{Key, Sealer};
use crate::error::StoreError;
use crate::record::{Scope, Statistics, StoredVerdict};

/// Content of a store.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Identity of the installation.
    pub identity: String,
    /// Statistics.
    pub statistics: Statistics,
    /// Number of records that were read and verified.
    pub records: usize,
    /// The scopes, in order.
    pub scopes: Vec<SurveyedScope>,
    /// Messages about damage, for operators. Empty where there is no damage.
    pub damage: Vec<String>,
}

/// Content of a scope.
#[derive(Clone, Debug)]
pub struct SurveyedScope {
    /// The scope.
    pub scope: Scope,
    /// Versions of objects, ordered by object, the newest first.
    pub objects: Vec<SurveyedObject>,
    /// Acknowledged resources, ordered by type and name.
    pub resources: Vec<SurveyedResource>,
    /// Verdicts, the oldest first.
    pub verdicts: Vec<StoredVerdict>,
}

/// A version of an object.
#[derive(Clone, Debug)]
pub struct SurveyedObject {
    /// The object.
    pub key: ObjectKey,
    /// UID.
    pub uid: Arc<str>,
    /// `metadata.generation` of this version.
    pub generation: i64,
    /// Time when the version was proven good (seconds since 1970).
    pub since: i64,
    /// Size of the payload, in bytes.
    pub bytes: u64,
    /// Whether the payload is sealed.
    pub sealed: bool,
    /// Whether the payload can be read with the available key.
    pub readable: bool,
}

/// An acknowledged resource.
#[derive(Clone, Debug)]
pub struct SurveyedResource {
    /// Type URL.
    pub type_url: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub version: [u8; 16],
    /// Size of the body, in bytes.
    pub bytes: u64,
    /// Whether the body is sealed.
    pub sealed: bool,
}

/// Reads and verifies all data in a store.
///
/// # Errors
/// Fails where there is no store, another process uses it, or it cannot be read.
pub fn survey(folder: &Path, key: Option<&Key>) -> Result<Survey, StoreError> {
    if !folder::is_sled(folder) {
        return Err(StoreError::Absent(folder.display().to_string()));
    }
    look(folder, key).map_err(|error| error.at(folder))
}

fn look(folder: &Path, key: Option<&Key>) -> Result<Survey, SledError> {
    let damaged = |text: String| Survey { damage: vec![text], ..Survey::default() };
    let sealer = key.map(Sealer::new);
    let files = match StoreFiles::open(folder) {
        Err(SledError::Corrupt(why)) => return Ok(damaged(format!("its files cannot be read: {why}"))),
        other => other?,
    };
    let found = guarded(|| load::load(files.tree(), sealer.as_ref(), None));
    let marked = files.marked();
    files.close();
    let mut loaded = match found {
        Ok(FolderContent::Ours(loaded)) => *loaded,
        Ok(FolderContent::Empty) if marked > 0 => return Ok(damaged("all of its content is lost".into())),
        Ok(FolderContent::Empty | FolderContent::Other(_)) => return Ok(Survey::default()),
        Ok(FolderContent::Foreign) => return Ok(damaged("it is not a store of Holdfast".into())),
        Ok(FolderContent::Newer(schema)) => {
            return Ok(damaged(format!("it was written by a newer version of Holdfast (schema {schema})")));
        }
        Ok(FolderContent::Damaged) => return Ok(damaged("nothing in it can be read".into())),
        Err(SledError::Corrupt(why)) => return Ok(damaged(format!("its files cannot be read: {why}"))),
        Err(other) => return Err(other),
    };
    let generation = loaded.state.generation;
    if generation < marked && loaded.damage.is_empty() {
        // sled takes damage in its log for the end of the log.
        loaded
            .damage
            .push(format!("generation {marked} was committed, but the newest readable generation is {generation}"));
    }
    let statistics =
        Statistics { bytes_on_disk: folder::bytes_on_disk(folder), sealed: key.is_some(), ..loaded.state.statistics() };
    let scopes = loaded.state.scopes.iter().map(|(scope, shelf)| surveyed(scope, shelf)).collect();
    Ok(Survey { identity: loaded.identity, statistics, records: loaded.records, scopes, damage: loaded.damage })
}

fn surveyed(scope: &Scope, shelf: &super::state::ScopeSections) -> SurveyedScope {
    let readable = |content: &StoredContent| content.place != ContentPlace::Unreadable;
    let mut objects: Vec<_> = shelf
        .objects
        .iter()
        .flat_map(|(key, versions)| versions.iter().map(move |version| (key, version)))
        .map(|(key, version)| SurveyedObject {
            key: key.clone(),
            uid: version.uid.clone(),
            generation: version.generation,
            since: version.since,
            bytes: version.content.bytes,
            sealed: version.content.sensitive,
            readable: readable(&version.content),
        })
        .collect();
    // The sort is stable: versions of one object stay in their order.
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    let mut resources: Vec<_> = shelf
        .resources
        .iter()
        .map(|((type_url, name), resource)| SurveyedResource {
            type_url: type_url.clone(),
            name: name.clone(),
            version: resource.version,
            bytes: resource.content.bytes,
            sealed: resource.content.sensitive,
        })
        .collect();
    resources.sort_by(|a, b| (&a.type_url, &a.name).cmp(&(&b.type_url, &b.name)));
    let mut verdicts: Vec<StoredVerdict> = shelf.verdicts.iter().map(|(_, verdict)| (**verdict).clone()).collect();
    verdicts.sort_by_key(|verdict| (verdict.since, verdict.content));
    SurveyedScope { scope: scope.clone(), objects, resources, verdicts }
}
