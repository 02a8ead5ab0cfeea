//! The page of one object: what clients get of it, why, the difference of manifest and configuration, what depends on
//! it, its events and its last day, and a text for its owner.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_engine::health::timeline::{Episode, Timeline};
use holdfast_engine::health::view::{Health, HealthFinding, Severity};
use holdfast_graph::{Affected, ObjectKey};
use maud::{Markup, html};

use super::article::{SHOWN_ALONE, article, severity_words};
use super::diagram::Diagram;
use super::filter::OverviewFilter;
use super::overview::inputs;
use super::text::text as shown;
use super::timeline;
use crate::diff::{DiffFacts, DiffLine, DiffReport, ObjectDifference};
use crate::finding::{finding_lines, heading, plain};
use crate::manifests::positions;
use crate::serve::recent_events::RecentEvent;

/// Maximum number of objects at the left of the diagram.
const DIAGRAM_ROOTS_MAX: usize = 5;
/// Maximum number of findings on the page of an object.
const OBJECT_FINDINGS_MAX: usize = 20;

/// The state of a running Holdfast at one moment, about one object.
pub(super) struct ObjectFacts {
    /// The object.
    pub(super) key: ObjectKey,
    /// Health of everything.
    pub(super) health: Arc<Health>,
    /// The inputs of the difference; unset if Holdfast has not read the object.
    pub(super) diff: Option<DiffFacts>,
    /// The objects at fault because of which it is not served as desired; the object itself if it is at fault, or if
    /// there are none.
    pub(super) roots: BTreeSet<ObjectKey>,
    /// What the failure of these objects reaches.
    pub(super) affected: Vec<Affected>,
    /// Its events of the last hour, the newest first.
    pub(super) events: Vec<RecentEvent>,
    /// What was at fault during the last day.
    pub(super) timeline: Arc<Timeline>,
    /// Why its content cannot be read now; unset if it can.
    pub(super) not_read: Option<String>,
    /// Its generation and its place, as far as they are known.
    pub(super) generation: Option<i64>,
    pub(super) place: Option<String>,
    /// Seconds of Unix time.
    pub(super) now: i64,
}

/// Returns the findings about an object: it is at fault, or not served as desired.
fn concerning<'h>(health: &'h Health, key: &ObjectKey) -> Vec<(Severity, &'h HealthFinding)> {
    let of = |severity| health.of(severity).iter().map(move |finding| (severity, finding));
    let is_about = |finding: &HealthFinding| {
        finding.objects.iter().any(|subject| subject.object.is(key))
            || finding.served.iter().any(|served| served.object.is(key))
            || finding.affected.iter().any(|object| object.is(key))
    };
    Severity::ALL.into_iter().flat_map(of).filter(|(_, finding)| is_about(finding)).collect()
}

/// Returns the objects at fault because of which an object is not served as desired; the object itself if it is at
/// fault, or if there are none.
pub(super) fn roots(health: &Health, key: &ObjectKey) -> BTreeSet<ObjectKey> {
    let found = concerning(health, key);
    let at_fault = found.iter().flat_map(|(_, finding)| &finding.objects).map(|subject| subject.object.key());
    let at_fault: BTreeSet<ObjectKey> = at_fault.collect();
    match at_fault.is_empty() || at_fault.contains(key) {
        true => BTreeSet::from([key.clone()]),
        false => at_fault.into_iter().take(DIAGRAM_ROOTS_MAX).collect(),
    }
}

impl ObjectFacts {
    /// Returns whether anything is known of the object.
    pub(super) fn is_known(&self) -> bool {
        self.diff.is_some() || !concerning(&self.health, &self.key).is_empty()
    }

    /// Returns the content of the page. This takes time: the difference translates objects once more.
    pub(super) fn content(self) -> Markup {
        let concerning = concerning(&self.health, &self.key).into_iter();
        let mut found: Vec<(Severity, HealthFinding)> =
            concerning.map(|(severity, finding)| (severity, finding.clone())).collect();
        positions::locate(found.iter_mut().map(|(_, finding)| finding));
        let found: Vec<(Severity, &HealthFinding)> =
            found.iter().map(|(severity, finding)| (*severity, finding)).collect();
        let episodes: Vec<&Episode> = self.timeline.episodes().filter(|one| one.object == self.key).collect();
        let report = self.diff.as_ref().map(DiffReport::new);
        let name = plain(&format!("{} {}", self.key.kind, self.key.namespaced_name()));
        html! {
            h1 { (name) }
            (self.state(&found))
            section aria-labelledby="findings" {
                h2 #findings { "Not served as written" }
                @if found.is_empty() {
                    p { "Nothing" @if !self.health.inputs.problems.is_empty() { " of what can be read" } "." }
                }
                @for (severity, finding) in found.iter().take(OBJECT_FINDINGS_MAX) {
                    (article(finding, *severity, self.now, SHOWN_ALONE))
                }
                @if found.len() > OBJECT_FINDINGS_MAX { p { "and " (found.len() - OBJECT_FINDINGS_MAX) " more" } }
            }
            @if let Some(report) = &report { (differences(report)) }
            (self.diagram(&found))
            (letter(&name, &found, &self.key, self.now))
            (self.recent())
            (timeline::section(&episodes, 0, &OverviewFilter::default(), self.now))
        }
    }

