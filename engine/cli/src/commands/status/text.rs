//! Text form of health: outages first, then degraded objects, warnings and inputs; one fact per line.

use std::fmt::Write;

use holdfast_engine::health::view::{InputProblem, Inputs, SourceView};
use holdfast_engine::health::{Health, HealthFinding, HealthVerdict, Severity};

use super::part::SelectedPart;
use crate::finding::{FindingLine, ShownLimits, finding_lines, heading, listed, plain, when};

/// Maximum number of findings of one sort, and of lines of one finding; JSON has all.
const FINDINGS_SHOWN_MAX: usize = 50;
/// Maximum number of hosts, paths and names on one line; JSON has all.
const NAMES_ON_A_LINE_MAX: usize = 5;
/// How much of a finding is shown.
pub(crate) const SHOWN: ShownLimits =
    ShownLimits { lines: FINDINGS_SHOWN_MAX, names: NAMES_ON_A_LINE_MAX, elsewhere: "--output json shows all" };

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
                "DEGRADED: clients are served, but with an older version than desired, without a part of it, or not by every Envoy"
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
        let heading = heading(finding);
        writeln!(text, "{}{}", self.style.paint("1", &heading.object), heading.rest)?;
        for FindingLine { label, text: line } in finding_lines(finding, severity, self.now, SHOWN) {
            writeln!(text, "  {label:8} {line}")?;
        }
        writeln!(text, "  next     {}", self.next(&finding.next))
    }

    fn inputs(&self, inputs: &Inputs, text: &mut String) -> std::fmt::Result {
        if !inputs.problems.is_empty() {
            let head = "INPUTS: objects in use from an input that cannot be read stay in use, as they were last read";
            writeln!(text, "\n{}", self.style.paint("1", head))?;
        }
        for InputProblem { of, reason, message, since, next } in inputs.problems.iter().take(FINDINGS_SHOWN_MAX) {
            writeln!(text, "\n{}", self.style.paint("1", &plain(of)))?;
            if let Some(since) = since {
                writeln!(text, "  since    {}", when(*since, self.now))?;
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
            kinds => {
                writeln!(text, "Kinds that are not installed: {}", listed(kinds.iter().map(|kind| &**kind), SHOWN))
            }
        }
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
        let served = gateway.state.name();
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
