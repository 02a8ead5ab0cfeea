//! The report for people.

use std::fmt::Write;

use serde_json::Value;

use super::instead;
use super::report::{Finding, Report, Severity};
use crate::fault::Class;
use crate::report::ReplacementView;
use crate::status::ObjectStatus;

/// The report as lines. Findings come last, where a terminal shows them.
pub(super) fn format(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    for foreign in &report.foreign {
        writeln!(text, "{foreign}; left aside")?;
    }
    for served in &report.gateways {
        let gateway = &served.gateway;
        writeln!(text, "Gateway {}: {} resources", gateway.name, served.resources)?;
        for listener in &gateway.listeners {
            let host = listener.hostname.as_deref().unwrap_or("*");
            let (name, protocol, routes) = (&listener.name, listener.protocol, listener.attached_routes);
            let state = if listener.serving { "" } else { ", not served" };
            let routes = if routes == 1 { "1 route".to_owned() } else { format!("{routes} routes") };
            let (address, port) = (listener.address, listener.port);
            writeln!(text, "  {name}: {protocol} {address}:{port}, host {host}, {routes}{state}")?;
        }
    }
    for status in &report.statuses {
        write_status(status, text)?;
    }
    for replaced in report.replacements.iter().filter(|replaced| told_here(replaced, report)) {
        let (object, section, gateway) = (&replaced.object, &replaced.section, &replaced.gateway);
        match replaced.response {
            Some(code) => writeln!(text, "{object}: {section} answers {code} on Gateway {gateway}")?,
            None => writeln!(text, "{object}: {section} is left out on Gateway {gateway}")?,
        }
    }
    if !text.is_empty() {
        writeln!(text)?;
    }
    if let Some(against) = &report.against {
        instead::write(against, text)?;
        writeln!(text)?;
    }
    report.findings.iter().try_for_each(|finding| write_finding(finding, text))?;
    let (files, objects, findings) = (report.files, report.objects, report.findings.len());
    let findings = match findings {
        0 => "nothing to object to".to_owned(),
        1 => "1 finding".to_owned(),
        more => format!("{more} findings"),
    };
    writeln!(text, "{files} files, {objects} objects: {findings}")
}

/// Of what is broken it is told below, with causes, where there is something to check against.
fn told_here(replaced: &ReplacementView, report: &Report) -> bool {
    report.against.is_none() || replaced.cause == Class::Referential
}

/// `object: Accepted=True ResolvedRefs=False (BackendNotFound)`, one line for each place that has conditions.
fn write_status(status: &ObjectStatus, text: &mut String) -> std::fmt::Result {
    let places = [("", Some(&status.status))].into_iter();
    let list = |name: &str| status.status.get(name).and_then(Value::as_array).into_iter().flatten();
    let parents = list("parents").map(|parent| {
        let name = parent.pointer("/parentRef/name").and_then(Value::as_str).unwrap_or_default();
        (name, Some(parent))
    });
    let listeners = list("listeners").map(|listener| {
        let name = listener.get("name").and_then(Value::as_str).unwrap_or_default();
        (name, Some(listener))
    });
    for (place, conditions) in places.chain(parents).chain(listeners) {
        let conditions = conditions.and_then(|place| place.get("conditions")).and_then(Value::as_array);
        let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else { continue };
        write!(text, "{}", status.object)?;
        if !place.is_empty() {
            write!(text, " at {place}")?;
        }
        write!(text, ":")?;
        for condition in conditions {
            let field = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
            write!(text, " {}={}", field("type"), field("status"))?;
            if field("reason") != field("type") {
                write!(text, " ({})", field("reason"))?;
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_finding(finding: &Finding, text: &mut String) -> std::fmt::Result {
    if !finding.file.is_empty() {
        write!(text, "{}:", finding.file)?;
        for number in [finding.line, finding.column] {
            if number > 0 {
                write!(text, "{number}:")?;
            }
        }
        write!(text, " ")?;
    }
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    write!(text, "{severity}: ")?;
    for part in [&finding.object, &finding.field] {
        if !part.is_empty() {
            write!(text, "{part}: ")?;
        }
    }
    writeln!(text, "{}", finding.message)
}