    fn state(&self, found: &[(Severity, &HealthFinding)]) -> Markup {
        let worst = found.iter().map(|(severity, _)| *severity).min();
        let (words, class) = match worst {
            Some(worst) => severity_words(worst),
            None if self.not_read.is_some() => ("served as it was read last", "earlier"),
            None if !self.health.inputs.problems.is_empty() => ("served as far as it can be read", "earlier"),
            None => ("served as written", "served"),
        };
        html! {
            p #verdict class={ "verdict " (class) } {
                span class={ "state " (class) } { (words) }
                @if let Some(generation) = self.generation { ", generation " (generation) }
                @if let Some(place) = &self.place { ", " (plain(place)) }
                @if self.diff.is_none() { ", not read from a manifest" }
            }
            @if let Some(why) = &self.not_read { p { (shown(why)) } }
            @if !self.health.inputs.problems.is_empty() { (inputs(&self.health, self.now)) }
        }
    }

    fn diagram(&self, found: &[(Severity, &HealthFinding)]) -> Markup {
        let mut broken = BTreeSet::new();
        let mut not_as_desired = BTreeSet::new();
        // Objects can be at fault, or not served as desired, for other reasons than this object.
        let elsewhere = self.health.outages.iter().chain(&self.health.degraded);
        for finding in found.iter().map(|(_, finding)| *finding).chain(elsewhere) {
            broken.extend(finding.objects.iter().map(|subject| subject.object.key()));
            let others = finding.served.iter().map(|served| &served.object).chain(&finding.affected);
            not_as_desired.extend(others.map(|object| object.key()));
        }
        let (roots, affected) = (&self.roots, &*self.affected);
        Diagram { roots, affected, broken: &broken, not_as_desired: &not_as_desired }.section()
    }

    fn recent(&self) -> Markup {
        html! {
            section aria-labelledby="events" {
                h2 #events { "Events of the last hour" }
                @if self.events.is_empty() { p { "None." } } @else {
                    ul {
                        @for event in self.events.iter().take(super::PAGE_ROWS_MAX) {
                            li { time { (event.at) } " " strong { (event.reason) } ": " (shown(&event.note)) }
                        }
                    }
                }
            }
        }
    }
}

fn differences(report: &DiffReport) -> Markup {
    html! {
        section aria-labelledby="difference" {
            h2 #difference { "Served and desired" }
            @for input in &report.inputs { p { "Not read: " (plain(&input.of)) ": " (shown(&input.message)) } }
            @if report.objects.is_empty() { p { "No difference" @if !report.inputs.is_empty() { " to what was read last" } "." } }
            @for object in &report.objects { (difference(object)) }
            @for gateway in &report.gateways {
                p { "Gateway " (plain(&gateway.name)) ": " (plain(&gateway.envoys.to_string())) }
            }
            @if report.routes_not_compared > 0 {
                p { "The configuration of " (report.routes_not_compared) " more affected routes was not compared." }
            }
        }
    }
}

fn difference(object: &ObjectDifference) -> Markup {
    html! {
        @if object.manifest.is_empty() { p { "No earlier version of the manifest is served." } } @else {
            h3 { "Manifest" }
            p {
                span class="removed" { "- served" }
                @if let Some(generation) = object.served_generation { " (generation " (generation) ")" }
                ", " span class="added" { "+ desired" }
                @if let Some(generation) = object.desired_generation { " (generation " (generation) ")" }
            }
            (lines(&object.manifest, "Difference of the manifest"))
        }
        @if !object.configuration.is_empty() {
            h3 { "Envoy's configuration" }
            @for part in &object.configuration {
                p { "Gateway " (plain(&part.gateway)) ": " (plain(&part.part)) }
                (lines(&part.lines, "Difference of Envoy's configuration"))
            }
            @if object.more_parts > 0 { p { "and " (object.more_parts) " more parts differ" } }
        }
    }
}

fn lines(lines: &[DiffLine], label: &str) -> Markup {
    html! {
        pre class="diff" tabindex="0" role="group" aria-label=(label) {
            @for DiffLine { sign, text, fault } in lines {
                @let class = match sign { '+' => "added", '-' => "removed", '@' => "hunk", _ => "same" };
                span class=(class) {
                    @if *sign != '@' { (sign) }
                    (shown(text))
                    @if let Some(fault) = fault { mark { "  # <-- " (shown(fault)) } }
                }
                "\n"
            }
        }
    }
}

/// A text for the owner of the object, to be copied.
fn letter(name: &str, found: &[(Severity, &HealthFinding)], key: &ObjectKey, now: i64) -> Markup {
    let is_at_fault = |finding: &HealthFinding| finding.objects.iter().any(|subject| subject.object.is(key));
    let own = found.iter().filter(|(_, finding)| is_at_fault(finding)).take(OBJECT_FINDINGS_MAX);
    let mut text = String::new();
    for (severity, finding) in own {
        let head = heading(finding);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{}", head.object, head.rest);
        for line in finding_lines(finding, *severity, now, super::article::SHOWN) {
            let _ = writeln!(text, "  {:8} {}", line.label, shown(&line.text));
        }
        if !finding.next.starts_with('/') {
            let _ = writeln!(text, "  {:8} {}", "next", shown(&finding.next));
        }
        text.push('\n');
    }
    html! {
        @if !text.is_empty() {
            section aria-labelledby="letter-title" {
                h2 #letter-title { "Text for the owner" }
                pre #letter tabindex="0" role="group" aria-labelledby="letter-title" {
                    (name) " is not served as written (as of " (Moment(now)) ").\n\n"
                    (text.trim_end())
                }
                button type="button" data-copy="letter" hidden { "Copy" }
            }
        }
    }
}
