//! What would be served in the place of what is broken, given what a Holdfast has stored.
//!
//! The engine decides, as it would at a start with this store and these manifests; here it is only told. What an Envoy
//! has refused before is known; whether it takes what it has never seen is not.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_graph::Detected;
use holdfast_store::Key;
use serde::Serialize;

use crate::engine::{Engine, Event};
use crate::fallback::view::{BrokenObject, FallbackReport};
use crate::report::ReplacementView;
use crate::run::failure::Failure;
use crate::run::manifests::Incarnations;
use crate::run::store::past::{Past, PastScope};
use crate::settings::Fallback;

/// The flag that names the data folder.
const FLAG: &str = "--against";

/// What is told of it.
#[derive(Debug, Serialize)]
pub(super) struct Against {
    /// What is stored.
    pub(super) store: Store,
    /// What is set about the fallback, which decides what would be done.
    pub(super) settings: Gates,
    /// What would not be served as it is written, and what instead; as `/debug/config/fallback` has it.
    pub(super) fallback: FallbackReport,
    /// Routes that would be served in a version that no Envoy is known to have taken.
    pub(super) untried: Vec<String>,
    /// What is stored and not among the manifests: it would be deleted.
    pub(super) gone: Vec<String>,
}

/// What is stored.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Store {
    /// Where.
    pub(super) path: String,
    /// How often was committed to it.
    pub(super) generation: u64,
    /// Of which Gateways and builds of Envoy.
    pub(super) scopes: Vec<Stored>,
    /// What is wrong with it.
    pub(super) notices: Vec<String>,
}

/// What is stored of one Gateway and build.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    /// `namespace/name`.
    pub(super) gateway: String,
    /// The Envoys' build.
    pub(super) build: String,
    /// Objects of which a version was proven good.
    pub(super) objects: usize,
    /// Contents that were refused.
    pub(super) refused: usize,
}

/// What is set about the fallback.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gates {
    pub(super) fallback_configuration: bool,
    pub(super) use_last_valid_config_for_fallback: bool,
    pub(super) backfill_dependants: bool,
    pub(super) backfill_unresolved_references: bool,
    pub(super) invalid_route_replacement: bool,
}

/// What is stored, before the manifests are looked at.
pub(super) struct Before {
    store: Store,
    stored: BTreeSet<holdfast_graph::ObjectKey>,
}

impl Before {
    /// Reads what is stored; gives back what the engine and the manifests are to know of it.
    pub(super) fn read(data: &Path, key: Option<Key>) -> Result<(Self, Incarnations, Vec<Event>), Failure> {
        let past = Past::read(FLAG, data, key)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let clock = Event::Clock(u64::try_from(now).unwrap_or(u64::MAX));
        let scopes = past.scopes.iter().map(|PastScope { scope, objects, refused }| Stored {
            gateway: scope.gateway.to_string(),
            build: scope.build.to_string(),
            objects: objects.len(),
            refused: *refused,
        });
        let before = Self {
            store: Store {
                path: past.folder.display().to_string(),
                generation: past.generation,
                scopes: scopes.collect(),
                notices: past.notices,
            },
            stored: past.scopes.into_iter().flat_map(|past| past.objects).collect(),
        };
        Ok((before, past.incarnations, vec![clock, Event::Restored(Box::new(past.restored))]))
    }
}

impl Against {
    /// What the engine would do with the manifests that it has been given by now.
    pub(super) fn new(before: Before, engine: &Engine) -> Self {
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
            settings: Gates::of(&engine.settings().fallback, engine.settings().replacement.is_some()),
            store: before.store,
            fallback,
        }
    }

    /// Objects that an Envoy has refused before as they are: translation has nothing to say against them.
    pub(super) fn refused(&self) -> impl Iterator<Item = &BrokenObject> {
        self.fallback.broken_objects.iter().filter(|broken| broken.detected_by != Detected::Translation)
    }

    /// Is this what would stand in the place of a rule, or would an earlier version of the route be served?
    pub(super) fn stands(&self, replacement: &ReplacementView) -> bool {
        let backfilled = self.fallback.backfilled_objects.iter().any(|it| it.object.key() == replacement.object);
        let same = |section: &str| *section == *replacement.section;
        let mut replaced = self.fallback.replaced_objects.iter();
        !backfilled || replaced.any(|it| it.object.key() == replacement.object && same(&it.section))
    }
}

impl Gates {
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
