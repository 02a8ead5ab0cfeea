//! The log of what is wrong: one line when it begins, one when it is over, none in between.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::run::manifests::Problem;

/// Lines of one sort that are logged at once; the rest is counted.
const LINES_MAX: usize = 50;

/// What was last told.
#[derive(Debug, Default)]
pub struct News {
    faults: BTreeSet<Fault>,
    problems: BTreeSet<Problem>,
    replacements: BTreeSet<String>,
}

impl News {
    /// Tells the faults that are new, and those that are gone.
    pub fn faults(&mut self, faults: &[Fault]) {
        let now: BTreeSet<Fault> = faults.iter().cloned().collect();
        tell(now.difference(&self.faults), "faults", |fault| {
            tracing::warn!(object = %fault.object, field = fault.field, reason = fault.reason, "{}", fault.message);
        });
        tell(self.faults.difference(&now), "ended faults", |fault| {
            tracing::info!(object = %fault.object, field = fault.field, reason = fault.reason, "no longer: {}", fault.message);
        });
        self.faults = now;
    }

    /// Tells the problems of files that are new, and those that are gone.
    pub fn problems(&mut self, problems: &[Problem]) {
        let now: BTreeSet<Problem> = problems.iter().cloned().collect();
        tell(now.difference(&self.problems), "problems of files", |problem| tracing::warn!("{problem}"));
        tell(self.problems.difference(&now), "ended problems of files", |problem| {
            tracing::info!("no longer: {problem}");
        });
        self.problems = now;
    }

    /// Tells the replacements that are new, and those that are gone.
    pub fn replacements(&mut self, replacements: BTreeSet<String>) {
        tell(replacements.difference(&self.replacements), "replacements", |text| tracing::warn!("replaced: {text}"));
        tell(self.replacements.difference(&replacements), "ended replacements", |text| {
            tracing::info!("served again as written: {text}");
        });
        self.replacements = replacements;
    }
}

fn tell<'a, T: 'a>(items: impl Iterator<Item = &'a T>, what: &str, mut line: impl FnMut(&'a T)) {
    let mut more = 0_usize;
    for (index, item) in items.enumerate() {
        if index < LINES_MAX { line(item) } else { more += 1 }
    }
    if more > 0 {
        tracing::warn!("and {more} more {what}: see /debug/faults");
    }
}
