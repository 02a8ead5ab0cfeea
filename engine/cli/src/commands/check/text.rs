//! Text form of the report.

use std::fmt;
use std::net::IpAddr;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::status::ObjectStatus;
use holdfast_engine::report::{ListenerView, ReplacementView};
use serde_json::Value;

use super::instead;
use super::report::{CheckFinding, CheckSeverity, Report};
use crate::lines::Lines;

/// The report as lines. Findings are last, where a terminal shows them.
pub(super) fn format(report: &Report) -> String {
    let mut text = Lines::default();
    write(report, &mut text);
    text.text()
}

/// The findings alone, a line for each; empty if there are none.
pub(super) fn format_findings(report: &Report) -> String {
    let mut text = Lines::default();
    write_findings(report, &mut text);
    text.text()
}

fn write_findings(report: &Report, text: &mut Lines) {
    report.findings.iter().for_each(|it| text.add(format_args!("{}", finding(it))));
}

fn write(report: &Report, text: &mut Lines) {
    if let Some(cluster) = &report.cluster {
        text.add(format_args!("cluster of {}: {} objects", cluster.kubeconfig, cluster.objects));
        for kind in &cluster.absent {
            text.add(format_args!("  {kind}: the API server does not serve this kind; passed over"));
        }
    }
    for foreign in &report.foreign {
        text.add(format_args!("{foreign}; ignored"));
    }
    for served in &report.gateways {
        let gateway = &served.gateway;
        text.add(format_args!("Gateway {}: {} resources", gateway.name, served.resources));
        for listener in &gateway.listeners {
            let host = listener.hostname.as_deref().unwrap_or("*");
            let routes = listener.attached_routes;
            let state = if listener.serving { "" } else { ", not served" };
            let routes = if routes == 1 { "1 route".to_owned() } else { format!("{routes} routes") };
            text.add(format_args!("  {}, host {host}, {routes}{state}", socket(listener)));
        }
    }
    for status in &report.statuses {
        write_status(status, text);
    }
    for replaced in report.replacements.iter().filter(|replaced| is_listed(replaced, report)) {
        let (object, section, gateway) = (&replaced.object, &replaced.section, &replaced.gateway);
        match replaced.response {
            Some(code) => text.add(format_args!("{object}: {section} answers {code} on Gateway {gateway}")),
            None if *object.kind == *kinds::UDP_ROUTE => {
                text.add(format_args!("{object}: datagrams of {section} are dropped on Gateway {gateway}"));
            }
            None if kinds::STREAM_ROUTES.contains(&&*object.kind) => {
                text.add(format_args!("{object}: connections of {section} are closed on Gateway {gateway}"));
            }
            None => text.add(format_args!("{object}: {section} is left out on Gateway {gateway}")),
        }
    }
    text.part();
    if let Some(against) = &report.against {
        instead::write(against, text);
        text.part();
    }
    write_findings(report, text);
    let (files, objects, findings) = (report.files, report.objects, report.findings.len());
    let findings = match findings {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        more => format!("{more} findings"),
    };
    text.add(format_args!("{files} files, {objects} objects: {findings}"));
}

/// `name: PROTOCOL address:port` with the declared port, and with the bound port if it differs.
fn socket(listener: &ListenerView) -> String {
    let ListenerView { name, protocol, address, port, declared_port, .. } = listener;
    // A listener with an unreadable protocol has none; a finding reports it.
    let protocol = if protocol.is_empty() { "no protocol" } else { protocol };
    let written = format!("{name}: {protocol} {}", SocketAddress(*address, *declared_port));
    match (i32::from(*port) == *declared_port, *port) {
        (true, _) | (false, 0) => written,
        (false, bound) => format!("{written} (bound as {bound})"),
    }
}

/// An address with the declared port, which may be outside of the valid range.
struct SocketAddress(IpAddr, i32);

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}:{}", self.1),
            IpAddr::V6(address) => write!(f, "[{address}]:{}", self.1),
        }
    }
}

/// Returns whether the replacement is listed here. With `--against`, broken objects are listed there, with causes.
fn is_listed(replaced: &ReplacementView, report: &Report) -> bool {
    report.against.is_none() || replaced.cause == Class::Referential
}

/// `object: Accepted=True ResolvedRefs=False (BackendNotFound)`, one line for each place that has conditions.
fn write_status(status: &ObjectStatus, text: &mut Lines) {
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
        let mut line = status.object.to_string();
        if !place.is_empty() {
            line += &format!(" at {place}");
        }
        line.push(':');
        for condition in conditions {
            let field = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
            line += &format!(" {}={}", field("type"), field("status"));
            if field("reason") != field("type") {
                line += &format!(" ({})", field("reason"));
            }
        }
        text.add(format_args!("{line}"));
    }
}

/// `file:line:column: severity: object: field: message`, as far as they are known.
pub(super) fn finding(finding: &CheckFinding) -> String {
    let severity = match finding.severity {
        CheckSeverity::Error => "error",
        CheckSeverity::Warning => "warning",
    };
    let place = if finding.file.is_empty() { String::new() } else { format!("{}: ", place(finding)) };
    let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
    format!("{place}{severity}: {object}{}", message(finding))
}

/// `file:line:column`, as far as they are known.
pub(super) fn place(finding: &CheckFinding) -> String {
    let numbers = [finding.line, finding.column].into_iter().filter(|number| *number > 0);
    numbers.fold(finding.file.clone(), |place, number| format!("{place}:{number}"))
}

/// `field: message`.
pub(super) fn message(finding: &CheckFinding) -> String {
    let CheckFinding { field, message, .. } = finding;
    if field.is_empty() { message.clone() } else { format!("{field}: {message}") }
}
