//! The answer for people, who may be tired: what is wrong first, one thing a line.

use std::collections::BTreeMap;
use std::fmt::Write;

use holdfast_graph::Detected;

use super::is_current;
use crate::fallback::events::left_out;
use crate::fallback::view::{BrokenObject, FallbackReport, GatewayState, Identity, ServedState};
use crate::run::store::inspect::age;
use crate::time::Moment;

/// Broken objects that are shown, and others that are shown of one; JSON has all.
const SHOWN_MAX: usize = 50;

/// Is it for a terminal?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Text and nothing else.
    Plain,
    /// What counts stands out.
    Coloured,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// What is done about an object instead of serving it: one line for each part.
type Instead = BTreeMap<Identity, Vec<(String, Vec<String>)>>;

/// The report as lines. `now` is in seconds of Unix time.
pub(super) fn format(report: &FallbackReport, now: i64, style: Style) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(report, now, style, &mut text);
    text
}

fn write(report: &FallbackReport, now: i64, style: Style, text: &mut String) -> std::fmt::Result {
    if is_current(report) {
        writeln!(text, "{}", style.paint("32", "Everything is served as it is desired."))?;
    } else {
        let count =
            |step: &str| report.counts().iter().filter(|((of, _), _)| *of == step).map(|(_, n)| n).sum::<usize>();
        let head = format!(
            "NOT everything is served as it is desired: {} broken, {} backfilled, {} replaced, {} excluded.",
            report.broken_objects.len(),
            count("backfilled"),
            count("replaced"),
            count("excluded"),
        );
        writeln!(text, "{}", style.paint("1;31", &head))?;
    }
    gateways(&report.gateways, text)?;
    let instead = instead(report);
    for broken in report.broken_objects.iter().take(SHOWN_MAX) {
        writeln!(text)?;
        write_broken(broken, &instead, now, style, text)?;
    }
    if let more @ 1.. = report.broken_objects.len().saturating_sub(SHOWN_MAX) {
        writeln!(text, "\nand {more} more broken objects: --output json shows all")?;
    }
    Ok(())
}

fn gateways(gateways: &[GatewayState], text: &mut String) -> std::fmt::Result {
    if gateways.is_empty() {
        return writeln!(text, "There is no Gateway.");
    }
    let width = gateways.iter().map(|gateway| gateway.name.chars().count()).max().unwrap_or(0).max("GATEWAY".len());
    writeln!(text, "\n{:width$}  {:10}  ENVOYS", "GATEWAY", "SERVED")?;
    for gateway in gateways {
        let served = match gateway.state {
            ServedState::Current => "current",
            ServedState::Trying => "trying",
            ServedState::Probing => "probing",
            ServedState::Following => "following",
            ServedState::Unverified => "unverified",
            ServedState::Fallback => "fallback",
            ServedState::Held => "held",
        };
        let envoys = &gateway.envoys;
        let envoys = match envoys.acknowledged + envoys.refused + envoys.pending {
            0 => "none connected".to_owned(),
            _ => {
                format!("{} acknowledged, {} refused, {} pending", envoys.acknowledged, envoys.refused, envoys.pending)
            }
        };
        writeln!(text, "{:width$}  {served:10}  {envoys}", plain(&gateway.name))?;
    }
    Ok(())
}

fn write_broken(
    broken: &BrokenObject,
    instead: &Instead,
    now: i64,
    style: Style,
    text: &mut String,
) -> std::fmt::Result {
    let generation = broken.generation.map(|generation| format!(", generation {generation}")).unwrap_or_default();
    writeln!(text, "{}{generation}", style.paint("1", &name(&broken.object)))?;
    let at = broken.gateways.iter().map(|gateway| plain(gateway)).collect::<Vec<_>>().join(", ");
    let at = if at.is_empty() { String::new() } else { format!(", at {at}") };
    writeln!(text, "  since    {}{at}", when(broken.since, now))?;
    let who = match broken.detected_by {
        Detected::Nack => "refused by Envoy",
        Detected::Probe => "refused by the probe",
        Detected::Translation => "cannot be translated",
        Detected::Suspected => "may have been refused by Envoy",
    };
    let field = if broken.field.is_empty() { String::new() } else { format!(" {}:", plain(&broken.field)) };
    writeln!(text, "  why      {who}:{field} {}", plain(&broken.message))?;
    match instead.get(&broken.object) {
        Some(own) => own.iter().try_for_each(|(words, _)| writeln!(text, "  instead  {words}"))?,
        None => writeln!(text, "  instead  what Envoys acknowledged before stays")?,
    }
    let key = broken.object.key().to_string();
    let caused = |causes: &Vec<String>| causes.contains(&key);
    let others = instead.iter().filter(|(object, _)| **object != broken.object);
    let mut others =
        others.filter_map(|(object, done)| Some((object, done.iter().find(|(_, causes)| caused(causes))?)));
    for (object, (words, _)) in others.by_ref().take(SHOWN_MAX) {
        writeln!(text, "  affects  {}: {words}", name(object))?;
    }
    match others.count() {
        0 => Ok(()),
        more => writeln!(text, "  affects  {more} more objects"),
    }
}

fn instead(report: &FallbackReport) -> Instead {
    let mut instead = Instead::new();
    for backfilled in &report.backfilled_objects {
        let (generation, since) = (backfilled.served_generation, backfilled.served_since);
        let of =
            if backfilled.section.is_empty() { String::new() } else { format!("{} of ", plain(&backfilled.section)) };
        let words = format!("{of}generation {generation} is served, last valid since {since}");
        let causes = backfilled.causing_objects.iter().cloned().collect();
        instead.entry(backfilled.object.clone()).or_default().push((words, causes));
    }
    for replaced in &report.replaced_objects {
        let section = if replaced.section.is_empty() { "it".to_owned() } else { plain(&replaced.section) };
        let words = format!("{section} answers {}", replaced.response);
        let causes = replaced.causing_objects.iter().cloned().collect();
        instead.entry(replaced.object.clone()).or_default().push((words, causes));
    }
    for excluded in &report.excluded_objects {
        let causes = excluded.causing_objects.iter().cloned().collect();
        instead.entry(excluded.object.clone()).or_default().push((plain(&left_out(&excluded.section)), causes));
    }
    instead
}

fn when(moment: Moment, now: i64) -> String {
    format!("{moment} ({} ago)", age(now, moment.0))
}

fn name(object: &Identity) -> String {
    plain(&format!("{} {}", object.kind, object.key().namespaced_name()))
}

/// What comes from elsewhere may not steer a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
