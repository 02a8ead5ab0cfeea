//! Text form of what would be served instead.

use std::collections::BTreeSet;

use holdfast_fallback::view::Identity;
use holdfast_graph::Detected;

use super::against::Against;
use crate::lines::Lines;

/// Maximum number of names that are listed; of more names only the number is shown.
const NAMES_SHOWN_MAX: usize = 10;

/// Writes the contents of the store, the decisions and the affected objects.
pub(super) fn write(against: &Against, text: &mut Lines) {
    store(against, text);
    let report = &against.fallback;
    for broken in &report.broken_objects {
        let key = broken.object.key();
        let by = match broken.detected_by {
            Detected::Translation => "broken",
            Detected::Probe => "refused earlier by the probe",
            Detected::Nack => "refused earlier by an Envoy",
            Detected::Suspected => "suspected earlier",
        };
        let at: Vec<&str> = broken.gateways.iter().map(|gateway| &**gateway).collect();
        let at = if at.is_empty() { String::new() } else { format!(" on Gateway {}", at.join(", ")) };
        text.add(format_args!("{key}: {by}{at}"));
    }
    for backfilled in &report.backfilled_objects {
        let desired = backfilled.desired_generation;
        let desired = desired.map_or_else(String::new, |desired| format!(" instead of {desired}"));
        let (generation, since) = (backfilled.served_generation, backfilled.served_since);
        let because = because(&backfilled.object, &backfilled.causing_objects);
        let key = backfilled.object.key();
        let section = part(&backfilled.section);
        text.add(format_args!(
            "{key}: {section}backfilled with generation {generation}{desired}, good since {since}{because}"
        ));
    }
    for replaced in report.replaced_by_steps() {
        let section = if replaced.section.is_empty() { "all of it" } else { &*replaced.section };
        let because = because(&replaced.object, &replaced.causing_objects);
        text.add(format_args!("{}: {section} replaced, answers {}{because}", replaced.object.key(), replaced.response));
    }
    for excluded in report.excluded_by_steps() {
        let because = because(&excluded.object, &excluded.causing_objects);
        text.add(format_args!("{}: {}excluded{because}", excluded.object.key(), part(&excluded.section)));
    }
    names("would be deleted, since it is stored and not in the manifests", &against.gone, text);
    names("no Envoy has accepted this version yet", &against.untried, text);
}

/// The section of an object, followed by a space, or nothing.
fn part(section: &str) -> String {
    if section.is_empty() { String::new() } else { format!("{section} ") }
}

fn store(against: &Against, text: &mut Lines) {
    let store = &against.store;
    text.add(format_args!("against {}: generation {}", store.path, store.generation));
    store.notices.iter().for_each(|notice| text.add(format_args!("  {notice}")));
    for scope in &store.scopes {
        let (gateway, build, objects, refused) = (&scope.gateway, &scope.build, scope.objects, scope.refused);
        text.add(format_args!(
            "  Gateway {gateway}, Envoy {build}: {objects} objects proven good, {refused} contents refused"
        ));
    }
    if store.scopes.is_empty() {
        text.add(format_args!("  nothing is stored"));
    }
    let gates = &against.settings;
    let last_valid = match (gates.fallback_configuration, gates.use_last_valid_config_for_fallback) {
        (false, _) => "FallbackConfiguration is off: nothing is backfilled",
        (true, false) => "last valid versions are not used: nothing is backfilled",
        (true, true) if gates.backfill_dependants => "broken objects are backfilled, together with their dependants",
        (true, true) => "broken objects are backfilled, without their dependants",
    };
    text.add(format_args!("  {last_valid}"));
}

fn because(object: &Identity, causes: &BTreeSet<String>) -> String {
    let own = object.key().to_string();
    let others: Vec<&str> = causes.iter().filter(|cause| **cause != own).map(String::as_str).collect();
    if others.is_empty() { String::new() } else { format!(", because of {}", others.join(", ")) }
}

fn names(what: &str, names: &[String], text: &mut Lines) {
    names.iter().take(NAMES_SHOWN_MAX).for_each(|name| text.add(format_args!("{name}: {what}")));
    match names.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => {}
        more => text.add(format_args!("{more} more: {what}")),
    }
}
