//! The objects that are not served as written, each with its differences. What clients get, and why, are the findings of
//! health.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::section::ObjectSection;
use holdfast_engine::health::view::{DetectedBy, Gets, InputProblem, ServedInstead};
use holdfast_engine::health::{HealthFinding, Severity};
use holdfast_fallback::view::BackfilledObject;
use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};

use super::configuration::{ConfigurationDifference, differences};
use super::facts::DiffFacts;
use super::lines::DiffLine;
use super::manifest::{FieldFault, ServedContent, difference};
use super::subset::is_route;
use crate::explain::GatewayEnvoys;

/// Maximum number of parts of Envoy's configuration that are shown for one object.
pub(crate) const DIFF_PARTS_MAX: usize = 20;
/// Maximum number of other objects, and of objects at fault, that are listed with one object.
const DIFF_OBJECTS_MAX: usize = 20;
/// What is served of a policy that cannot be enforced, and has no last valid version.
const NOT_ENFORCED: &str = "not enforced: what it applies to answers with an error";

/// The differences.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiffReport {
    /// Whether everything is served as written.
    pub(crate) outcome: DiffOutcome,
    /// The objects, in order.
    pub(crate) objects: Vec<ObjectDifference>,
    /// Inputs that cannot be read, and that may have newer versions of objects.
    pub(crate) inputs: Vec<InputProblem>,
    /// Gateways with an Envoy that may not have the newest objects, or without an Envoy.
    pub(crate) gateways: Vec<UnsettledGateway>,
    /// The number of affected routes with a configuration that was not compared, because they are too many.
    pub(crate) routes_not_compared: usize,
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
pub(crate) struct UnsettledGateway {
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// Its Envoys.
    pub(crate) envoys: GatewayEnvoys,
    /// Envoys that have not acknowledged everything, do not answer or have a configuration of their own.
    pub(crate) not_in_step: BTreeSet<Arc<str>>,
}

/// An object with its differences.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectDifference {
    /// The object.
    pub(crate) object: ObjectKey,
    /// The desired generation; unset if the object cannot be read at all.
    pub(crate) desired_generation: Option<i64>,
    /// Whether it can be read.
    pub(crate) is_readable: bool,
    /// The file and line of its manifest.
    pub(crate) place: Option<String>,
    /// The generation that is served, if it is not the desired one.
    pub(crate) served_generation: Option<i64>,
    /// What clients get of the object instead of the desired version.
    pub(crate) served: Vec<ServedInstead>,
    /// What clients get of other objects because of this one.
    pub(crate) affects: Vec<ServedInstead>,
    /// The objects and fields at fault.
    pub(crate) because: Vec<FaultOfObject>,
    /// The differences of the manifest.
    pub(crate) manifest: Vec<DiffLine>,
    /// The differences of Envoy's configuration.
    pub(crate) configuration: Vec<DiffOfPart>,
    /// The number of further parts of Envoy's configuration that differ.
    pub(crate) more_parts: usize,
}

/// A fault that is a reason of the differences.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultOfObject {
    /// The object at fault.
    pub(crate) object: ObjectKey,
    /// Its generation.
    pub(crate) generation: Option<i64>,
    /// The field; empty for the object as a whole.
    pub(crate) field: String,
    /// The message of Holdfast or of Envoy.
    pub(crate) message: String,
    /// How the fault was found.
    pub(crate) detected_by: DetectedBy,
    /// Why the last valid version of the object is not served, or not as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_backfilled: Option<Arc<str>>,
}

/// A part of Envoy's configuration with its differences.
#[derive(Debug, Serialize)]
pub(crate) struct DiffOfPart {
    /// `namespace/name` of the Gateway.
    pub(crate) gateway: Arc<str>,
    /// The resource and the part of it.
    pub(crate) part: String,
    /// The differences.
    pub(crate) lines: Vec<DiffLine>,
}

