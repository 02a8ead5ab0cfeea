//! Report of `holdfast check`: findings with their places, and what would be served.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::status::ObjectStatus;
use holdfast_engine::engine::Action;
use holdfast_engine::report::{GatewayView, ReplacementView};
use holdfast_fallback::view::BrokenObject;
use holdfast_graph::ObjectKey;
use serde::Serialize;

use super::against::Against;
use super::cluster::ClusterSummary;
use super::meant;
use crate::manifests::{ManifestEntry, Manifests, Problem, Root, UnservedObject};
use crate::offline::Offline;

/// All contents of the report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The number of files that were read.
    pub(super) files: usize,
    /// The cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<ClusterSummary>,
    /// The number of objects that are used, of files and of the cluster.
    pub(super) objects: usize,
    /// The objects that are used, with their places in files, in the order of their names. Only for the form that
    /// lists objects without findings too.
    #[serde(skip)]
    pub(super) checked: Vec<CheckedObject>,
    /// Everything that would not be served as written, by file and line.
    pub(super) findings: Vec<CheckFinding>,
    /// The replacements of rules that would be served.
    pub(super) replacements: Vec<ReplacementView>,
    /// The Gateways with their listeners.
    pub(super) gateways: Vec<ServedGateway>,
    /// The status of every object that has one.
    pub(super) statuses: Vec<ObjectStatus>,
    /// Objects of kinds that are not read.
    pub(super) foreign: Vec<Problem>,
    /// What would be served instead, given a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<Against>,
}

/// An object of a file, or of the cluster.
#[derive(Debug)]
pub(super) struct CheckedObject {
    /// `group/Kind:namespace/name`.
    pub(super) object: String,
    /// The file; empty for an object of the cluster.
    pub(super) file: String,
    /// The line, from 1; 0 for an object of the cluster.
    pub(super) line: u32,
}

/// A Gateway, and the number of its resources.
#[derive(Debug, Serialize)]
pub(super) struct ServedGateway {
    #[serde(flatten)]
    pub(super) gateway: GatewayView,
    /// The number of resources that its Envoys would have.
    pub(super) resources: usize,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CheckSeverity {
    /// A part of an object is not served as written.
    Error,
    /// A field, or another definition of the same object, is ignored.
    Warning,
}

impl CheckSeverity {
    /// Returns whether a finding of this severity fails a check that findings of the other severity fail.
    pub(super) fn fails(self, fail_on: Self) -> bool {
        self <= fail_on
    }
}

/// A finding. Findings are ordered by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct CheckFinding {
    /// The file; empty if the object is in none.
    pub(super) file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub(super) line: u32,
    /// The column, from 1; 0 for the line as a whole.
    pub(super) column: u32,
    /// The severity.
    pub(super) severity: CheckSeverity,
    /// The object, `group/Kind:namespace/name`; empty if it is unknown.
    pub(super) object: String,
    /// The field; empty for the object as a whole.
    pub(super) field: String,
    /// One word in CamelCase.
    pub(super) reason: &'static str,
    /// A sentence.
    pub(super) message: String,
}

impl Report {
    pub(super) fn new(offline: &Offline, cluster: Option<ClusterSummary>, against: Option<Against>) -> Self {
        let Offline { manifests, reading, engine, actions, cluster: in_cluster } = offline;
        let mut findings: Vec<CheckFinding> = reading.problems.iter().map(CheckFinding::of_problem).collect();
        // A root that cannot be read has a problem already.
        let is_reported =
            |root: &Root| reading.problems.iter().any(|problem| Path::new(&*problem.file).starts_with(&root.path));
        findings
            .extend(manifests.empty_roots().into_iter().filter(|root| !is_reported(root)).map(CheckFinding::of_empty));
        findings.extend(reading.unserved.iter().map(CheckFinding::of_unserved));
        let existing: Vec<&ObjectKey> = engine.objects().iter().map(|object| &object.key).collect();
        findings.extend(engine.faults().iter().map(|fault| CheckFinding::of_fault(fault, &existing, manifests)));
        let refused = against.iter().flat_map(Against::refused);
        findings.extend(refused.map(|broken| CheckFinding::of_refused(broken, manifests)));
        findings.sort();
        let resources = |name: &str| {
            let published = actions.iter().filter_map(|action| match action {
                Action::Publish { gateway, offers } if **gateway == *name => Some(offers.everyone.len()),
                _ => None,
            });
            published.sum()
        };
        let gateways = engine.gateways().into_iter();
        let is_served =
            |replacement: &ReplacementView| against.as_ref().is_none_or(|against| against.is_served(replacement));
        Self {
            files: reading.files,
            cluster,
            objects: reading.objects + in_cluster.len(),
            checked: CheckedObject::all(manifests, in_cluster),
            findings,
            replacements: engine.replacements().into_iter().filter(is_served).collect(),
            gateways: gateways.map(|gateway| ServedGateway { resources: resources(&gateway.name), gateway }).collect(),
            statuses: engine.statuses(),
            foreign: reading.foreign.clone(),
            against,
        }
    }
}

