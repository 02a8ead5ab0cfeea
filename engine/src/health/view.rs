//! Health as data: `GET /debug/health`. Serialisable, without times of its own, in an order that is always the same.
//! Never holds a Secret's content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fallback::view::{EnvoyCounts, Identity, ServedState};
use crate::time::Moment;

/// Health of everything that one Holdfast serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The worst of all that follows.
    pub verdict: Verdict,
    /// The Gateways, in the order of their names.
    pub gateways: Vec<GatewayHealth>,
    /// Causes for which clients get errors, or reach nothing.
    pub outages: Vec<Finding>,
    /// Causes for which something older than desired is served, or not every Envoy has what is desired.
    pub degraded: Vec<Finding>,
    /// Mistakes that no client notices, as far as Holdfast can know.
    pub warnings: Vec<Finding>,
    /// Where objects come from, and what could not be read.
    pub inputs: Inputs,
    /// Namespaces with objects, each with the Gateways (`namespace/name`) at which there are routes of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// One word for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything is served as it is desired.
    #[default]
    Healthy,
    /// Something is not, and no client is known to get an error for it.
    Degraded,
    /// Some clients get errors, or reach nothing.
    Down,
}

/// How bad a finding is for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Clients get errors, or reach nothing.
    Outage,
    /// Something older than desired is served, or it is not known to every Envoy.
    Degraded,
    /// No client is known to notice.
    Warning,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Severity; 3] = [Severity::Outage, Severity::Degraded, Severity::Warning];

    /// As it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Outage => "outage",
            Severity::Degraded => "degraded",
            Severity::Warning => "warning",
        }
    }
}

/// Who found it, or how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detected {
    /// An Envoy of the fleet refused it.
    Nack,
    /// The probe Envoy refused it.
    Probe,
    /// Translation found it.
    Translation,
    /// One of several that may have been refused.
    Suspected,
    /// Observed of Envoys: none is connected, or an answer is missing.
    Envoys,
}

/// One cause, with every object that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One word in CamelCase, as in a condition's reason.
    pub reason: String,
    /// What is wrong, in Envoy's or in Holdfast's words.
    pub message: String,
    /// Who found it.
    pub detected_by: Detected,
    /// The objects that have this cause, in order; never empty.
    pub objects: Vec<Subject>,
    /// What clients get instead of what is desired, by object and section; empty where they get what is desired.
    pub served: Vec<Served>,
    /// The Gateways that are concerned; empty where it is not known.
    pub gateways: BTreeSet<Arc<str>>,
    /// Since when the first of the objects has it.
    pub since: Option<Moment>,
    /// What to do next: a command, or the path of a diagnostics page.
    pub next: String,
}

/// An object at fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// Its generation; unset where nothing of it can be read.
    pub generation: Option<i64>,
    /// The field, as a path; empty where the object as a whole is meant.
    pub field: String,
    /// File and line, in standalone mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Since when.
    pub since: Option<Moment>,
}

/// Where an object is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The file, as the operator named its folder.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// What clients get of an object, or of a part of it, instead of what is desired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Served {
    /// Which object.
    #[serde(flatten)]
    pub object: Identity,
    /// The Gateway, as `namespace/name`.
    pub gateway: Arc<str>,
    /// The part of the object, as in `rules[1]`; empty for all of it.
    pub section: Arc<str>,
    /// What clients get.
    pub gets: Gets,
    /// The hosts of the requests.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<Arc<str>>,
    /// Their paths: `/a` exactly, `/a/*` with all below, `~` before a regular expression.
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
    /// Connections are refused or ended.
    Refused,
    /// It is left out: another route of the host answers, or 404.
    Nothing,
    /// An earlier version.
    LastValid {
        /// Its generation.
        generation: i64,
        /// Since when it is known to be good.
        since: Moment,
    },
    /// It is served as desired, with the last valid version of an object that it needs.
    LastValidOf {
        /// Which object.
        of: Identity,
        /// The generation of that object.
        generation: i64,
        /// Since when that is known to be good.
        since: Moment,
    },
    /// What Envoys acknowledged before.
    AsBefore,
}

impl Gets {
    /// Do clients get an error, or nothing?
    pub fn severity(&self) -> Severity {
        match self {
            Gets::Status { .. } | Gets::Share { .. } | Gets::Refused | Gets::Nothing => Severity::Outage,
            Gets::LastValid { .. } | Gets::LastValidOf { .. } | Gets::AsBefore => Severity::Degraded,
        }
    }
}

/// A Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHealth {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// What its Envoys are served.
    pub state: ServedState,
    /// How many configurations were published for it in this run.
    pub generation: u64,
    /// Envoys by their answers.
    pub envoys: EnvoyCounts,
    /// Streams that are open to this replica.
    pub connected: usize,
    /// Listeners that are to be served.
    pub listeners: usize,
}

/// Where objects come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// The sources: the API server, or the folders of manifests.
    pub sources: Vec<Source>,
    /// What could not be read, in order.
    pub problems: Vec<InputProblem>,
    /// Kinds that the API server does not have and that nothing needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_installed: Vec<Arc<str>>,
}

/// A source of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `the API server`, or the folders.
    pub name: Arc<str>,
    /// Is it read now?
    pub live: bool,
    /// How long ago it was read, or answered, last (seconds); unset where it never did.
    pub seen_seconds_ago: Option<u64>,
    /// How many objects it has.
    pub objects: usize,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputProblem {
    /// The file with line and column, the kind, or the source.
    pub of: Arc<str>,
    /// One word in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Since when.
    pub since: Option<Moment>,
    /// What to do next.
    pub next: String,
}

/// How many findings there are of each sort: what pages, metrics and one-line texts show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The verdict.
    pub verdict: Verdict,
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
    /// In a sentence.
    pub fn sentence(&self) -> String {
        self.sentence_about("")
    }

    /// In a sentence about a part of everything, as in ` of namespace shop`; empty for all of it.
    pub fn sentence_about(&self, part: &str) -> String {
        let Self { verdict, outages, degraded, warnings, inputs } = self;
        if *verdict == Verdict::Healthy {
            return format!("Everything{part} is served as it is desired.");
        }
        let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        format!(
            "NOT everything{part} is served as it is desired: {}, {degraded} degraded, {}, {}.",
            count(*outages, "outage", "outages"),
            count(*warnings, "warning", "warnings"),
            count(*inputs, "input that cannot be read", "inputs that cannot be read"),
        )
    }
}

impl Health {
    /// The findings of a severity.
    pub fn of(&self, severity: Severity) -> &[Finding] {
        match severity {
            Severity::Outage => &self.outages,
            Severity::Degraded => &self.degraded,
            Severity::Warning => &self.warnings,
        }
    }

    /// How many findings there are of each sort.
    pub fn summary(&self) -> Summary {
        Summary {
            verdict: self.verdict,
            outages: self.outages.len(),
            degraded: self.degraded.len(),
            warnings: self.warnings.len(),
            inputs: self.inputs.problems.len(),
        }
    }

    /// How many objects have a finding, by severity and namespace (empty for objects of no namespace): an object with
    /// several findings counts with its worst one.
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

    /// The verdict that the findings ask for.
    pub(super) fn judged(mut self) -> Self {
        let clean = self.degraded.is_empty() && self.warnings.is_empty() && self.inputs.problems.is_empty();
        self.verdict = match (self.outages.is_empty(), clean) {
            (false, _) => Verdict::Down,
            (true, false) => Verdict::Degraded,
            (true, true) => Verdict::Healthy,
        };
        self
    }
}
