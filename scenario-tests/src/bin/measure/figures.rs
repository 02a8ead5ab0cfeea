//! The figures of a run with their names, units and floors, in the order in which they are printed.

use crate::percentiles::Percentiles;
use crate::report::{EnvoySection, Isolation, PerRoute, Run, ThroughEnvoy};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name and unit.
    pub(crate) name: String,
    pub(crate) value: f64,
    /// The least that the machine needs, where it was measured.
    pub(crate) floor: Option<f64>,
}

impl Figure {
    fn new(name: &str, value: f64, floor: Option<f64>) -> Self {
        Self { name: name.to_owned(), value, floor }
    }
}

/// Returns all figures of a run.
pub(crate) fn figures(run: &Run) -> Vec<Figure> {
    let floors = &run.floors;
    let read = Some(floors.read_milliseconds);
    let plain = |name: &str, value| Figure::new(name, value, None);
    let mut all = vec![
        Figure::new("cold start, ms (floor: reading objects)", run.cold_start.milliseconds, read),
        Figure::new("restart with the store, ms", run.restart.milliseconds, read),
        plain("CPU of the cold start, ms", run.cold_start.cpu_milliseconds),
        plain("CPU of the restart, ms", run.restart.cpu_milliseconds),
        plain("bytes of the cold start", run.cold_start.bytes as f64),
    ];
    if let Some(statuses) = &run.statuses {
        all.push(plain("start until all statuses are written, s", statuses.seconds));
        all.push(plain("CPU until all statuses are written, ms", statuses.cpu_milliseconds));
        all.push(plain("writes of statuses and Events", statuses.count as f64));
    }
    let both = floors.notice_milliseconds.plus(floors.echo_milliseconds);
    all.extend(percentiles("edit to client (floor: notice, gRPC)", run.edit.milliseconds, Some(both)));
    if let Some(acknowledged) = run.edit.acknowledged_milliseconds {
        all.extend(percentiles("edit to acknowledgement", acknowledged, None));
    }
    all.extend(run.edit.writes.map(|writes| plain("writes of statuses and Events for an edit", writes)));
    all.extend([
        Figure::new("bytes of an edit (floor: the response)", run.edit.bytes, Some(run.edit.response_bytes as f64)),
        plain("CPU of an edit, ms", run.edit.cpu_milliseconds),
        plain("CPU of another annotation, ms", run.annotation.cpu_milliseconds),
        plain("responses to annotations", run.annotation.responses as f64),
    ]);
    if let Some(same_bytes) = &run.same_bytes {
        all.push(plain("CPU of a file with the same bytes, ms", same_bytes.cpu_milliseconds));
        all.push(plain("responses to the same bytes", same_bytes.responses as f64));
    }
    all.push(plain("idle CPU, % of a core", run.idle_cpu_percent));
    let memory = &run.memory;
    for (stage, memory) in
        [("start", memory.after_start), ("edits", memory.after_edits), ("restart", memory.after_restart)]
    {
        all.push(plain(&format!("resident after {stage}, MiB"), memory.resident as f64 / 1024.0));
        all.push(plain(&format!("anonymous after {stage}, MiB"), memory.anonymous as f64 / 1024.0));
    }
    all.push(plain("peak until the end of the edits, MiB", memory.after_edits.peak as f64 / 1024.0));
    all.extend(run.memory_per_route.iter().flat_map(per_route));
    all.extend(percentiles("edit to notice without Holdfast", floors.notice_milliseconds, None));
    all.extend(percentiles("gRPC of one response", floors.echo_milliseconds, None));
    if let Some(EnvoySection::Measured(measured)) = &run.envoy {
        all.extend(through_envoy(measured));
    }
    all
}

fn through_envoy(measured: &ThroughEnvoy) -> Vec<Figure> {
    let (edit, file) = (measured.edit_milliseconds, measured.file_milliseconds);
    let mut all = Vec::from(percentiles("edit to answer (floor: file to Envoy)", edit, Some(file)));
    if let Some(Isolation { unprobed, probed, .. }) = &measured.isolation {
        all.extend(percentiles("isolation, no probe (floor: edit)", unprobed.milliseconds, Some(edit)));
        all.extend(percentiles("isolation by probe (floor: edit)", probed.milliseconds, Some(edit)));
        all.push(Figure::new("refusals by the Envoy, no probe", unprobed.refusals, None));
        all.push(Figure::new("refusals by the Envoy, with the probe", probed.refusals, None));
    }
    all.extend(percentiles("file to answer of Envoy", file, None));
    all
}

fn percentiles(name: &str, values: Percentiles, floors: Option<Percentiles>) -> [Figure; 4] {
    let each = |of: &Percentiles| [("p50", of.p50), ("p95", of.p95), ("p99", of.p99), ("max", of.max)];
    let mut floors = floors.as_ref().map(each).into_iter().flatten();
    each(&values)
        .map(|(rank, value)| Figure::new(&format!("{name}, {rank}, ms"), value, floors.next().map(|(_, floor)| floor)))
}

fn per_route(memory: &PerRoute) -> [Figure; 5] {
    [
        ("resident after start, KiB per route", memory.resident_after_start),
        ("anonymous after start, KiB per route", memory.anonymous_after_start),
        ("resident after edits, KiB per route", memory.resident_after_edits),
        ("anonymous after edits, KiB per route", memory.anonymous_after_edits),
        ("peak, KiB per route", memory.peak),
    ]
    .map(|(name, value)| Figure::new(name, value, None))
}
