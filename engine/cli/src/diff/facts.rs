//! The inputs of a difference, of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use holdfast_xds::Snapshot;

use super::subset::DiffSubset;
use super::target::DiffTarget;
use crate::serve::core::{Core, ManifestPositions};

/// The state of a running Holdfast at one moment: comparing takes time, and the engine goes on meanwhile.
#[derive(Debug)]
pub(crate) struct DiffFacts {
    pub(super) report: FallbackReport,
    /// The faults that translation found, by object.
    pub(super) faults: BTreeMap<ObjectKey, Vec<Fault>>,
    pub(super) objects: ObjectSnapshot,
    /// Objects that exist, and of which nothing can be read.
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
}

impl DiffFacts {
    /// The facts about one object, or about every object that is not served as written.
    ///
    /// # Errors
    /// Returns an error if Holdfast has not read the wanted object.
    pub(crate) fn of(core: &Core, wanted: Option<&DiffTarget>) -> Result<Self, String> {
        let engine = &core.engine;
        let report = engine.fallback();
        let mut faults = BTreeMap::<ObjectKey, Vec<Fault>>::new();
        for fault in engine.faults() {
            faults.entry(fault.object.clone()).or_default().push(fault);
        }
        let targets: BTreeSet<ObjectKey> = match wanted {
            Some(target) if engine.is_there(&target.0) => BTreeSet::from([target.0.clone()]),
            Some(target) => return Err(format!("Holdfast has read no object {target}")),
            None => deviating(&report).chain(faults.keys().cloned()).collect(),
        };
        let subset = DiffSubset::of(&targets, engine.graph(), |route| engine.gateways_of_route(route));
        Ok(Self {
            report,
            faults,
            objects: engine.objects().clone(),
            unreadable: engine.unreadable().map(|(key, ..)| key.clone()).collect(),
            versions: engine.served_versions(),
            published: core.published.clone(),
            places: core.places.clone(),
            settings: engine.settings().clone(),
            now: engine.now(),
            targets,
            is_all: wanted.is_none(),
            subset,
        })
    }
}

/// The objects that are at fault or not served as desired.
fn deviating(report: &FallbackReport) -> impl Iterator<Item = ObjectKey> + '_ {
    let broken = report.broken_objects.iter().map(|broken| broken.object.key());
    let backfilled = report.backfilled_objects.iter().map(|backfilled| backfilled.object.key());
    let replaced = report.replaced_objects.iter().map(|replaced| replaced.object.key());
    let excluded = report.excluded_objects.iter().map(|excluded| excluded.object.key());
    broken.chain(backfilled).chain(replaced).chain(excluded)
}
