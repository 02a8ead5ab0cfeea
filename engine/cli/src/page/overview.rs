//! The overview: the Gateways, their hosts, what is not served as desired, the inputs, and the last day.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::health::timeline::{Episode, Timeline};
use holdfast_engine::health::view::{Health, HealthFinding, HealthVerdict, InputProblem, Severity};
use holdfast_graph::ObjectKey;
use holdfast_xds::Snapshot;
use maud::{Markup, html};

use super::article::{SHOWN, article};
use super::filter::OverviewFilter;
use super::gateways::GatewayTable;
use super::hosts::{self, HostFacts, HostRow, ReadEarlier};
use super::paging::ListPage;
use super::text::text;
use super::timeline;
use crate::admin::EnvoyRow;
use crate::finding::{plain, when};
use crate::manifests::positions;

/// The state of a running Holdfast at one moment.
pub(super) struct OverviewFacts {
    /// Health of everything.
    pub(super) health: Health,
    /// What was at fault during the last day.
    pub(super) timeline: Arc<Timeline>,
    /// The published resources, by Gateway.
    pub(super) published: BTreeMap<Arc<str>, Snapshot>,
    /// The Envoys that are connected to this replica.
    pub(super) envoys: Vec<EnvoyRow>,
    /// The objects.
    pub(super) objects: ObjectSnapshot,
    /// Objects with content that cannot be read now.
    pub(super) not_read: BTreeMap<ObjectKey, ReadEarlier>,
    /// Seconds of Unix time.
    pub(super) now: i64,
}

/// Returns the content of the page. This takes time: files with mistakes are read for the positions of fields.
pub(super) fn content(facts: OverviewFacts, filter: &OverviewFilter) -> Markup {
    let OverviewFacts { health, timeline, published, envoys, objects, not_read, now } = facts;
    let host_facts = HostFacts { health: &health, published: &published, objects: &objects, not_read: &not_read };
    let all_hosts = hosts::rows(&host_facts);
    // The state of a Gateway is that of all its hosts, also where the filter shows a part of them.
    let table = GatewayTable { health: &health, timeline: &timeline, envoys: &envoys, hosts: &all_hosts, now };
    let gateways = table.list(filter);
    let unknown = filter.unknown(&health);
    let health = filter.part(health);
    let shown: Vec<HostRow> = all_hosts.into_iter().filter(|row| row.is_in(filter)).collect();
    let found = found(&health, filter);
    let episodes: Vec<&Episode> = timeline.episodes().filter(|episode| is_in(episode, filter)).collect();
    html! {
        h1 { "Overview" }
        @match unknown {
            Some(why) => { p #verdict class="verdict earlier" { (why) } }
            None => { (verdict(&health, filter)) }
        }
        (gateways)
        (inputs(&health, now))
        (hosts::list(&shown, filter))
        (findings(&found, health.inputs.problems.is_empty(), filter, now))
        (timeline::section(&episodes, timeline.dropped(), filter, now))
        @if let Some(settings) = &health.settings { p class="settings" { "Gates: " (plain(&settings.to_string())) } }
    }
}

fn verdict(health: &Health, filter: &OverviewFilter) -> Markup {
    let class = match health.verdict {
        HealthVerdict::Healthy => "served",
        HealthVerdict::Degraded => "earlier",
        HealthVerdict::Down => "error",
    };
    html! { p #verdict class={ "verdict " (class) } { (health.summary().sentence_about(&filter.clause())) } }
}

/// Returns the findings that the filter shows, the worst first.
fn found<'h>(health: &'h Health, filter: &OverviewFilter) -> Vec<(Severity, &'h HealthFinding)> {
    let wanted = Severity::ALL.into_iter().filter(|severity| filter.has_severity(*severity));
    let all = wanted.flat_map(|severity| health.of(severity).iter().map(move |finding| (severity, finding)));
    all.filter(|(severity, finding)| filter.is_in_finding(finding, *severity)).collect()
}

fn findings(found: &[(Severity, &HealthFinding)], all_is_read: bool, filter: &OverviewFilter, now: i64) -> Markup {
    let page = ListPage::new(found, filter.findings);
    html! {
        section aria-labelledby="findings" {
            h2 #findings { "Not served as written" }
            @if found.is_empty() { p { "Nothing" @if !filter.is_all() { " with this filter" } @if !all_is_read { " of what can be read" } "." } }
            @for (severity, finding) in &located(&page.rows) { (article(finding, *severity, now, SHOWN)) }
            (page.links("causes", "findings", filter))
        }
    }
}

/// Returns findings with the positions of their fields.
fn located(shown: &[&(Severity, &HealthFinding)]) -> Vec<(Severity, HealthFinding)> {
    let mut located: Vec<(Severity, HealthFinding)> =
        shown.iter().map(|(severity, finding)| (*severity, (*finding).clone())).collect();
    positions::locate(located.iter_mut().map(|(_, finding)| finding));
    located
}

/// Returns the sources of objects, and what cannot be read.
pub(super) fn inputs(health: &Health, now: i64) -> Markup {
    html! {
        section aria-labelledby="inputs" {
            h2 #inputs { "Inputs" }
            ul {
                @for source in &health.inputs.sources {
                    li {
                        "Objects come from " (plain(&source.name)) ": "
                        (if source.live { "read" } else { "NOT read now" }) ", " (source.objects) " objects"
                        @if let Some(seconds) = source.seen_seconds_ago { "; last answer " (seconds) " s ago" }
                    }
                }
                @for InputProblem { of, reason, message, since, next } in health.inputs.problems.iter().take(super::PAGE_ROWS_MAX) {
                    li class="earlier" {
                        strong { (plain(of)) } ": " (plain(reason)) ": " (text(message))
                        @if let Some(since) = since { ", since " (when(*since, now)) }
                        ". Next: " code { (text(next)) }
                    }
                }
                @if health.inputs.problems.len() > super::PAGE_ROWS_MAX {
                    li { "and " (health.inputs.problems.len() - super::PAGE_ROWS_MAX) " more: see " a href="/debug/health" { "/debug/health" } }
                }
                @if !health.inputs.not_installed.is_empty() {
                    li { "Kinds that are not installed: " (plain(&health.inputs.not_installed.join(", "))) }
                }
            }
        }
    }
}

fn is_in(episode: &Episode, filter: &OverviewFilter) -> bool {
    let object = &episode.object;
    (filter.namespace.is_empty() || *object.namespace == *filter.namespace)
        && filter.has_severity(episode.severity)
        && (filter.is_in(&format!("{} {}", object.kind, object.namespaced_name())) || filter.is_in(&episode.message))
}
