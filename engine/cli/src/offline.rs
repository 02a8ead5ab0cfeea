//! Offline translation of manifests, without serving.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Action, Engine, Event};

use super::failure::Failure;
use super::manifests::{self, Incarnations, ManifestReading, Manifests, Readings};

/// Manifests that were read and translated once.
pub struct Offline {
    /// The files and their objects, with the positions of all fields.
    pub manifests: Manifests,
    /// The result of the reading.
    pub reading: ManifestReading,
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
    translate_after(paths, settings, Incarnations::in_memory(), Vec::new())
}

/// Reads and translates manifests with the identities of known objects, and an engine that has processed earlier
/// events.
///
/// # Errors
/// As for [`translate`].
pub fn translate_after(
    paths: &[PathBuf],
    settings: Settings,
    incarnations: Incarnations,
    before: Vec<Event>,
) -> Result<Offline, Failure> {
    let roots = manifests::roots("PATH", paths, Readings::Once)?;
    let mut manifests = Manifests::new(roots, incarnations, Readings::Once);
    let mut reading = manifests.read();
    if reading.files == 0 && reading.problems.is_empty() {
        let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::usage(format!("no manifest (*.yaml, *.yml, *.json) in {}", paths.join(", "))));
    }
    let mut engine = Engine::new(settings);
    // The validity of certificates and the age of last valid versions depend on the time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let clock = Event::Clock(u64::try_from(now).unwrap_or(u64::MAX));
    engine.handle(std::iter::once(clock).chain(before).collect());
    let actions = engine.handle(std::mem::take(&mut reading.events));
    Ok(Offline { manifests, reading, engine, actions })
}
