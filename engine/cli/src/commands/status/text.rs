//! Text form of health: outages first, then degraded objects, warnings and inputs; one fact per line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use holdfast_check::certificate::DateFault;
use holdfast_check::time::Moment;
use holdfast_engine::health::view::{
    DetectedBy, Gets, InputProblem, Inputs, ManifestPosition, ObjectAtFault, ServedInstead, SourceView,
};
use holdfast_engine::health::{Health, HealthFinding, HealthVerdict, Severity};
use holdfast_fallback::view::{Identity, ServedState};

use super::part::SelectedPart;
use crate::output::age;
use crate::printable;

/// Maximum number of findings of one sort, and of lines of one finding; JSON has all.
const FINDINGS_SHOWN_MAX: usize = 50;
/// Maximum number of hosts, paths and names on one line; JSON has all.
const NAMES_ON_A_LINE_MAX: usize = 5;

/// The style of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Plain text.
    Plain,
    /// Text with colours for a terminal.
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

/// The selected health as lines. `address` is that of diagnostics, `now` is in seconds of Unix time.
pub(super) fn format(health: &Health, part: &SelectedPart<'_>, address: &str, now: i64, style: Style) -> String {
    let mut text = String::new();
    let page = Page { part: part.to_string(), address, now, style };
    // Writing to a String cannot fail.
    let _ = page.write(health, &mut text);
    text
}

struct Page<'a> {
    part: String,
    address: &'a str,
    now: i64,
    style: Style,
}

