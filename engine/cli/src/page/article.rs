//! A finding of health, as an article.

use std::collections::BTreeSet;

use holdfast_engine::health::view::{HealthFinding, ObjectAtFault, Severity};
use holdfast_fallback::view::Identity;
use maud::{Markup, html};

use super::text::{in_list, text};
use crate::finding::{ShownLimits, finding_lines, heading, name, plain};

/// How much of a finding is shown in a list. The page of an object has more.
pub(super) const SHOWN: ShownLimits = ShownLimits { lines: 5, names: 5, elsewhere: "" };
/// How much of a finding is shown on the page of its object.
pub(super) const SHOWN_ALONE: ShownLimits = ShownLimits { lines: 50, names: 50, elsewhere: "" };
/// Maximum number of links to other objects of a finding.
const FINDING_LINKS_MAX: usize = 5;

/// Returns the address of the page of an object.
pub(super) fn address(object: &Identity) -> String {
    let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    match object.namespace.is_empty() {
        true => format!("/object/{}/{}", part(&object.kind), part(&object.name)),
        false => format!("/object/{}/{}/{}", part(&object.kind), part(&object.namespace), part(&object.name)),
    }
}

/// Returns a link to the page of an object.
pub(super) fn link(object: &Identity) -> Markup {
    html! { a href=(address(object)) { (name(object)) } }
}

/// Returns the words for a severity, and the class of their colour.
pub(super) fn severity_words(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Outage => ("clients get errors", "error"),
        Severity::Degraded => ("degraded", "earlier"),
        Severity::Warning => ("warning", "warning"),
    }
}

/// Returns a finding. `now` is in seconds of Unix time.
pub(super) fn article(finding: &HealthFinding, severity: Severity, now: i64, limits: ShownLimits) -> Markup {
    let (words, class) = severity_words(severity);
    let head = heading(finding);
    let objects: BTreeSet<&Identity> = finding.objects.iter().map(|subject| &subject.object).collect();
    let first = finding.objects.first().map(|subject| &subject.object);
    let cut = if limits.lines == SHOWN.lines { in_list } else { text };
    let others = objects.into_iter().filter(|object| Some(*object) != first).take(FINDING_LINKS_MAX);
    html! {
        article class={ "finding " (class) } {
            h3 {
                @if let Some(first) = first { a href=(address(first)) { (head.object) } }
                (head.rest) " "
                span class={ "state " (class) } { (words) }
            }
            dl {
                @for line in finding_lines(finding, severity, now, limits) {
                    div { dt { (line.label) } dd { (cut(&line.text)) } }
                }
                div { dt { "next" } dd { (next(&finding.next)) } }
            }
            @let others: Vec<&Identity> = others.collect();
            @if !others.is_empty() {
                p class="links" { "Also: " @for object in others { (link(object)) " " } }
            }
        }
    }
}

/// Returns the next step: a command, or a link to a page of diagnostics.
fn next(next: &str) -> Markup {
    html! {
        @if next.starts_with('/') { a href=(next) { (plain(next)) } } @else { code { (text(next)) } }
    }
}

/// Returns the object of a finding with this identity.
pub(super) fn subject<'f>(finding: &'f HealthFinding, object: &Identity) -> Option<&'f ObjectAtFault> {
    finding.objects.iter().find(|subject| subject.object == *object)
}
