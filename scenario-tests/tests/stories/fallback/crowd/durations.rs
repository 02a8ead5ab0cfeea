//! The measured durations of a row, and how they are printed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::innocent::InnocentEdit;
use super::refusals::Counted;
use super::row::Row;

/// The measured durations of a row.
pub(super) struct Durations {
    row: &'static Row,
    /// The durations by sort; `None` if the edit was not served in time.
    took: BTreeMap<InnocentEdit, Vec<Option<Duration>>>,
    /// What was reported of the innocent namespace when an edit was not served in time.
    pub(super) reports: Vec<String>,
    /// The refusals by serving Envoys.
    pub(super) refusals: Counted,
    /// The duration of the run.
    pub(super) lasted: Duration,
}

impl Durations {
    /// Creates an empty record.
    pub(super) fn of(row: &'static Row) -> Self {
        Self { row, took: BTreeMap::new(), reports: Vec::new(), refusals: Counted::default(), lasted: Duration::ZERO }
    }

    /// Adds the duration of an edit.
    pub(super) fn add(&mut self, sort: InnocentEdit, took: Option<Duration>) {
        self.took.entry(sort).or_default().push(took);
    }

    /// Checks whether every edit was served in time.
    pub(super) fn all_served(&self) -> bool {
        self.took.values().flatten().all(Option::is_some)
    }

    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        took: impl Iterator<Item = Option<Duration>>,
    ) -> fmt::Result {
        let limit = self.row.edit_max;
        let mut sorted: Vec<Duration> = took.map(|took| took.unwrap_or(Duration::MAX)).collect();
        sorted.sort_unstable();
        let rank = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1));
        let shown = |took: Option<&Duration>| match took {
            Some(took) if *took > limit => format!("> {} s", limit.as_secs()),
            Some(took) => format!("{:.3} s", took.as_secs_f64()),
            None => "-".to_owned(),
        };
        let (middle, most) = (shown(rank(50)), shown(sorted.last()));
        writeln!(
            f,
            "  {name:<14} {:>4} edits  p50 {middle:>9}  p99 {:>9}  max {most:>9}",
            sorted.len(),
            shown(rank(99))
        )
    }
}

impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, objects, per_second, refused_of_three, edit, namespaces, envoys, .. } = self.row;
        let probe = if self.row.has_probe { "probe" } else { "no probe" };
        let first = if self.row.has_accepted_version { "accepted before" } else { "new" };
        let gates = if self.row.uses_last_valid { "last valid" } else { "gate only" };
        writeln!(
            f,
            "crowd {name}: {objects} objects ({first}) of {namespaces} namespaces, {per_second} edits/s of {edit:?}, \
             {refused_of_three}/3 refused; {envoys} Envoys, {probe}, {gates}; {:.0} s",
            self.lasted.as_secs_f64()
        )?;
        for (sort, took) in &self.took {
            self.line(f, &format!("{sort:?}"), took.iter().copied())?;
        }
        self.line(f, "all", self.took.values().flatten().copied())?;
        writeln!(f, "  refusals: {} in the worst minute, {} in all", self.refusals.worst_minute, self.refusals.all)?;
        self.reports.iter().try_for_each(|report| writeln!(f, "  not served in time, {report}"))
    }
}