impl Page<'_> {
    fn write(&self, health: &Health, text: &mut String) -> std::fmt::Result {
        let code = match health.verdict {
            HealthVerdict::Healthy => "32",
            HealthVerdict::Degraded => "1;33",
            HealthVerdict::Down => "1;31",
        };
        writeln!(text, "{}", self.style.paint(code, &health.summary().sentence_about(&self.part)))?;
        gateways(health, text)?;
        for severity in Severity::ALL {
            self.section(severity, health.of(severity), text)?;
        }
        self.inputs(&health.inputs, text)?;
        match &health.settings {
            Some(settings) => writeln!(text, "Gates: {}", plain(&settings.to_string())),
            None => Ok(()),
        }
    }

    fn section(&self, severity: Severity, findings: &[HealthFinding], text: &mut String) -> std::fmt::Result {
        if findings.is_empty() {
            return Ok(());
        }
        let head = match severity {
            Severity::Outage => "OUTAGES: clients get errors or no connection",
            Severity::Degraded => {
                "DEGRADED: clients are served, but with an older version than desired, or not by every Envoy"
            }
            Severity::Warning => "WARNINGS: mistakes without a known effect on clients",
        };
        writeln!(text, "\n{}", self.style.paint("1", head))?;
        for finding in findings.iter().take(FINDINGS_SHOWN_MAX) {
            writeln!(text)?;
            self.finding(finding, severity, text)?;
        }
        match findings.len().saturating_sub(FINDINGS_SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(text, "\nand {more} more: --output json shows all"),
        }
    }

    fn finding(&self, finding: &HealthFinding, severity: Severity, text: &mut String) -> std::fmt::Result {
        let Some((first, others)) = finding.objects.split_first() else { return Ok(()) };
        let generation = first.generation.map(|generation| format!(", generation {generation}")).unwrap_or_default();
        let other_objects: BTreeSet<&Identity> = others.iter().map(|subject| &subject.object).collect();
        let more = match other_objects.iter().filter(|object| ***object != first.object).count() {
            0 => String::new(),
            more => format!(", and {more} more with the same cause"),
        };
        writeln!(text, "{}{generation}{more}", self.style.paint("1", &name(&first.object)))?;
        let owners: BTreeSet<&str> = finding.objects.iter().map(|subject| &*subject.object.namespace).collect();
        let owners: Vec<&str> = owners.into_iter().filter(|owner| !owner.is_empty()).collect();
        match owners.as_slice() {
            [] => {}
            [owner] => writeln!(text, "  owner    namespace {}", plain(owner))?,
            owners => writeln!(text, "  owners   namespaces {}", listed(owners.iter().copied()))?,
        }
        let at = listed(finding.gateways.iter().map(|gateway| &**gateway).filter(|gateway| !gateway.is_empty()));
        match (finding.since, at.is_empty()) {
            (Some(since), true) => writeln!(text, "  since    {}", self.when(since))?,
            (Some(since), false) => writeln!(text, "  since    {}, at {at}", self.when(since))?,
            (None, true) => {}
            (None, false) => writeln!(text, "  at       {at}")?,
        }
        let field = if first.field.is_empty() { String::new() } else { format!("{}: ", plain(&first.field)) };
        writeln!(text, "  why      {}: {field}{}", how(finding, severity), plain(&finding.message))?;
        if let Some(ManifestPosition { file, line, column }) = &first.place {
            let column = column.map(|column| format!(":{column}")).unwrap_or_default();
            writeln!(text, "  file     {}:{line}{column}", plain(file))?;
        }
        self.served(finding, severity, text)?;
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(|subject| also(subject, first)).collect();
            writeln!(text, "  also     {}", listed(others.iter().map(String::as_str)))?;
        }
        writeln!(text, "  next     {}", self.next(&finding.next))
    }

    fn served(&self, finding: &HealthFinding, severity: Severity, text: &mut String) -> std::fmt::Result {
        let subjects: BTreeSet<&Identity> = finding.objects.iter().map(|subject| &subject.object).collect();
        let is_own = |served: &&ServedInstead| subjects.contains(&served.object);
        let (own, others): (Vec<&ServedInstead>, Vec<&ServedInstead>) = finding.served.iter().partition(is_own);
        let several = finding.objects.len() > 1;
        lines("instead", described(&own, several), text)?;
        let earlier: BTreeSet<String> = finding
            .objects
            .iter()
            .filter_map(|subject| {
                let of = if several { format!("{}: ", name(&subject.object)) } else { String::new() };
                Some(format!("{of}{}", plain(subject.not_backfilled.as_deref()?)))
            })
            .collect();
        lines("earlier", earlier.into_iter().collect(), text)?;
        let others = described(&others, true).into_iter();
        lines("affects", others.chain(finding.affected.iter().map(name)).collect(), text)?;
        match (finding.served.is_empty(), severity) {
            (true, Severity::Outage) => writeln!(text, "  instead  it is not served"),
            (true, Severity::Warning) if finding.reason == "TargetNotFound" => {
                writeln!(text, "  instead  the policy has no effect: its intended targets are served without it")
            }
            (true, Severity::Degraded) if finding.detected_by != DetectedBy::Envoys => {
                writeln!(text, "  instead  the last acknowledged configuration stays")
            }
            _ => Ok(()),
        }
    }

    fn inputs(&self, inputs: &Inputs, text: &mut String) -> std::fmt::Result {
        if !inputs.problems.is_empty() {
            let head = "INPUTS: an input that cannot be read keeps the content that was last read";
            writeln!(text, "\n{}", self.style.paint("1", head))?;
        }
        for InputProblem { of, reason, message, since, next } in inputs.problems.iter().take(FINDINGS_SHOWN_MAX) {
            writeln!(text, "\n{}", self.style.paint("1", &plain(of)))?;
            if let Some(since) = since {
                writeln!(text, "  since    {}", self.when(*since))?;
            }
            writeln!(text, "  why      {}: {}", plain(reason), plain(message))?;
            writeln!(text, "  next     {}", self.next(next))?;
        }
        if let more @ 1.. = inputs.problems.len().saturating_sub(FINDINGS_SHOWN_MAX) {
            writeln!(text, "\nand {more} more: --output json shows all")?;
        }
        for SourceView { name, live, seen_seconds_ago, objects } in &inputs.sources {
            let state = if *live { "read" } else { "NOT read now" };
            let seen = match seen_seconds_ago {
                Some(seconds) => format!("; last answer {seconds} s ago"),
                None => String::new(),
            };
            writeln!(text, "\nObjects come from {}: {state}, {objects} objects{seen}", plain(name))?;
        }
        match inputs.not_installed.as_slice() {
            [] => Ok(()),
            kinds => writeln!(text, "Kinds that are not installed: {}", listed(kinds.iter().map(|kind| &**kind))),
        }
    }

    fn when(&self, moment: Moment) -> String {
        format!("{moment} ({} ago)", age(self.now, moment.0))
    }

    /// The next command; a page of diagnostics is shown as a `curl` command.
    fn next(&self, next: &str) -> String {
        if next.starts_with('/') { format!("curl -s http://{}{next}", self.address) } else { plain(next) }
    }
}

