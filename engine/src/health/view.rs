//! Health as data: `GET /debug/health`. Serializable, without a clock of its own, in a fixed order. Never contains a
//! Secret's content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_fallback::view::{EnvoyCounts, Identity, ServedState};
use serde::{Deserialize, Serialize};

use super::in_force::SettingsInForce;

/// Health of everything that one Holdfast serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The overall verdict, the worst of the following fields.
    pub verdict: HealthVerdict,
    /// The Gateways, in the order of their names.
    pub gateways: Vec<GatewayHealth>,
    /// Causes of errors or unreachable services for clients.
    pub outages: Vec<HealthFinding>,
    /// Causes for which an older version than desired is served, or not every Envoy has the desired version.
    pub degraded: Vec<HealthFinding>,
    /// Mistakes that affect no client, as far as Holdfast can know.
    pub warnings: Vec<HealthFinding>,
    /// The sources of objects, and what could not be read.
    pub inputs: Inputs,
    /// The feature gates and their settings; unset by an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsInForce>,
    /// Namespaces with objects, each with the Gateways (`namespace/name`) that have routes of the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// The overall verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthVerdict {
    /// Everything is served as desired.
    #[default]
    Healthy,
    /// Something is not served as desired, and no client is known to get an error.
    Degraded,
    /// Some clients get errors, or reach nothing.
    Down,
}

/// The severity of a finding for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Clients get errors, or reach nothing.
    Outage,
    /// An older version than desired is served, or not every Envoy has the desired version.
    Degraded,
    /// No client is known to be affected.
    Warning,
}

impl Severity {
    /// All severities, the worst first.
    pub const ALL: [Severity; 3] = [Severity::Outage, Severity::Degraded, Severity::Warning];

    /// Returns the serialized name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Outage => "outage",
            Severity::Degraded => "degraded",
            Severity::Warning => "warning",
        }
    }
}

/// How a problem was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetectedBy {
    /// A NACK of an Envoy of the fleet.
    Nack,
    /// A NACK of the probe.
    Probe,
    /// A finding of translation.
    Translation,
    /// One of several suspects of a refusal.
    Suspected,
    /// Observation of Envoys: none is connected, or an answer is missing.
    Envoys,
}

/// One cause, with every object that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthFinding {
    /// The reason: one word in CamelCase, as in a condition.
    pub reason: String,
    /// The message of Envoy or of Holdfast.
    pub message: String,
    /// How the problem was detected.
    pub detected_by: DetectedBy,
    /// The objects that have this cause, in order; never empty.
    pub objects: Vec<ObjectAtFault>,
    /// What clients get instead of the desired version, by object and section; empty where they get the desired
    /// version.
    pub served: Vec<ServedInstead>,
    /// Other objects with a fault that follows from this cause, and without an entry in `served`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub affected: BTreeSet<Identity>,
    /// The affected Gateways; empty where unknown.
    pub gateways: BTreeSet<Arc<str>>,
    /// Since when the first of the objects has this cause.
    pub since: Option<Moment>,
    /// The next step: a command, or the path of a diagnostics page.
    pub next: String,
}

/// An object at fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectAtFault {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// The generation; unset where the object cannot be read at all.
    pub generation: Option<i64>,
    /// The field, as a path; empty for the object as a whole.
    pub field: String,
    /// File and position, in standalone mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ManifestPosition>,
    /// Since when the object is at fault.
    pub since: Option<Moment>,
    /// Why its last valid version is not served, or not as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_backfilled: Option<Arc<str>>,
}

/// The position of an object, or of its field at fault, in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ManifestPosition {
    /// The file, as the operator named its folder.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column of the field at fault, from 1; unset if only the line of the object is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// What clients get of an object, or of a part of it, instead of the desired version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedInstead {
    /// The object.
    #[serde(flatten)]
    pub object: Identity,
    /// The Gateway, as `namespace/name`.
    pub gateway: Arc<str>,
    /// The part of the object, as in `rules[1]`; empty for the whole object.
    pub section: Arc<str>,
    /// The generation with this section, where the last valid version is served and not the desired one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The only listener where clients get this, while other listeners serve the object; unset where it holds
    /// everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Arc<str>>,
    /// What clients get.
    pub gets: Gets,
    /// The hosts of the requests.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<Arc<str>>,
    /// The paths of the requests: `/a` is an exact path, `/a/*` a prefix, and `~` precedes a regular expression.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub paths: BTreeSet<Arc<str>>,
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Gets {
    /// Requests are answered with this status.
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// A share of the requests is answered with this status.
    Share {
        /// The HTTP status.
        status: u16,
    },
    /// Connections are refused or closed.
    Refused,
    /// A share of the connections is closed.
    RefusedShare,
    /// Clients that verify certificates refuse the connection: the certificate has expired or is not valid yet.
    Untrusted,
    /// The same, only for clients that do not support ECDSA: others get another certificate.
    UntrustedWithoutEcdsa,
    /// Requests get no response.
    NoResponse,
    /// Connections reach the process or the Gateway that uses the port.
    PortInUse,
    /// The listener takes no part: another listener of its port answers its requests.
    AnotherListener,
    /// The part is excluded: another route of the host answers, or 404.
    Nothing,
    /// The part has no effect, and the rest of the object is served.
    LeftOut,
    /// An earlier version.
    LastValid {
        /// The generation of that version.
        generation: i64,
        /// Since when the version is known to be valid.
        since: Moment,
        /// Sections of the desired version that are served nevertheless.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        except: BTreeSet<Arc<str>>,
    },
    /// The object is served as desired, with the last valid version of an object that it needs.
    LastValidOf {
        /// The needed object.
        of: Identity,
        /// The generation of that object's version.
        generation: i64,
        /// Since when that version is known to be valid.
        since: Moment,
        /// When the certificate of that version expires, if the object is a certificate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Moment>,
    },
    /// The configuration that Envoys acknowledged before.
    AsBefore,
    /// The version of the object that was read last: the current content cannot be read.
    ReadLast,
}

