//! The figures of a run, as they are written to a file.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::percentiles::Percentiles;
use crate::usage::Memory;

/// The form in which virtual hosts are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VirtualHosts {
    /// All hosts of a route configuration after each edit.
    #[default]
    Whole,
    /// Only the changed hosts.
    Separate,
}

/// Where Holdfast reads the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    /// A folder of manifests.
    #[default]
    Folder,
    /// A kube-apiserver with its etcd.
    Kubernetes,
}

/// A run of this program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The commit of the sources, if it is known.
    pub(crate) commit: Option<String>,
    /// The date given with `--date`.
    pub(crate) date: Option<String>,
    /// The measured program.
    pub(crate) program: String,
    pub(crate) machine: Machine,
    /// Number of measured edits for each number of routes.
    pub(crate) edits: usize,
    /// The input; a folder in files of earlier versions of this program.
    #[serde(default)]
    pub(crate) input: Input,
    /// The form of virtual hosts; whole in files of earlier versions of this program.
    #[serde(default)]
    pub(crate) virtual_hosts: VirtualHosts,
    /// One run for each number of routes; the first has a single route, and is what memory is compared with.
    pub(crate) runs: Vec<Run>,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) model: String,
}

/// The figures for one number of routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) routes: usize,
    /// Start with an empty data folder.
    pub(crate) cold_start: Start,
    /// What Holdfast writes into the API server after that start; none with a folder.
    #[serde(default)]
    pub(crate) statuses: Option<StatusWrites>,
    /// Start with the data folder of the process before, after all edits.
    pub(crate) restart: Start,
    pub(crate) edit: Edits,
    /// Edits of an annotation only.
    pub(crate) annotation: Rewrites,
    /// Rewrites of the file with the same bytes; only with a folder.
    #[serde(default)]
    pub(crate) same_bytes: Option<Rewrites>,
    /// CPU without any edit, in percent of one core.
    pub(crate) idle_cpu_percent: f64,
    pub(crate) memory: Stages,
    /// As `memory`, after subtraction of the run with one route; none in that run.
    pub(crate) memory_per_route: Option<PerRoute>,
    pub(crate) floors: Floors,
    /// Edits through an Envoy; none in files of earlier versions of this program, and with an API server.
    #[serde(default)]
    pub(crate) envoy: Option<EnvoySection>,
    /// Measurements that this input does not have, each with the reason.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
}

/// A start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Time from the start of the process until the client has all routes.
    pub(crate) milliseconds: f64,
    /// CPU time of the process in that time.
    pub(crate) cpu_milliseconds: f64,
    /// Bytes that the client has read by then.
    pub(crate) bytes: u64,
}

/// Writes of Holdfast to the API server until it is quiet: statuses and Events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusWrites {
    pub(crate) count: u64,
    /// Time from the start of the process until neither of them has work, up to a second too long.
    pub(crate) seconds: f64,
    /// CPU time of the process in that time.
    pub(crate) cpu_milliseconds: f64,
}

/// Edits that change what clients receive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Edits {
    /// Time from the rename of the file, or from the request to the API server, until the client has the changed virtual
    /// host, in milliseconds.
    pub(crate) milliseconds: Percentiles,
    /// Time from the request until the API server has acknowledged it, in milliseconds; none with a folder.
    #[serde(default)]
    pub(crate) acknowledged_milliseconds: Option<Percentiles>,
    /// Number of statuses and Events that Holdfast writes for each edit; the CPU time contains their cost.
    #[serde(default)]
    pub(crate) writes: Option<f64>,
    /// Bytes that the client reads for each edit.
    pub(crate) bytes: f64,
    /// Encoded size of the response with the changed virtual host.
    pub(crate) response_bytes: usize,
    /// CPU time of the process for each edit, without that of an idle process in the same time.
    pub(crate) cpu_milliseconds: f64,
}

/// Edits that change nothing for clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rewrites {
    pub(crate) count: usize,
    /// CPU time of the process for each edit, without that of an idle process in the same time.
    pub(crate) cpu_milliseconds: f64,
    /// Responses to all edits.
    pub(crate) responses: u64,
}

/// Memory of the process at several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stages {
    pub(crate) after_start: Memory,
    pub(crate) after_edits: Memory,
    pub(crate) after_restart: Memory,
}

/// Memory for each route, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PerRoute {
    pub(crate) resident_after_start: f64,
    pub(crate) anonymous_after_start: f64,
    pub(crate) resident_after_edits: f64,
    pub(crate) anonymous_after_edits: f64,
    pub(crate) peak: f64,
}

/// What the machine needs without Holdfast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Floors {
    /// Time from the rename of the edited file until inotify reports it and it is read, or from the request to the API
    /// server until a bare watch has the event.
    #[serde(alias = "file_milliseconds")]
    pub(crate) notice_milliseconds: Percentiles,
    /// Time from a request over gRPC until the client has a response as large as that to an edit.
    pub(crate) echo_milliseconds: Percentiles,
    /// Time of reading all manifests, or of listing the objects.
    pub(crate) read_milliseconds: f64,
}

/// The measurements with an Envoy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EnvoySection {
    Measured(ThroughEnvoy),
    /// No Envoy is available, for this reason.
    Skipped(String),
}

/// Edits through an Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThroughEnvoy {
    /// Time from the rename of the file until the first answer of the changed route.
    pub(crate) edit_milliseconds: Percentiles,
    /// The same time for an Envoy without Holdfast that reads a RouteConfiguration with one route from a file.
    pub(crate) file_milliseconds: Percentiles,
    /// Edits beside a refused one; none with one route.
    #[serde(default)]
    pub(crate) isolation: Option<Isolation>,
}

/// Edits that were written together with an edit of another route that Envoy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Isolation {
    /// Number of pairs.
    pub(crate) pairs: usize,
    pub(crate) unprobed: Isolated,
    pub(crate) probed: Isolated,
}

/// The pairs without or with the probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Isolated {
    /// Time from the rename of the file until the first answer of the route that is not refused.
    pub(crate) milliseconds: Percentiles,
    /// Refusals by the Envoy that serves, also while the refused edits were corrected.
    pub(crate) refusals: f64,
}

impl Run {
    /// Compares the memory with that of another run.
    pub(crate) fn memory_per_route(&self, base: &Run) -> Option<PerRoute> {
        let routes = self.routes.checked_sub(base.routes).filter(|routes| *routes > 0)?;
        let each = |of: fn(&Stages) -> u64| (of(&self.memory) as f64 - of(&base.memory) as f64) / routes as f64;
        Some(PerRoute {
            resident_after_start: each(|memory| memory.after_start.resident),
            anonymous_after_start: each(|memory| memory.after_start.anonymous),
            resident_after_edits: each(|memory| memory.after_edits.resident),
            anonymous_after_edits: each(|memory| memory.after_edits.anonymous),
            peak: each(|memory| memory.after_edits.peak),
        })
    }
}
