//! The objects that are not served as written, each with its differences.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_fallback::view::{BackfilledObject, BrokenObject, FallbackReport};
use holdfast_graph::{Detected, ObjectKey};
use serde::{Deserialize, Serialize};

use super::configuration::{ConfigurationDifference, differences};
use super::facts::DiffFacts;
use super::lines::DiffLine;
use super::manifest::{FieldFault, ServedContent, difference};
use super::subset::is_route;
use crate::explain::GatewayEnvoys;

/// Maximum number of parts of Envoy's configuration that are shown for one object.
pub(crate) const DIFF_PARTS_MAX: usize = 20;

/// The differences.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiffReport {
    /// Whether everything is served as written.
    pub(crate) outcome: DiffOutcome,
    /// The objects, in order.
    pub(super) objects: Vec<ObjectDifference>,
    /// Gateways with an Envoy that may not have the newest objects, or without an Envoy.
    pub(super) gateways: Vec<UnsettledGateway>,
    /// The number of affected routes with a configuration that was not compared, because they are too many.
    pub(super) routes_not_compared: usize,
}

/// Whether everything is served as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DiffOutcome {
    /// Everything in the query is served as written.
    Same,
    /// Something is not, or that is not known yet.
    Different,
}

/// A Gateway with an Envoy that may not have the newest objects, or without an Envoy.
#[derive(Debug, Serialize)]
pub(super) struct UnsettledGateway {
    /// `namespace/name`.
    pub(super) name: Arc<str>,
    /// Its Envoys.
    pub(super) envoys: GatewayEnvoys,
}

/// An object with its differences.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectDifference {
    /// The object.
    pub(super) object: ObjectKey,
    /// The desired generation; unset if the object cannot be read at all.
    pub(super) desired_generation: Option<i64>,
    /// The file and line of its manifest.
    pub(super) place: Option<String>,
    /// The earlier version that is served.
    pub(super) served: Vec<EarlierVersion>,
    /// The parts that are not served, each with what clients get.
    pub(super) closed: Vec<ClosedPart>,
    /// The objects and fields at fault.
    pub(super) because: Vec<FaultOfObject>,
    /// The differences of the manifest.
    pub(super) manifest: Vec<DiffLine>,
    /// The differences of Envoy's configuration.
    pub(super) configuration: Vec<DiffOfPart>,
    /// The number of further parts of Envoy's configuration that differ.
    pub(super) more_parts: usize,
}

/// An earlier version that is served.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EarlierVersion {
    /// Its generation.
    pub(super) generation: i64,
    /// Since when it is known to be good.
    pub(super) since: Moment,
    /// The section that is served in this version; empty for the whole object.
    pub(super) section: Arc<str>,
    /// Sections of the desired version that are served nevertheless.
    pub(super) except: BTreeSet<Arc<str>>,
}

/// A part of an object that is not served.
#[derive(Debug, Serialize)]
pub(super) struct ClosedPart {
    /// The section; empty for the whole object.
    pub(super) section: Arc<str>,
    /// The status of the direct response; unset if the part is left out.
    pub(super) response: Option<u16>,
}

impl ClosedPart {
    pub(super) fn note(&self) -> String {
        self.response.map_or_else(|| "left out".to_owned(), |status| format!("answers {status}"))
    }
}

/// A fault that is a reason of the differences.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FaultOfObject {
    /// The object at fault.
    pub(super) object: ObjectKey,
    /// Its generation.
    pub(super) generation: Option<i64>,
    /// The field; empty for the object as a whole.
    pub(super) field: String,
    /// The message of Holdfast or of Envoy.
    pub(super) message: String,
    /// How the fault was found.
    pub(super) detected_by: Detected,
}

/// A part of Envoy's configuration with its differences.
#[derive(Debug, Serialize)]
pub(super) struct DiffOfPart {
    /// `namespace/name` of the Gateway.
    pub(super) gateway: Arc<str>,
    /// The resource and the part of it.
    pub(super) part: String,
    /// The differences.
    pub(super) lines: Vec<DiffLine>,
}

impl DiffReport {
    /// Compares. This takes time: all desired objects but unconcerned routes are translated once more.
    pub(crate) fn new(facts: &DiffFacts) -> Self {
        let mut parts = match facts.targets.is_empty() {
            true => Vec::new(),
            false => differences(facts),
        };
        let objects = facts.targets.iter().map(|key| ObjectDifference::new(key, facts, &mut parts));
        let objects: Vec<ObjectDifference> = objects.filter(|object| !object.is_same()).collect();
        let gateways = unsettled(facts);
        let is_same = objects.is_empty() && gateways.is_empty();
        Self {
            outcome: if is_same { DiffOutcome::Same } else { DiffOutcome::Different },
            objects,
            gateways,
            routes_not_compared: facts.subset.left_out,
        }
    }
}

/// Returns the Gateways of the wanted object that are not settled; of all objects, all of them.
fn unsettled(facts: &DiffFacts) -> Vec<UnsettledGateway> {
    let names: BTreeSet<String> = facts.subset.gateways.iter().map(ObjectKey::namespaced_name).collect();
    let is_meant = |name: &str| facts.is_all || names.contains(name);
    let gateways = facts.report.gateways.iter().filter(|gateway| is_meant(&gateway.name));
    let gateways =
        gateways.map(|gateway| UnsettledGateway { name: gateway.name.clone(), envoys: GatewayEnvoys::new(gateway) });
    gateways.filter(|gateway| !gateway.envoys.all_have_it()).collect()
}