impl Gets {
    /// Returns the severity: whether clients get an error, or nothing.
    pub fn severity(&self) -> Severity {
        match self {
            Gets::Status { .. }
            | Gets::Share { .. }
            | Gets::Refused
            | Gets::RefusedShare
            | Gets::Untrusted
            | Gets::UntrustedWithoutEcdsa
            | Gets::NoResponse
            | Gets::PortInUse
            | Gets::AnotherListener
            | Gets::Nothing => Severity::Outage,
            Gets::LeftOut | Gets::LastValid { .. } | Gets::LastValidOf { .. } | Gets::AsBefore | Gets::ReadLast => {
                Severity::Degraded
            }
        }
    }
}

/// The health of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHealth {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// The state of its configuration.
    pub state: ServedState,
    /// The number of configurations that were published for it in this run.
    pub generation: u64,
    /// The number of Envoys by their answers.
    pub envoys: EnvoyCounts,
    /// The number of open streams to this replica.
    pub connected: usize,
    /// The number of listeners that should be served.
    pub listeners: usize,
}

/// The sources of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// The sources: the API server, or the folders of manifests.
    pub sources: Vec<SourceView>,
    /// What could not be read, in order.
    pub problems: Vec<InputProblem>,
    /// Kinds that the API server does not have and that are not needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_installed: Vec<Arc<str>>,
}

/// A source of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// `the API server`, or the folders.
    pub name: Arc<str>,
    /// Whether the source is currently read.
    pub live: bool,
    /// Seconds since the source was last read, or last answered; unset where it never did.
    pub seen_seconds_ago: Option<u64>,
    /// The number of objects.
    pub objects: usize,
}

/// An input that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputProblem {
    /// The file with line and column, the kind, or the source.
    pub of: Arc<str>,
    /// The reason: one word in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Since when the problem exists.
    pub since: Option<Moment>,
    /// The next step.
    pub next: String,
}

/// The number of findings by severity, as shown by pages, metrics and one-line texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The verdict.
    pub verdict: HealthVerdict,
    /// Causes of outages.
    pub outages: usize,
    /// Causes of degradation.
    pub degraded: usize,
    /// Causes of warnings.
    pub warnings: usize,
    /// Inputs that could not be read.
    pub inputs: usize,
}

impl Summary {
    /// Returns the summary as a sentence.
    pub fn sentence(&self) -> String {
        self.sentence_about("")
    }

    /// Returns the summary of a part as a sentence, as in ` of namespace shop`; empty for everything.
    pub fn sentence_about(&self, part: &str) -> String {
        let Self { verdict, outages, degraded, warnings, inputs } = self;
        if *verdict == HealthVerdict::Healthy {
            return format!("Everything{part} is served as desired.");
        }
        let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        format!(
            "NOT everything{part} is served as desired: {}, {degraded} degraded, {}, {}.",
            count(*outages, "outage", "outages"),
            count(*warnings, "warning", "warnings"),
            count(*inputs, "input that cannot be read", "inputs that cannot be read"),
        )
    }
}

impl Health {
    /// Returns the findings of a severity.
    pub fn of(&self, severity: Severity) -> &[HealthFinding] {
        match severity {
            Severity::Outage => &self.outages,
            Severity::Degraded => &self.degraded,
            Severity::Warning => &self.warnings,
        }
    }

    /// Returns all findings, the most severe first.
    pub fn findings_mut(&mut self) -> impl Iterator<Item = &mut HealthFinding> {
        self.outages.iter_mut().chain(&mut self.degraded).chain(&mut self.warnings)
    }

    /// Returns the number of findings by severity.
    pub fn summary(&self) -> Summary {
        Summary {
            verdict: self.verdict,
            outages: self.outages.len(),
            degraded: self.degraded.len(),
            warnings: self.warnings.len(),
            inputs: self.inputs.problems.len(),
        }
    }

    /// Returns the number of objects with a finding, by severity and namespace (empty for cluster-scoped objects). An
    /// object with several findings counts with its worst one.
    pub fn objects_by_namespace(&self) -> BTreeMap<(Severity, Arc<str>), usize> {
        let mut seen = BTreeSet::new();
        let mut counts = BTreeMap::new();
        for severity in Severity::ALL {
            for subject in self.of(severity).iter().flat_map(|finding| &finding.objects) {
                if seen.insert(&subject.object) {
                    *counts.entry((severity, subject.object.namespace.clone())).or_insert(0) += 1;
                }
            }
        }
        counts
    }

    /// Sets the verdict that follows from the findings.
    pub(super) fn judged(mut self) -> Self {
        let clean = self.degraded.is_empty() && self.warnings.is_empty() && self.inputs.problems.is_empty();
        self.verdict = match (self.outages.is_empty(), clean) {
            (false, _) => HealthVerdict::Down,
            (true, false) => HealthVerdict::Degraded,
            (true, true) => HealthVerdict::Healthy,
        };
        self
    }
}
