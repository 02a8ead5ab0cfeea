//! The facts of one finding, each with a label.

use std::collections::BTreeSet;

use holdfast_check::certificate::DateFault;
use holdfast_check::time::Moment;
use holdfast_engine::health::view::{DetectedBy, ManifestPosition, ObjectAtFault, ServedInstead};
use holdfast_engine::health::{HealthFinding, Severity};
use holdfast_fallback::view::Identity;

use super::{ShownLimits, described, listed, name, plain};
use crate::output::age;

/// A fact of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FindingLine {
    /// The sort of fact: `owner`, `since`, `why`, `file`, `instead`, `earlier`, `affects`, `also`.
    pub(crate) label: &'static str,
    /// The fact, escaped.
    pub(crate) text: String,
}

/// Returns the facts of a finding, without its heading and its next step. `now` is in seconds of Unix time.
pub(crate) fn finding_lines(
    finding: &HealthFinding,
    severity: Severity,
    now: i64,
    limits: ShownLimits,
) -> Vec<FindingLine> {
    let Some((first, others)) = finding.objects.split_first() else { return Vec::new() };
    let mut lines = FindingLines { lines: Vec::new(), limits };
    lines.owners(finding);
    let at = finding.gateways.iter().map(|gateway| &**gateway).filter(|gateway| !gateway.is_empty());
    let at = listed(at, limits);
    match (finding.since, at.is_empty()) {
        (Some(since), true) => lines.add("since", when(since, now)),
        (Some(since), false) => lines.add("since", format!("{}, at {at}", when(since, now))),
        (None, true) => {}
        (None, false) => lines.add("at", at),
    }
    let field = if first.field.is_empty() { String::new() } else { format!("{}: ", plain(&first.field)) };
    lines.add("why", format!("{}: {field}{}", how(finding, severity), plain(&finding.message)));
    if let Some(ManifestPosition { file, line, column }) = &first.place {
        let column = column.map(|column| format!(":{column}")).unwrap_or_default();
        lines.add("file", format!("{}:{line}{column}", plain(file)));
    }
    lines.served(finding, severity);
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(|subject| also(subject, first)).collect();
        lines.add("also", listed(others.iter().map(String::as_str), limits));
    }
    lines.lines
}

/// Returns a moment with its age.
pub(crate) fn when(moment: Moment, now: i64) -> String {
    format!("{moment} ({} ago)", age(now, moment.0))
}

struct FindingLines {
    lines: Vec<FindingLine>,
    limits: ShownLimits,
}

impl FindingLines {
    fn add(&mut self, label: &'static str, text: String) {
        self.lines.push(FindingLine { label, text });
    }

    /// Adds several lines of one sort. Equal lines are added once: they are about several Gateways.
    fn add_all(&mut self, label: &'static str, mut texts: Vec<String>) {
        let mut known = BTreeSet::new();
        texts.retain(|text| known.insert(text.clone()));
        let more = texts.len().saturating_sub(self.limits.lines);
        texts.into_iter().take(self.limits.lines).for_each(|text| self.add(label, text));
        if more > 0 {
            self.add(label, format!("{more} more{}", self.limits.rest(": ", "")));
        }
    }

    fn owners(&mut self, finding: &HealthFinding) {
        let owners: BTreeSet<&str> = finding.objects.iter().map(|subject| &*subject.object.namespace).collect();
        let owners: Vec<&str> = owners.into_iter().filter(|owner| !owner.is_empty()).collect();
        match owners.as_slice() {
            [] => {}
            [owner] => self.add("owner", format!("namespace {}", plain(owner))),
            owners => self.add("owners", format!("namespaces {}", listed(owners.iter().copied(), self.limits))),
        }
    }

    fn served(&mut self, finding: &HealthFinding, severity: Severity) {
        let subjects: BTreeSet<&Identity> = finding.objects.iter().map(|subject| &subject.object).collect();
        let is_own = |served: &&ServedInstead| subjects.contains(&served.object);
        let (own, others): (Vec<&ServedInstead>, Vec<&ServedInstead>) = finding.served.iter().partition(is_own);
        let several = finding.objects.len() > 1;
        self.add_all("instead", described(&own, several, self.limits));
        let earlier: BTreeSet<String> = finding
            .objects
            .iter()
            .filter_map(|subject| {
                let of = if several { format!("{}: ", name(&subject.object)) } else { String::new() };
                Some(format!("{of}{}", plain(subject.not_backfilled.as_deref()?)))
            })
            .collect();
        self.add_all("earlier", earlier.into_iter().collect());
        let others = described(&others, true, self.limits).into_iter();
        self.add_all("affects", others.chain(finding.affected.iter().map(name)).collect());
        let instead = match (finding.served.is_empty(), severity) {
            (true, Severity::Outage) => {
                let names: Vec<String> = subjects.iter().map(|object| name(object)).collect();
                let names = names.iter().map(String::as_str);
                format!("not served: {}", listed(names, self.limits))
            }
            (true, Severity::Warning) if finding.reason == "TargetNotFound" => {
                "the policy has no effect: its intended targets are served without it".to_owned()
            }
            (true, Severity::Degraded) if finding.detected_by != DetectedBy::Envoys => {
                "the last acknowledged configuration stays".to_owned()
            }
            _ => return,
        };
        self.add("instead", instead);
    }
}

/// Returns whether the time is the cause, and not a mistake in the object.
fn is_about_dates(finding: &HealthFinding) -> bool {
    DateFault::REASONS.contains(&finding.reason.as_str())
}

/// How the finding was detected, or what sort of mistake it is.
fn how(finding: &HealthFinding, severity: Severity) -> &'static str {
    match (finding.detected_by, severity) {
        (DetectedBy::Nack, _) => "refused by Envoy",
        (DetectedBy::Probe, _) => "refused by the probe",
        (DetectedBy::Suspected, _) => "may have been refused by Envoy",
        (DetectedBy::Envoys, _) => "observed",
        (DetectedBy::Translation, _) if is_about_dates(finding) => "observed",
        (DetectedBy::Translation, Severity::Warning) => "not as written",
        (DetectedBy::Translation, _) => "cannot be translated",
    }
}

/// Another place with the cause of a finding: a field of its first object, or another object.
fn also(subject: &ObjectAtFault, first: &ObjectAtFault) -> String {
    if subject.object == first.object && !subject.field.is_empty() {
        return subject.field.clone();
    }
    let field = if subject.field.is_empty() { String::new() } else { format!(" ({})", subject.field) };
    format!("{}{field}", name(&subject.object))
}