impl ObjectDifference {
    fn new(key: &ObjectKey, facts: &DiffFacts, parts: &mut Vec<ConfigurationDifference>) -> Self {
        let report = &facts.report;
        let backfilled: Vec<&BackfilledObject> =
            report.backfilled_objects.iter().filter(|backfilled| backfilled.object.is(key)).collect();
        let closed = closed(key, report);
        let because = faults(key, facts);
        let desired = facts.objects.get(key).filter(|_| !facts.unreadable.contains(key));
        let own: Vec<FieldFault<'_>> =
            because.iter().filter(|fault| fault.object == *key).map(|fault| (&*fault.field, &*fault.message)).collect();
        let whole = closed.iter().find(|part| part.section.is_empty());
        let earlier = backfilled.iter().find(|backfilled| backfilled.section.is_empty());
        let version = earlier
            .and_then(|earlier| facts.versions.get(&(key.clone(), earlier.served_generation)).zip(Some(earlier)));
        let served = match (version, whole) {
            (Some((version, earlier)), _) => {
                ServedContent::Earlier(version, earlier.desired_sections.iter().map(|section| &**section).collect())
            }
            (None, Some(whole)) => ServedContent::Nothing(whole.note()),
            (None, None) if desired.is_none() => ServedContent::Nothing("not served".into()),
            (None, None) => ServedContent::Desired,
        };
        let sections = closed.iter().filter(|part| !part.section.is_empty());
        let sections: Vec<(&str, String)> = sections.map(|part| (&*part.section, part.note())).collect();
        let manifest = difference(desired.map(|desired| &**desired), &served, &sections, &own);
        let (configuration, more_parts) = parts_of(key, facts, parts);
        let place = facts.places.get(key).map(|place| format!("{}:{}", place.file, place.line));
        let served = backfilled.into_iter().map(|backfilled| EarlierVersion {
            generation: backfilled.served_generation,
            since: backfilled.served_since,
            section: backfilled.section.clone(),
            except: backfilled.desired_sections.clone(),
        });
        let served = served.collect();
        let desired_generation = desired.map(|desired| desired.metadata.generation);
        Self {
            object: key.clone(),
            desired_generation,
            place,
            served,
            closed,
            because,
            manifest,
            configuration,
            more_parts,
        }
    }

    fn is_same(&self) -> bool {
        self.served.is_empty() && self.closed.is_empty() && self.because.is_empty() && self.configuration.is_empty()
    }
}

/// Returns the parts of an object that a direct response replaces, or that are left out.
fn closed(key: &ObjectKey, report: &FallbackReport) -> Vec<ClosedPart> {
    let replaced = report.replaced_objects.iter().filter(|replaced| replaced.object.is(key));
    let replaced = replaced.map(|part| ClosedPart { section: part.section.clone(), response: Some(part.response) });
    let excluded = report.excluded_objects.iter().filter(|excluded| excluded.object.is(key));
    let excluded = excluded.map(|part| ClosedPart { section: part.section.clone(), response: None });
    replaced.chain(excluded).collect()
}

/// Returns the faults of an object and of the objects that cause what is served of it.
fn faults(key: &ObjectKey, facts: &DiffFacts) -> Vec<FaultOfObject> {
    let report = &facts.report;
    let causes = report.backfilled_objects.iter().filter(|one| one.object.is(key)).map(|one| &one.causing_objects);
    let replaced = report.replaced_objects.iter().filter(|one| one.object.is(key)).map(|one| &one.causing_objects);
    let excluded = report.excluded_objects.iter().filter(|one| one.object.is(key)).map(|one| &one.causing_objects);
    let causing: BTreeSet<&String> = causes.chain(replaced).chain(excluded).flatten().collect();
    let is_cause = |broken: &&BrokenObject| broken.object.is(key) || causing.contains(&broken.object.key().to_string());
    let broken = report.broken_objects.iter().filter(is_cause).map(|broken| FaultOfObject {
        object: broken.object.key(),
        generation: broken.generation,
        field: broken.field.clone(),
        message: broken.message.clone(),
        detected_by: broken.detected_by,
    });
    let mut faults: Vec<FaultOfObject> = broken.collect();
    for fault in facts.faults.get(key).into_iter().flatten() {
        // The report has the first fault of an object with the message of the others.
        let is_known = |known: &FaultOfObject| known.object == fault.object && known.message.contains(&fault.message);
        if !faults.iter().any(is_known) {
            faults.push(FaultOfObject {
                object: fault.object.clone(),
                generation: facts.objects.get(&fault.object).map(|object| object.metadata.generation),
                field: fault.field.clone(),
                message: fault.message.clone(),
                detected_by: Detected::Translation,
            });
        }
    }
    faults
}

/// Takes the parts of Envoy's configuration that belong to an object: of a route its own, of any other object also those
/// of the routes that depend on it, if these are not compared themselves.
fn parts_of(key: &ObjectKey, facts: &DiffFacts, parts: &mut Vec<ConfigurationDifference>) -> (Vec<DiffOfPart>, usize) {
    let is_mine = |part: &ConfigurationDifference| {
        let of_dependant = || !is_route(key) && part.owners.iter().all(|owner| !facts.targets.contains(owner));
        part.owners.contains(key) || (facts.targets.len() == 1 && of_dependant())
    };
    let (mine, others): (Vec<_>, Vec<_>) = parts.drain(..).partition(is_mine);
    *parts = others;
    let more = mine.len().saturating_sub(DIFF_PARTS_MAX);
    let shown = mine.into_iter().take(DIFF_PARTS_MAX);
    (shown.map(|part| DiffOfPart { gateway: part.gateway, part: part.part, lines: part.lines }).collect(), more)
}
