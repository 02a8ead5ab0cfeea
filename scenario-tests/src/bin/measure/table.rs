//! Tables for people: figures beside their floors, and the figures of two reports beside each other.

use std::fmt::Write as _;

use crate::figures::{Figure, figures};
use crate::report::{EnvoySection, Input, Report, Run, VirtualHosts};

/// Width of the names and of the other columns.
const NAME: usize = 48;
const COLUMN: usize = 12;

/// Returns the table of one run.
pub(crate) fn of_run(run: &Run) -> String {
    let mut table = row(&format!("{} routes", run.routes), ["", "floor", "ratio"].map(str::to_owned));
    for Figure { name, value, floor } in figures(run) {
        let ratio = floor.map(|floor| ratio(value, floor)).unwrap_or_default();
        table += &row(&name, [number(value), floor.map(number).unwrap_or_default(), ratio]);
    }
    if let Some(reason) = skipped(run) {
        let _ = writeln!(table, "edits through an Envoy: skipped: {reason}");
    }
    for left_out in &run.left_out {
        let _ = writeln!(table, "left out: {left_out}");
    }
    table
}

/// Returns the reason for which a run has no figures with an Envoy.
fn skipped(run: &Run) -> Option<&str> {
    match &run.envoy {
        Some(EnvoySection::Skipped(reason)) => Some(reason),
        Some(EnvoySection::Measured(_)) | None => None,
    }
}

/// Returns the tables of two reports: one for each number of routes that both have, with the ratio of each figure.
pub(crate) fn of_two(first: &Report, second: &Report) -> String {
    let mut tables = format!("a: {}\nb: {}\n", title(first), title(second));
    for run in &first.runs {
        let Some(other) = second.runs.iter().find(|other| other.routes == run.routes) else {
            let _ = writeln!(tables, "\n{} routes: only in a", run.routes);
            continue;
        };
        tables += "\n";
        tables += &row(&format!("{} routes", run.routes), ["a", "b", "b/a"].map(str::to_owned));
        let others = figures(other);
        for Figure { name, value, .. } in figures(run) {
            if let Some(other) = others.iter().find(|other| other.name == name) {
                tables += &row(&name, [number(value), number(other.value), ratio(other.value, value)]);
            }
        }
        for (which, reason) in [("a", skipped(run)), ("b", skipped(other))] {
            if let Some(reason) = reason {
                let _ = writeln!(tables, "edits through an Envoy: skipped in {which}: {reason}");
            }
        }
        for (which, run) in [("a", run), ("b", other)] {
            for left_out in &run.left_out {
                let _ = writeln!(tables, "left out in {which}: {left_out}");
            }
        }
    }
    for run in second.runs.iter().filter(|run| first.runs.iter().all(|other| other.routes != run.routes)) {
        let _ = writeln!(tables, "\n{} routes: only in b", run.routes);
    }
    tables
}

/// Returns what a report is of, in one line.
pub(crate) fn title(report: &Report) -> String {
    let commit = report.commit.as_deref().unwrap_or("unknown commit");
    let date = report.date.as_ref().map(|date| format!(", {date}")).unwrap_or_default();
    let Report { program, machine, edits, .. } = report;
    let form = match report.virtual_hosts {
        VirtualHosts::Whole => "",
        VirtualHosts::Separate => ", separate virtual hosts",
    };
    let input = match report.input {
        Input::Folder => "",
        Input::Kubernetes => ", each timed from its request to an API server",
    };
    format!("{program} ({commit}{date}), {edits} edits{input}{form}, {} CPUs {}", machine.cpus, machine.model)
}