impl Report {
    /// Returns whether there is a finding of this severity, or a worse one.
    pub(super) fn fails(&self, fail_on: CheckSeverity) -> bool {
        self.findings.iter().any(|finding| finding.severity.fails(fail_on))
    }
}

impl CheckedObject {
    fn all(manifests: &Manifests, in_cluster: &[ObjectKey]) -> Vec<Self> {
        let of_file = |entry: &Arc<ManifestEntry>| {
            let (object, file) = (entry.key.to_string(), entry.source.file.to_string());
            Self { object, file, line: entry.source.line }
        };
        let of_cluster = |key: &ObjectKey| Self { object: key.to_string(), file: String::new(), line: 0 };
        manifests.entries().map(of_file).chain(in_cluster.iter().map(of_cluster)).collect()
    }
}

impl CheckFinding {
    fn of_problem(problem: &Problem) -> Self {
        let Problem { file, line, column, message } = problem.clone();
        let (object, field) = (String::new(), String::new());
        let (severity, reason) = (CheckSeverity::Error, "Unreadable");
        Self { file: file.to_string(), line, column, severity, object, field, reason, message }
    }

    /// The finding for an object of a kind that is not read.
    fn of_unserved(UnservedObject { file, line, column, fault }: &UnservedObject) -> Self {
        let (line, column, severity) = (*line, *column, CheckSeverity::Warning);
        let Fault { object, field, reason, message, .. } = fault.clone();
        Self { file: file.to_string(), line, column, severity, object: object.to_string(), field, reason, message }
    }

    /// The finding for a root without objects: an empty check must not pass.
    fn of_empty(root: &Root) -> Self {
        let message = "the path contains no objects: check the path".to_owned();
        let (object, field, file) = (String::new(), String::new(), root.path.display().to_string());
        Self { file, line: 0, column: 0, severity: CheckSeverity::Error, object, field, reason: "NoObjects", message }
    }

    fn of_fault(fault: &Fault, existing: &[&ObjectKey], manifests: &Manifests) -> Self {
        let severity = if fault.class == Class::Ignored { CheckSeverity::Warning } else { CheckSeverity::Error };
        let message = meant::explained(fault.message.clone(), existing);
        Self { severity, ..Self::of(&fault.object, &fault.field, fault.reason, message, manifests) }
    }

    /// The finding for an object that an Envoy has refused before.
    fn of_refused(broken: &BrokenObject, manifests: &Manifests) -> Self {
        let message = format!("this version has been refused since {}: {}", broken.since, broken.message);
        Self::of(&broken.object.key(), &broken.field, "Refused", message, manifests)
    }

    fn of(object: &ObjectKey, field: &str, reason: &'static str, message: String, manifests: &Manifests) -> Self {
        let entry = manifests.entry(object);
        let place = entry.and_then(|entry| entry.marks.as_ref()).map(|marks| marks.find(field));
        let (line, column) = place.unwrap_or_default();
        let file = entry.map(|entry| entry.source.file.to_string()).unwrap_or_default();
        let (object, field) = (object.to_string(), field.to_owned());
        Self { file, line, column, severity: CheckSeverity::Error, object, field, reason, message }
    }
}