impl DiffReport {
    /// Compares. This takes time: all desired objects but unconcerned routes are translated once more.
    pub(crate) fn new(facts: &DiffFacts) -> Self {
        let mut parts = match facts.subset.routes.is_empty() && facts.subset.gateways.is_empty() {
            true => Vec::new(),
            false => differences(facts),
        };
        let objects = facts.targets.iter().map(|key| ObjectDifference::new(key, facts, &mut parts));
        let objects: Vec<ObjectDifference> = objects.filter(|object| !object.is_same()).collect();
        let (gateways, inputs) = (unsettled(facts), facts.health.inputs.problems.clone());
        let is_same = objects.is_empty() && gateways.is_empty() && inputs.is_empty() && facts.subset.left_out == 0;
        Self {
            outcome: if is_same { DiffOutcome::Same } else { DiffOutcome::Different },
            objects,
            inputs,
            gateways,
            routes_not_compared: facts.subset.left_out,
        }
    }
}

/// Returns the Gateways of the wanted object that are not settled; of all objects, all of them.
fn unsettled(facts: &DiffFacts) -> Vec<UnsettledGateway> {
    let names: BTreeSet<String> = facts.subset.gateways.iter().map(ObjectKey::namespaced_name).collect();
    let is_meant = |name: &str| facts.is_all || names.contains(name);
    let gateways = facts.reports.fallback.gateways.iter().filter(|gateway| is_meant(&gateway.name));
    let gateways = gateways.map(|gateway| UnsettledGateway {
        name: gateway.name.clone(),
        envoys: GatewayEnvoys::new(gateway),
        not_in_step: facts.not_in_step.get(&gateway.name).cloned().unwrap_or_default(),
    });
    gateways.filter(|gateway| !gateway.envoys.all_have_it() || !gateway.not_in_step.is_empty()).collect()
}

impl ObjectDifference {
    fn new(key: &ObjectKey, facts: &DiffFacts, parts: &mut Vec<ConfigurationDifference>) -> Self {
        let findings = ObjectFindings::of(key, facts);
        let desired = facts.objects.get(key);
        let is_readable = !facts.unreadable.contains(key);
        let own = findings.because.iter().filter(|fault| fault.object == *key);
        let own: Vec<FieldFault<'_>> = own.map(|fault| (&*fault.field, &*fault.message)).collect();
        let closed = closed(key, facts, &findings.served);
        let backfilled = facts.reports.fallback.backfilled_objects.iter();
        let earlier = backfilled.filter(|backfilled| backfilled.object.is(key) && backfilled.section.is_empty());
        let earlier: Vec<&BackfilledObject> = earlier.collect();
        let served_generation = earlier.first().map(|earlier| earlier.served_generation);
        let version = served_generation.and_then(|generation| facts.versions.get(&(key.clone(), generation)));
        let whole = closed.iter().find(|(section, _)| section.is_empty()).map(|(_, note)| note.clone());
        let served = match (version, whole) {
            (Some(version), _) => ServedContent::Earlier(version),
            (None, Some(note)) => ServedContent::Nothing(note),
            // The last readable version of an object that others depend on stays in use.
            (None, None) => match desired {
                Some(kept) if !is_readable => ServedContent::Earlier(kept),
                _ if findings.is_not_enforced => ServedContent::Nothing(NOT_ENFORCED.into()),
                _ if findings.is_not_served => ServedContent::Nothing("not served".into()),
                _ => ServedContent::Desired,
            },
        };
        let sections = closed.iter().filter(|(section, _)| !section.is_empty());
        let sections: Vec<(&str, String)> = sections.map(|(section, note)| (&**section, note.clone())).collect();
        let desired = desired.filter(|_| is_readable);
        // The Gateway of HTTPProxies, for example, has no manifest.
        let has_manifest = desired.is_some() || !is_readable;
        let manifest = match has_manifest {
            true => difference(desired.map(|desired| &**desired), &served, &sections, &own),
            false => Vec::new(),
        };
        let is_concerned = is_route(key) || findings.is_at_fault;
        let (configuration, more_parts) = if is_concerned { parts_of(key, facts, parts) } else { (Vec::new(), 0) };
        let place = facts.places.get(key).map(|place| format!("{}:{}", place.file, place.line));
        let ObjectFindings { served, affects, because, .. } = findings;
        Self {
            object: key.clone(),
            desired_generation: desired.map(|desired| desired.metadata.generation),
            is_readable,
            place,
            served_generation,
            served,
            affects,
            because,
            manifest,
            configuration,
            more_parts,
        }
    }

