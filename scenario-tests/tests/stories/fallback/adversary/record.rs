//! The record of a run, for its last lines and for the report of a failure.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use super::door::{ALLOWANCE, GRACE, late_max};
use super::row::Row;

/// Number of edits that the report of a failure has.
const SHOWN: usize = 40;

/// The record of a run.
#[derive(Debug)]
pub(super) struct Record {
    seed: u64,
    row: Row,
    began: Instant,
    /// The last edits.
    last: VecDeque<String>,
    /// The kills and starts of processes.
    processes: Vec<String>,
    /// Number of edits and kills by sort.
    edits: BTreeMap<String, u64>,
    /// Number of requests.
    pub(super) requests: u64,
    /// The longest time until an innocent edit was served, with its route.
    pub(super) stalest: (Duration, String),
    /// The longest time until a changed guard or a deletion was effective, with its route.
    pub(super) latest: (Duration, String),
}

impl Record {
    /// Creates an empty record.
    pub(super) fn new(seed: u64, row: Row) -> Self {
        Self {
            seed,
            row,
            began: Instant::now(),
            last: VecDeque::new(),
            processes: Vec::new(),
            edits: BTreeMap::new(),
            requests: 0,
            stalest: (Duration::ZERO, "-".to_owned()),
            latest: (Duration::ZERO, "-".to_owned()),
        }
    }

    /// Time since the start of the run.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Records an edit or a kill.
    pub(super) fn add(&mut self, sort: &str, detail: &str) {
        *self.edits.entry(sort.to_owned()).or_default() += 1;
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(format!("{:>9.3} s  {sort:<15} {detail}", self.now().as_secs_f64()));
    }

    /// Records a kill or a start.
    pub(super) fn add_process(&mut self, sort: &str, name: &str) {
        self.add(sort, name);
        self.processes.push(format!("{sort} {name} at {:.3} s", self.now().as_secs_f64()));
    }

    /// The last edits, one per line, and all kills and starts.
    pub(super) fn last_edits(&self) -> String {
        let edits: String = self.last.iter().map(|line| format!("{line}\n")).collect();
        format!("{edits}processes: {}\n", self.processes.join(", "))
    }
}

/// Keeps the longer of two durations.
pub(super) fn keep_longest(longest: &mut (Duration, String), time: Duration, name: &str) {
    if time > longest.0 {
        *longest = (time, name.to_owned());
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { gates, fleet } = self.row;
        let total: u64 = self.edits.values().sum();
        writeln!(
            f,
            "adversary seed {}: gates {gates:?}, Envoys {fleet:?}; {total} edits, {} requests, {:.0} s",
            self.seed,
            self.requests,
            self.now().as_secs_f64()
        )?;
        let sorts: Vec<String> = self.edits.iter().map(|(sort, count)| format!("{sort} {count}")).collect();
        writeln!(f, "  {}", sorts.join(", "))?;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, (time, name): &(Duration, String), limit: Duration| {
            writeln!(f, "  {what}: {:.1} s of {} s ({name})", time.as_secs_f64(), limit.as_secs())
        };
        line(f, "longest time until an innocent edit was served", &self.stalest, GRACE + *ALLOWANCE)?;
        line(f, "longest time until a guard or a deletion was effective", &self.latest, late_max())
    }
}