fn gateways(health: &Health, text: &mut String) -> std::fmt::Result {
    let gateways = &health.gateways;
    if gateways.is_empty() {
        return writeln!(text, "There is no Gateway.");
    }
    let width = gateways.iter().map(|gateway| gateway.name.chars().count()).max().unwrap_or(0).max("GATEWAY".len());
    writeln!(text, "\n{:width$}  {:10}  ENVOYS", "GATEWAY", "SERVED")?;
    for gateway in gateways {
        let served = match gateway.state {
            ServedState::Current => "current",
            ServedState::Partial => "partial",
            ServedState::Trying => "trying",
            ServedState::Probing => "probing",
            ServedState::Following => "following",
            ServedState::Unverified => "unverified",
            ServedState::Fallback => "fallback",
            ServedState::Held => "held",
        };
        let envoys = &gateway.envoys;
        let envoys = match (envoys.acknowledged + envoys.refused + envoys.pending, gateway.connected) {
            (0, 0) => "none connected".to_owned(),
            (0, connected) => format!("{connected} connected, none has acknowledged a configuration yet"),
            _ => {
                format!("{} acknowledged, {} refused, {} pending", envoys.acknowledged, envoys.refused, envoys.pending)
            }
        };
        writeln!(text, "{:width$}  {served:10}  {envoys}", plain(&gateway.name))?;
    }
    Ok(())
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

/// What clients receive of objects, with the names of the objects if there are several. An object that several listeners
/// do not serve is described once.
pub(crate) fn described(all: &[&ServedInstead], several: bool) -> Vec<String> {
    let mut at: BTreeMap<(ServedInstead, bool), Vec<&str>> = BTreeMap::new();
    for served in all {
        let everywhere = ServedInstead { listener: None, ..(*served).clone() };
        at.entry((everywhere, served.listener.is_some())).or_default().extend(served.listener.as_deref());
    }
    let described = at.iter().map(|((served, _), listeners)| {
        let of = if several { format!("{}: ", name(&served.object)) } else { String::new() };
        let gets = if listeners.is_empty() { gets(served) } else { at_some_listeners(served, listeners) };
        format!("{of}{gets}")
    });
    described.collect()
}

/// What clients receive, with the affected requests.
fn gets(served: &ServedInstead) -> String {
    let section = section(served);
    let what = match &served.gets {
        Gets::Status { status } => format!("{section} answers {status}"),
        Gets::Share { status } => format!("a share of the requests to {section} gets status {status}"),
        Gets::Refused => format!("connections to {section} are refused"),
        Gets::Untrusted => format!("clients that verify certificates refuse connections to {section}"),
        Gets::NoResponse => format!("requests to {section} get no response"),
        Gets::PortInUse => format!("connections to {section} reach the process or Gateway that uses its port"),
        Gets::Nothing if served.section.is_empty() => "left out".to_owned(),
        Gets::Nothing => format!("{section} left out"),
        Gets::LastValid { generation, since, except } if served.section.is_empty() => {
            let except: Vec<String> = except.iter().map(|section| plain(section)).collect();
            let except = match except.is_empty() {
                true => String::new(),
                false => format!(", except for the desired {}", except.join(", ")),
            };
            format!("generation {generation} is served, last valid since {since}{except}")
        }
        Gets::LastValid { generation, since, .. } => {
            format!("{section} of generation {generation} is served, last valid since {since}")
        }
        Gets::LastValidOf { of, generation, since, expires } => {
            let of = name(of);
            let expires = expires.map(|at| format!("; its certificate expires at {at}")).unwrap_or_default();
            format!("{section} is served with generation {generation} of {of}, last valid since {since}{expires}")
        }
        Gets::AsBefore => "the last acknowledged configuration stays".to_owned(),
    };
    // A part that is served completely needs no list of requests.
    if served.gets.severity() != Severity::Outage || served.hosts.is_empty() {
        return what;
    }
    let hosts = hosts(&served.hosts);
    let paths = listed(served.paths.iter().map(|path| &**path));
    if paths.is_empty() { format!("{what}: {hosts}") } else { format!("{what}: {hosts} {paths}") }
}

/// The part of an object.
fn section(served: &ServedInstead) -> String {
    match (&*served.section, served.generation) {
        ("", _) => "it".to_owned(),
        (section, Some(generation)) => format!("{} of generation {generation}", plain(section)),
        (section, None) => plain(section),
    }
}

/// What clients receive at the listeners that do not serve an object, while others do; with the hosts of the listeners.
fn at_some_listeners(served: &ServedInstead, listeners: &[&str]) -> String {
    let section = section(served);
    let what = match served.gets {
        Gets::Untrusted => format!("clients that verify certificates refuse connections to {section}"),
        _ if served.section.is_empty() => "not served".to_owned(),
        _ => format!("{section} is not served"),
    };
    let hosts = match served.hosts.is_empty() {
        true => String::new(),
        false => format!(" ({})", hosts(&served.hosts)),
    };
    let several = if listeners.len() > 1 { "s" } else { "" };
    let listeners = listed(listeners.iter().copied());
    format!("{what} at listener{several} {listeners}{hosts}; other listeners serve it")
}

fn hosts(hosts: &BTreeSet<Arc<str>>) -> String {
    listed(hosts.iter().map(|host| if &**host == "*" { "any host" } else { host }))
}

/// Another place with the cause of a finding: a field of its first object, or another object.
fn also(subject: &ObjectAtFault, first: &ObjectAtFault) -> String {
    if subject.object == first.object && !subject.field.is_empty() {
        return subject.field.clone();
    }
    let field = if subject.field.is_empty() { String::new() } else { format!(" ({})", subject.field) };
    format!("{}{field}", name(&subject.object))
}

/// Writes lines with a label. Equal lines are written once: they are about several Gateways.
fn lines(label: &str, mut lines: Vec<String>, text: &mut String) -> std::fmt::Result {
    let mut known = BTreeSet::new();
    lines.retain(|line| known.insert(line.clone()));
    for line in lines.iter().take(FINDINGS_SHOWN_MAX) {
        writeln!(text, "  {label:8} {line}")?;
    }
    match lines.len().saturating_sub(FINDINGS_SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(text, "  {label:8} {more} more: --output json shows all"),
    }
}

/// Items separated by commas, with the number of omitted ones.
fn listed<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<String> = items.map(plain).collect();
    let shown = all.iter().take(NAMES_ON_A_LINE_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMES_ON_A_LINE_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more (--output json shows all)"),
    }
}

fn name(object: &Identity) -> String {
    plain(&format!("{} {}", object.kind, object.key().namespaced_name()))
}

/// Escapes external text, so that it cannot control a terminal.
fn plain(text: &str) -> String {
    printable::plain(text).into_owned()
}
