//! The inputs of a difference, of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::health::{Health, Severity};
use holdfast_engine::report::Reports;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use holdfast_xds::Snapshot;

use super::subset::{DiffSubset, is_route};
use super::target::DiffTarget;
use crate::admin::EnvoyRow;
use crate::serve::core::{Core, ManifestPositions};

/// The state of a running Holdfast at one moment: comparing takes time, and the engine goes on meanwhile.
#[derive(Debug)]
pub(crate) struct DiffFacts {
    pub(super) health: Arc<Health>,
    pub(super) reports: Arc<Reports>,
    /// Faults that translation found in the targets and in the routes of the subset.
    pub(super) faults: Vec<Fault>,
    pub(super) objects: ObjectSnapshot,
    /// Objects that exist, and with content that cannot be read at all. The last readable version of some is kept.
    pub(super) unreadable: BTreeSet<ObjectKey>,
    /// The served earlier versions, by object and generation.
    pub(super) versions: BTreeMap<(ObjectKey, i64), Arc<Object>>,
    /// The published resources, by Gateway.
    pub(super) published: BTreeMap<Arc<str>, Snapshot>,
    pub(super) places: ManifestPositions,
    pub(super) settings: Settings,
    /// Seconds of Unix time.
    pub(super) now: i64,
    /// The objects that are compared.
    pub(super) targets: BTreeSet<ObjectKey>,
    /// Whether these are all objects that are not served as written.
    pub(super) is_all: bool,
    pub(super) subset: DiffSubset,
    /// Envoys that have not acknowledged everything, do not answer or have a configuration of their own, by Gateway.
    pub(super) not_in_step: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl DiffFacts {
    /// The facts about one object, or about every object that is not served as written. `reports` and `health`: of this
    /// moment, or of the last change.
    ///
    /// # Errors
    /// Returns an error if Holdfast has not read the wanted object.
    pub(crate) fn of(
        core: &Core,
        reports: Arc<Reports>,
        health: Arc<Health>,
        wanted: Option<&DiffTarget>,
        envoys: &[EnvoyRow],
    ) -> Result<Self, String> {
        let mut not_in_step = BTreeMap::<Arc<str>, BTreeSet<Arc<str>>>::new();
        for envoy in envoys.iter().filter(|envoy| !envoy.is_in_step()) {
            not_in_step.entry(envoy.fleet.clone()).or_default().insert(envoy.node.clone());
        }
        let engine = &core.engine;
        let deviating: BTreeSet<ObjectKey> = deviating(&reports.fallback).chain(found(&health)).collect();
        let targets: BTreeSet<ObjectKey> = match wanted {
            Some(target) if engine.is_there(&target.0) => BTreeSet::from([target.0.clone()]),
            Some(target) => return Err(format!("Holdfast has read no object {target}")),
            None => deviating.clone(),
        };
        // Of an object without a finding, only a route has parts of the configuration that are its own.
        let compared = targets.iter().filter(|key| is_route(key) || deviating.contains(key)).cloned().collect();
        let subset = DiffSubset::of(&compared, engine.graph(), |route| engine.gateways_of_route(route));
        let is_compared = |key: &ObjectKey| targets.contains(key) || subset.routes.contains(key);
        let faults = reports.faults.iter().filter(|fault| is_compared(&fault.object)).cloned().collect();
        Ok(Self {
            health,
            reports,
            faults,
            objects: engine.objects().clone(),
            unreadable: engine.unreadable().map(|(key, ..)| key.clone()).collect(),
            versions: engine.served_versions(),
            published: core.published.clone(),
            places: core.places.clone(),
            settings: engine.settings().clone(),
            now: engine.now(),
            is_all: wanted.is_none(),
            targets,
            subset,
            not_in_step,
        })
    }
}

/// The objects of all findings: at fault, or not served as desired.
fn found(health: &Health) -> impl Iterator<Item = ObjectKey> + '_ {
    let findings = Severity::ALL.into_iter().flat_map(|severity| health.of(severity));
    findings.flat_map(|finding| {
        let objects = finding.objects.iter().map(|object| object.object.key());
        objects.chain(finding.served.iter().map(|served| served.object.key()))
    })
}

/// The objects with a step of the fallback.
fn deviating(report: &FallbackReport) -> impl Iterator<Item = ObjectKey> + '_ {
    let broken = report.broken_objects.iter().map(|broken| broken.object.key());
    let backfilled = report.backfilled_objects.iter().map(|backfilled| backfilled.object.key());
    let replaced = report.replaced_objects.iter().map(|replaced| replaced.object.key());
    let excluded = report.excluded_objects.iter().map(|excluded| excluded.object.key());
    broken.chain(backfilled).chain(replaced).chain(excluded)
}