    fn is_same(&self) -> bool {
        let has_differences = !self.manifest.is_empty() || !self.configuration.is_empty();
        self.served.is_empty() && self.because.is_empty() && self.served_generation.is_none() && !has_differences
    }
}

/// What health has found about an object.
#[derive(Default)]
struct ObjectFindings {
    served: Vec<ServedInstead>,
    affects: Vec<ServedInstead>,
    because: Vec<FaultOfObject>,
    /// Whether the object itself is at fault.
    is_at_fault: bool,
    /// Whether a fault of the object itself is an outage.
    is_outage: bool,
    /// Whether the object is at fault and clients get nothing of it.
    is_not_served: bool,
    /// Whether the object is a policy that cannot be enforced.
    is_not_enforced: bool,
}

impl ObjectFindings {
    fn of(key: &ObjectKey, facts: &DiffFacts) -> Self {
        let mut all = Self::default();
        let is_policy = facts.objects.get(key).is_some_and(|object| object.body.is_policy());
        for severity in Severity::ALL {
            for finding in facts.health.of(severity) {
                all.add(key, finding, severity);
            }
        }
        all.is_not_enforced = is_policy && all.is_outage;
        all.served.sort();
        all.served.dedup();
        all.affects.sort();
        all.affects.dedup();
        all.affects.truncate(DIFF_OBJECTS_MAX);
        all
    }

    fn add(&mut self, key: &ObjectKey, finding: &HealthFinding, severity: Severity) {
        let is_own = finding.objects.iter().any(|object| object.object.is(key));
        let (own, others): (Vec<_>, Vec<_>) = finding.served.iter().cloned().partition(|served| served.object.is(key));
        let is_affected = finding.affected.iter().any(|object| object.is(key));
        if !is_own && own.is_empty() && !is_affected {
            return;
        }
        // Objects with the same cause are one finding, and each is a reason of its own differences only.
        let objects = finding.objects.iter().filter(|object| !is_own || object.object.is(key)).take(DIFF_OBJECTS_MAX);
        self.because.extend(objects.map(|object| FaultOfObject {
            object: object.object.key(),
            generation: object.generation,
            field: object.field.clone(),
            message: finding.message.clone(),
            detected_by: finding.detected_by,
            not_backfilled: object.not_backfilled.clone(),
        }));
        if is_own {
            self.is_at_fault = true;
            self.is_outage |= severity == Severity::Outage;
            self.is_not_served |= severity == Severity::Outage && finding.served.is_empty();
            if finding.objects.len() == 1 {
                self.affects.extend(others);
            }
        }
        self.served.extend(own);
    }
}

/// Returns the sections that are not served, each with what clients get.
fn closed(key: &ObjectKey, facts: &DiffFacts, served: &[ServedInstead]) -> Vec<(Arc<str>, String)> {
    // Another backend of the section may answer the other requests.
    let is_share = |section: &str| {
        served.iter().any(|served| *served.section == *section && matches!(served.gets, Gets::Share { .. }))
    };
    let replaced = facts.reports.fallback.replaced_objects.iter().filter(|part| part.object.is(key));
    let replaced = replaced.map(|part| (part.section.clone(), format!("answers {}", part.response)));
    let excluded = facts.reports.fallback.excluded_objects.iter().filter(|part| part.object.is(key));
    // A listener that refuses connections keeps its port and hostname.
    let what = |section: &str| match ObjectSection::parse(section) {
        ObjectSection::Listener(_) => "not served",
        _ => "left out",
    };
    let excluded = excluded.map(|part| (part.section.clone(), what(&part.section).to_owned()));
    replaced.chain(excluded).filter(|(section, _)| !is_share(section)).collect()
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
