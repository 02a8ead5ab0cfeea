//! Offline translation of manifests, without serving.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_graph::ObjectKey;

use super::applied::{self, ClusterObjects};
use super::failure::Failure;
use super::manifests::{self, Incarnations, ManifestReading, Manifests, Readings};

/// Manifests that were read and translated once.
pub struct Offline {
    /// The files and their objects, with the positions of all fields.
    pub manifests: Manifests,
    /// The result of the reading.
    pub reading: ManifestReading,
    /// The objects of a cluster that no manifest replaces, in order.
    pub cluster: Vec<ObjectKey>,
    /// The engine after the translation.
    pub engine: Engine,
    /// The actions of the engine.
    pub actions: Vec<Action>,
}

/// Reads and translates the manifests at paths; `-` is standard input.
///
/// # Errors
/// Returns an error if a path does not exist, or no path contains a manifest.
pub fn translate(paths: &[PathBuf], settings: Settings) -> Result<Offline, Failure> {
    translate_after(paths, settings, OfflineStart::default())
}

/// What is known before manifests are read.
#[derive(Default)]
pub(crate) struct OfflineStart {
    /// The identities of objects of an earlier run; `None` if there was none.
    pub(crate) incarnations: Option<Incarnations>,
    /// Events that the engine processes first.
    pub(crate) events: Vec<Event>,
    /// Keeps the documents as they were written, and edits the events of the manifests before they are translated.
    pub(crate) edit: Option<fn(&mut Vec<Event>)>,
    /// The objects of a cluster, to which the manifests are applied. With them, there may be no manifests.
    pub(crate) cluster: Option<ClusterObjects>,
}

/// Reads and translates manifests, given what is known before.
///
/// # Errors
/// As for [`translate`].
pub(crate) fn translate_after(paths: &[PathBuf], settings: Settings, before: OfflineStart) -> Result<Offline, Failure> {
    let OfflineStart { incarnations, events: before, edit, cluster } = before;
    let incarnations = incarnations.unwrap_or_else(Incarnations::in_memory);
    let roots = manifests::roots("PATH", paths, Readings::Once)?;
    let mut manifests = Manifests::new(roots, incarnations, Readings::Once);
    if edit.is_some() {
        manifests = manifests.keeping_documents();
    }
    let mut reading = manifests.read();
    if reading.files == 0 && reading.problems.is_empty() && !(paths.is_empty() && cluster.is_some()) {
        let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::usage(format!("no manifest (*.yaml, *.yml, *.json) in {}", paths.join(", "))));
    }
    let mut engine = Engine::new(settings);
    // The validity of certificates and the age of last valid versions depend on the time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let clock = Event::Clock(u64::try_from(now).unwrap_or(u64::MAX));
    engine.handle(std::iter::once(clock).chain(before).collect());
    let mut events = std::mem::take(&mut reading.events);
    if let Some(edit) = edit {
        edit(&mut events);
    }
    let mut keys = Vec::new();
    if let Some(mut cluster) = cluster {
        applied::apply(&mut events, &mut cluster);
        keys.extend(cluster.keys().cloned());
        events.extend(cluster.into_values());
    }
    let actions = engine.handle(events);
    Ok(Offline { manifests, reading, cluster: keys, engine, actions })
}
