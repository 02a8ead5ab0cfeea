//! State of a data folder, read from a copy of its store, while a Holdfast may use the folder.
//!
//! This module changes nothing in the folder, and decides nothing.

use std::path::{Path, PathBuf};

use holdfast_fallback::restore;
use holdfast_fallback::restored::Restored;
use holdfast_graph::ObjectKey;
use holdfast_store::sled::survey;
use holdfast_store::{Key, LastValidStore, Options, Scope, SledStore, StoreError};

use super::copy::Copy;
use super::{FOLDER, absent, identity};
use crate::failure::Failure;
use crate::manifests::Incarnations;

/// The state of a data folder.
#[derive(Debug)]
pub struct Past {
    /// The store's folder.
    pub folder: PathBuf,
    /// The store's generation.
    pub generation: u64,
    /// The stored state of each Gateway and build, in order.
    pub scopes: Vec<PastScope>,
    /// Notices for users: damage, and records that cannot be unsealed.
    pub notices: Vec<String>,
    /// The stored state in the engine's form.
    pub restored: Restored,
    /// The incarnation of each object's name.
    pub incarnations: Incarnations,
}

/// The stored state of one Gateway and build.
#[derive(Clone, Debug)]
pub struct PastScope {
    /// The Gateway and build.
    pub scope: Scope,
    /// Objects with a version that was proven good.
    pub objects: Vec<ObjectKey>,
    /// The number of refused contents.
    pub refused: usize,
}

impl Past {
    /// Reads the state of a data folder.
    ///
    /// # Errors
    /// Returns an error if there is no store, it belongs to another installation, or nothing in it can be read.
    pub fn read(flag: &str, data: &Path, key: Option<Key>) -> Result<Self, Failure> {
        let folder = data.join(FOLDER);
        let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{flag} {}: {why}", data.display()));
        if !folder.is_dir() {
            return Err(absent(flag, &folder));
        }
        let incarnations = Incarnations::look(data).map_err(|error| wrong(&error))?;
        let copy = Copy::of(&folder).map_err(|error| wrong(&format!("its store cannot be copied: {error}")))?;
        let survey = survey(&copy.path(), key.as_ref()).map_err(|error| match error {
            StoreError::Absent(_) => absent(flag, &folder),
            other => wrong(&other),
        })?;
        if survey.records == 0 && !survey.damage.is_empty() {
            return Err(wrong(&format!("its store cannot be used: {}", survey.damage.join("; "))));
        }
        let (own, generation) = (identity(), survey.statistics.generation);
        if !survey.identity.is_empty() && *survey.identity != *own {
            return Err(wrong(&format!("its store belongs to another installation ({:?})", survey.identity)));
        }
        let sealed = survey.statistics.unreadable;
        let mut notices = survey.damage;
        if sealed > 0 {
            let why = if key.is_some() { "with another key" } else { "and there is no --store-key-file" };
            notices.push(format!("{sealed} records are sealed {why}: they are ignored"));
        }
        let opened = SledStore::open(&copy.path(), &Options { identity: own, key }).map_err(|error| wrong(&error))?;
        let (restored, more) = restore::restore(&opened.store).map_err(|error| wrong(&error))?;
        notices.extend(more);
        let scopes = scopes(&opened.store).map_err(|error| wrong(&error))?;
        Ok(Self { folder, generation, scopes, notices, restored, incarnations })
    }
}

fn scopes(store: &impl LastValidStore) -> Result<Vec<PastScope>, StoreError> {
    let of = |scope: Scope| {
        let (objects, refused) = (store.objects(&scope)?, store.verdicts(&scope)?.len());
        Ok(PastScope { scope, objects, refused })
    };
    store.scopes()?.into_iter().map(of).collect()
}