fn row(name: &str, columns: [String; 3]) -> String {
    let [first, second, third] = columns;
    let line = format!("{name:NAME$}{first:>COLUMN$}{second:>COLUMN$}{third:>COLUMN$}");
    format!("{}\n", line.trim_end())
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 || value == value.trunc() { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn ratio(value: f64, to: f64) -> String {
    if to == 0.0 { "-".to_owned() } else { number(value / to) }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::percentiles::Percentiles;
    use crate::report::{
        Edits, Floors, Isolated, Isolation, Machine, Rewrites, Stages, Start, StatusWrites, ThroughEnvoy,
    };
    use crate::usage::Memory;

    fn run(routes: usize, scale: f64) -> Run {
        let times = |time| Percentiles { p50: time, p95: time, p99: time, max: time };
        let start = Start { milliseconds: 500.0 * scale, cpu_milliseconds: 100.0, bytes: 4096 };
        let rewrites = Rewrites { count: 30, cpu_milliseconds: 0.0, responses: 0 };
        let resident = 20_480 + 10 * routes as u64;
        let memory = Memory { resident, anonymous: resident / 2, peak: 2 * resident };
        Run {
            routes,
            cold_start: start,
            statuses: None,
            restart: start,
            edit: Edits {
                milliseconds: times(12.0 * scale),
                acknowledged_milliseconds: None,
                writes: None,
                bytes: 2048.0,
                response_bytes: 2000,
                cpu_milliseconds: 3.0,
            },
            annotation: rewrites,
            same_bytes: Some(rewrites),
            idle_cpu_percent: 0.2,
            memory: Stages { after_start: memory, after_edits: memory, after_restart: memory },
            memory_per_route: None,
            floors: Floors { notice_milliseconds: times(0.25), echo_milliseconds: times(0.75), read_milliseconds: 5.0 },
            envoy: Some(EnvoySection::Measured(ThroughEnvoy {
                edit_milliseconds: times(30.0 * scale),
                file_milliseconds: times(3.0),
                isolation: Some(Isolation {
                    pairs: 10,
                    unprobed: Isolated { milliseconds: times(90.0), refusals: 10.0 },
                    probed: Isolated { milliseconds: times(60.0), refusals: 0.0 },
                }),
            })),
            left_out: Vec::new(),
        }
    }

    fn run_of_kubernetes() -> Run {
        let mut run = run(1, 1.0);
        run.statuses = Some(StatusWrites { count: 3, seconds: 4.0, cpu_milliseconds: 200.0 });
        run.edit.acknowledged_milliseconds = Some(run.floors.echo_milliseconds);
        run.edit.writes = Some(1.5);
        (run.same_bytes, run.envoy) = (None, None);
        run.left_out = vec!["this: for a reason".into()];
        run
    }

    fn report(runs: Vec<Run>) -> Report {
        let machine = Machine { cpus: 2, model: "a model".into() };
        Report {
            commit: Some("abc".into()),
            date: None,
            program: "holdfast 0.1.0".into(),
            machine,
            edits: 60,
            input: Input::Folder,
            virtual_hosts: VirtualHosts::Separate,
            runs,
        }
    }

    fn columns(table: &str, name: &str) -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.get(NAME..).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_figure_is_beside_its_floor() {
        let table = of_run(&run(100, 1.0));
        assert_eq!(columns(&table, "edit to client (floor: notice, gRPC), p50"), ["12", "1", "12"]);
        assert_eq!(columns(&table, "cold start"), ["500", "5", "100"]);
        assert_eq!(columns(&table, "CPU of an edit"), ["3"]);
        assert_eq!(columns(&table, "edit to answer (floor: file to Envoy), p95"), ["30", "3", "10"]);
        assert_eq!(columns(&table, "isolation, no probe (floor: edit), p50"), ["90", "30", "3"]);
        assert_eq!(columns(&table, "isolation by probe (floor: edit), max"), ["60", "30", "2"]);
    }

    #[test]
    fn every_figure_of_two_reports_has_a_ratio() {
        let table = of_two(&report(vec![run(1, 1.0), run(100, 1.0)]), &report(vec![run(100, 1.5), run(200, 1.0)]));
        assert_eq!(columns(&table, "cold start"), ["500", "750", "1.50"]);
        assert_eq!(columns(&table, "edit to client (floor: notice, gRPC), max"), ["12", "18", "1.50"]);
        assert_eq!(columns(&table, "responses to annotations"), ["0", "0", "-"]);
        assert!(table.contains("\n1 routes: only in a\n") && table.contains("\n200 routes: only in b\n"), "{table}");
        assert_eq!(table.matches("\ncold start, ms").count(), 1, "{table}");
        assert!(
            table.starts_with("a: holdfast 0.1.0 (abc), 60 edits, separate virtual hosts, 2 CPUs a model\n"),
            "{table}"
        );
    }

    #[test]
    fn a_run_without_an_envoy_names_the_reason() {
        let without = Run { envoy: Some(EnvoySection::Skipped("no Envoy".into())), ..run(1, 1.0) };
        let table = of_run(&without);
        assert!(table.ends_with("edits through an Envoy: skipped: no Envoy\n"), "{table}");
        assert!(!table.contains("edit to answer"), "{table}");
        let tables = of_two(&report(vec![run(1, 1.0)]), &report(vec![without]));
        assert!(tables.ends_with("edits through an Envoy: skipped in b: no Envoy\n"), "{tables}");
    }

    #[test]
    fn a_run_of_kubernetes_names_what_is_left_out() {
        let table = of_run(&run_of_kubernetes());
        assert_eq!(columns(&table, "edit to acknowledgement, p50, ms"), ["0.75"]);
        assert_eq!(columns(&table, "writes of statuses and Events for an edit"), ["1.50"]);
        assert_eq!(columns(&table, "start until all statuses are written, s"), ["4"]);
        assert!(table.ends_with("\nleft out: this: for a reason\n"), "{table}");
        assert!(!table.contains("same bytes") && !table.contains("Envoy"), "{table}");
        let other = Report { input: Input::Kubernetes, ..report(vec![run_of_kubernetes()]) };
        let tables = of_two(&report(vec![run(1, 1.0)]), &other);
        assert!(
            tables.contains("\nb: holdfast 0.1.0 (abc), 60 edits, each timed from its request to an API server,"),
            "{tables}"
        );
        assert_eq!(columns(&tables, "cold start"), ["500", "500", "1"]);
        assert!(tables.ends_with("\nleft out in b: this: for a reason\n"), "{tables}");
    }

    #[test]
    fn a_report_of_an_earlier_version_is_read() -> anyhow::Result<()> {
        let mut value = serde_json::to_value(report(vec![run(1, 1.0)]))?;
        assert!(value.as_object_mut().is_some_and(|fields| fields.remove("virtual_hosts").is_some()));
        let fields = value["runs"][0].as_object_mut();
        assert!(fields.is_some_and(|fields| fields.remove("envoy").is_some() && fields.remove("left_out").is_some()));
        let floors = value["runs"][0]["floors"].as_object_mut().context("no floors")?;
        let notice = floors.remove("notice_milliseconds").context("no such floor")?;
        floors.insert("file_milliseconds".into(), notice);
        let read: Report = serde_json::from_value(value)?;
        assert_eq!(read.runs.first().map(|run| run.envoy.clone()), Some(None));
        let table = of_two(&read, &read);
        assert!(!table.contains("Envoy") && !table.contains("separate"), "{table}");
        Ok(())
    }

    #[test]
    fn memory_is_per_route_beyond_the_first() {
        let (base, other) = (run(1, 1.0), run(101, 1.0));
        let memory = other.memory_per_route(&base).map(|memory| (memory.resident_after_start, memory.peak));
        assert_eq!(memory, Some((10.0, 20.0)));
        assert_eq!(base.memory_per_route(&base), None);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() -> anyhow::Result<()> {
        let report = report(vec![run(1, 1.0)]);
        assert_eq!(serde_json::from_str::<Report>(&serde_json::to_string(&report)?)?, report);
        Ok(())
    }
}
