//! `holdfast check --against`: what would be served instead of broken objects, given a store.
//!
//! The engine decides as it would when starting with this store and these manifests; this module only reports. The
//! refusals that the store holds are known; whether Envoy would accept new content is not.

use std::collections::BTreeSet;
use std::path::Path;

use holdfast_api::settings::Fallback;
use holdfast_engine::engine::{Engine, Event};
use holdfast_engine::report::ReplacementView;
use holdfast_fallback::view::{BrokenObject, FallbackReport};
use holdfast_graph::Detected;
use holdfast_store::Key;
use serde::Serialize;

use crate::failure::Failure;
use crate::manifests::Incarnations;
use crate::store::past::{Past, PastScope};

/// The flag that names the data folder.
const FLAG: &str = "--against";

/// The part of the report about the store.
#[derive(Debug, Serialize)]
pub(super) struct Against {
    /// The stored state.
    pub(super) store: StoreSummary,
    /// The settings of the fallback, which determine the result.
    pub(super) settings: FallbackGates,
    /// The objects that would not be served as written, and their replacements, in the form of
    /// `/debug/config/fallback`.
    pub(super) fallback: FallbackReport,
    /// Routes that would be served in a version that no Envoy is known to have accepted.
    pub(super) untried: Vec<String>,
    /// Stored objects that are not among the manifests: they would be deleted.
    pub(super) gone: Vec<String>,
}

/// The stored state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoreSummary {
    /// The path of the store.
    pub(super) path: String,
    /// The number of commits.
    pub(super) generation: u64,
    /// The stored Gateways and builds of Envoy.
    pub(super) scopes: Vec<Stored>,
    /// Problems with the store.
    pub(super) notices: Vec<String>,
}

/// The stored state of one Gateway and build.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    /// `namespace/name`.
    pub(super) gateway: String,
    /// The build of the Envoys.
    pub(super) build: String,
    /// Number of objects with a version that was proven good.
    pub(super) objects: usize,
    /// Number of contents that were refused.
    pub(super) refused: usize,
}

/// The settings of the fallback.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FallbackGates {
    pub(super) fallback_configuration: bool,
    pub(super) use_last_valid_config_for_fallback: bool,
    pub(super) backfill_dependants: bool,
    pub(super) backfill_unresolved_references: bool,
    pub(super) invalid_route_replacement: bool,
}

/// The stored state, before the manifests are read.
pub(super) struct Baseline {
    store: StoreSummary,
    stored: BTreeSet<holdfast_graph::ObjectKey>,
}

impl Baseline {
    /// Reads the store; returns also the incarnations for the manifests and the events for the engine that precede the manifests.
    pub(super) fn read(data: &Path, key: Option<Key>) -> Result<(Self, Incarnations, Vec<Event>), Failure> {
        let past = Past::read(FLAG, data, key)?;
        let scopes = past.scopes.iter().map(|PastScope { scope, objects, refused }| Stored {
            gateway: scope.gateway.to_string(),
            build: scope.build.to_string(),
            objects: objects.len(),
            refused: *refused,
        });
        let before = Self {
            store: StoreSummary {
                path: past.folder.display().to_string(),
                generation: past.generation,
                scopes: scopes.collect(),
                notices: past.notices,
            },
            stored: past.scopes.into_iter().flat_map(|past| past.objects).collect(),
        };
        Ok((before, past.incarnations, vec![Event::Restored(Box::new(past.restored))]))
    }
}

impl Against {
    /// The decisions of the engine about the manifests that it has received.
    pub(super) fn new(before: Baseline, engine: &Engine) -> Self {
        let fallback = engine.fallback();
        let served_otherwise: BTreeSet<_> = fallback
            .broken_objects
            .iter()
            .map(|broken| broken.object.key())
            .chain(fallback.backfilled_objects.iter().map(|backfilled| backfilled.object.key()))
            .collect();
        let untried = engine.unproven().into_iter().filter(|key| !served_otherwise.contains(key));
        let gone = before.stored.iter().filter(|key| !engine.is_there(key));
        Self {
            untried: untried.map(|key| key.to_string()).collect(),
            gone: gone.map(ToString::to_string).collect(),
            settings: FallbackGates::of(&engine.settings().fallback, engine.settings().replacement.is_some()),
            store: before.store,
            fallback,
        }
    }

    /// Objects that an Envoy has refused before in this version; translation found no fault in them.
    pub(super) fn refused(&self) -> impl Iterator<Item = &BrokenObject> {
        self.fallback.broken_objects.iter().filter(|broken| broken.detected_by != Detected::Translation)
    }

    /// Returns whether a replacement would be served, rather than an earlier version of the whole route.
    pub(super) fn is_served(&self, replacement: &ReplacementView) -> bool {
        let backfilled = self.fallback.backfilled_objects.iter().any(|it| it.object.key() == replacement.object);
        let same = |section: &str| *section == *replacement.section;
        let mut replaced = self.fallback.replaced_by_steps();
        !backfilled || replaced.any(|it| it.object.key() == replacement.object && same(&it.section))
    }
}

impl FallbackGates {
    fn of(settings: &Fallback, replace: bool) -> Self {
        Self {
            fallback_configuration: settings.isolate,
            use_last_valid_config_for_fallback: settings.use_last_valid,
            backfill_dependants: settings.backfill_dependants,
            backfill_unresolved_references: settings.backfill_unresolved,
            invalid_route_replacement: replace,
        }
    }
}
