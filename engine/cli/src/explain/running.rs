//! What only a running Holdfast knows about a request: earlier versions that are served instead of desired ones, and the
//! Envoys that have acknowledged what is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_engine::engine::Engine;
use holdfast_fallback::view::{BackfilledObject, FallbackReport, GatewayState, ServedState};
use holdfast_graph::{Node, ObjectKey};
use serde::Serialize;

use super::text::short;
use crate::serve::core::ManifestPositions;

/// The state of a running Holdfast at one moment.
#[derive(Debug)]
pub(crate) struct RunningFacts {
    report: FallbackReport,
    /// The objects that each backfilled object affects.
    affected: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    places: ManifestPositions,
}

/// An earlier version that is served instead of the desired one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServedEarlier {
    /// The object.
    pub(super) object: ObjectKey,
    /// The desired generation; unset if the object cannot be read at all.
    pub(super) desired_generation: Option<i64>,
    /// The served generation.
    pub(super) served_generation: i64,
    /// The time since which the served version is known to be good.
    pub(super) served_since: Moment,
    /// The objects at fault, each with its message.
    pub(super) because: Vec<String>,
}

/// The object of the route that matches.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MatchedObject {
    /// The object.
    pub(super) object: ObjectKey,
    /// The desired generation.
    pub(super) generation: Option<i64>,
    /// The file and line of its manifest.
    pub(super) place: Option<String>,
}

/// The Envoys of the Gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayEnvoys {
    /// The state of the configuration that they are served.
    pub(super) state: ServedState,
    /// Envoys that acknowledged their whole configuration.
    pub(super) acknowledged: usize,
    /// Envoys that refused a part of it.
    pub(super) refused: usize,
    /// Envoys that have not answered for all of it.
    pub(super) pending: usize,
    /// Nodes that keep their previous configuration.
    pub(super) keep_previous: Vec<Arc<str>>,
}

impl GatewayEnvoys {
    /// Returns whether every connected Envoy has acknowledged what is published now.
    pub(super) fn all_have_it(&self) -> bool {
        let is_final = matches!(self.state, ServedState::Current | ServedState::Fallback);
        is_final && self.acknowledged > 0 && self.refused + self.pending == 0 && self.keep_previous.is_empty()
    }
}

impl RunningFacts {
    /// The facts of this moment.
    pub(crate) fn new(engine: &Engine, places: ManifestPositions) -> Self {
        let report = engine.fallback();
        let affected = report.backfilled_objects.iter().map(|backfilled| {
            let key = backfilled.object.key();
            let reached = engine.graph().affected(&Node::whole(key.clone()));
            (key, reached.into_iter().map(|affected| affected.node.key).collect())
        });
        let affected = affected.collect();
        Self { report, affected, places }
    }

    /// The Envoys of a Gateway.
    pub(super) fn envoys(&self, gateway: &str) -> Option<GatewayEnvoys> {
        let GatewayState { state, envoys, held_envoys, .. } = self.report.gateway(gateway)?;
        Some(GatewayEnvoys {
            state: *state,
            acknowledged: envoys.acknowledged,
            refused: envoys.refused,
            pending: envoys.pending,
            keep_previous: held_envoys.keys().cloned().collect(),
        })
    }

    /// The object of the route that matches.
    pub(super) fn matched(&self, object: &ObjectKey, generation: Option<i64>) -> MatchedObject {
        let place = self.places.get(object).map(|place| format!("{}:{}", place.file, place.line));
        MatchedObject { object: object.clone(), generation, place }
    }

    /// The earlier versions on which the answer of a rule may depend: of the object itself, and of the objects that it
    /// depends on.
    pub(super) fn instead(&self, object: &ObjectKey, section: Option<&str>) -> Vec<ServedEarlier> {
        let backfilled = self.report.backfilled_objects.iter();
        backfilled.filter(|backfilled| self.concerns(backfilled, object, section)).map(|one| self.served(one)).collect()
    }

    fn concerns(&self, backfilled: &BackfilledObject, object: &ObjectKey, section: Option<&str>) -> bool {
        if backfilled.object.is(object) {
            return section.is_none_or(|section| !backfilled.desired_sections.contains(section));
        }
        self.affected.get(&backfilled.object.key()).is_some_and(|affected| affected.contains(object))
    }

    fn served(&self, backfilled: &BackfilledObject) -> ServedEarlier {
        let broken = self.report.broken_objects.iter();
        let causing = broken.filter(|broken| backfilled.causing_objects.contains(&broken.object.key().to_string()));
        ServedEarlier {
            object: backfilled.object.key(),
            desired_generation: backfilled.desired_generation,
            served_generation: backfilled.served_generation,
            served_since: backfilled.served_since,
            because: causing.map(|broken| format!("{}: {}", short(&broken.object.key()), broken.message)).collect(),
        }
    }
}
