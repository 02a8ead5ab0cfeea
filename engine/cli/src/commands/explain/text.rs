//! The way of a request for people.

use std::fmt::{Arguments, Write};

use holdfast_api::fault::Class;
use holdfast_engine::report::ReplacementView;
use holdfast_envoy::explain::RouteCandidate;
use holdfast_envoy::explain::answer::{ExplainedAnswer, ExplainedBackend};
use holdfast_envoy::explain::host::DomainMatch;
use holdfast_graph::ObjectKey;

use super::report::ExplainReport;
use crate::printable::plain;

/// Lines with a label each.
struct WayLines(String);

impl WayLines {
    fn add(&mut self, label: &str, line: Arguments<'_>) {
        let line = line.to_string();
        let _ = writeln!(self.0, "{label:<14}{}", plain(&line));
    }
}

/// Formats the way of a request.
pub(super) fn format(report: &ExplainReport) -> String {
    let mut lines = WayLines(format!("{} {}\n", report.method, plain(&report.url)));
    let way = &report.way;
    if let Some(gateway) = &report.gateway {
        lines.add("gateway", format_args!("{gateway}"));
    }
    if let Some(listener) = &way.listener {
        lines.add("listener", format_args!("{listener}"));
    }
    for chain in &way.chains {
        match &chain.why_not {
            None => lines.add("filter chain", format_args!("{}: yes", chain.name)),
            Some(why) => lines.add("filter chain", format_args!("{}: no, {why}", chain.name)),
        }
    }
    way.changes.iter().for_each(|change| lines.add("normalized", format_args!("{change}")));
    if let Some(routes) = &way.route_configuration {
        lines.add("routes", format_args!("{routes}"));
    }
    if let Some(host) = &way.virtual_host {
        let by = match host.by {
            DomainMatch::Exact => "is the whole host",
            DomainMatch::Suffix => "is the longest wildcard for the host",
            DomainMatch::Prefix => "is the longest wildcard at the end for the host",
            DomainMatch::Any => "is for hosts without a virtual host of their own",
        };
        lines.add("virtual host", format_args!("{}: {} {by}", host.name, host.domain));
    }
    for route in &way.routes {
        match &route.why_not {
            None => lines.add("route", format_args!("{}: yes, {}", named(route), route.conditions)),
            Some(why) => lines.add("route", format_args!("{}: no, {why}", named(route))),
        }
    }
    match way.later_routes {
        0 => {}
        1 => lines.add("", format_args!("1 later route is not compared")),
        later => lines.add("", format_args!("{later} later routes are not compared")),
    }
    answer(&way.answer, &mut lines);
    if let Some(replacement) = &report.replacement {
        replaced(replacement, &mut lines);
    }
    lines.0
}

/// Returns the rule of a route, or the name of a route without one.
fn named(route: &RouteCandidate) -> String {
    match (&route.object, &route.rule) {
        (Some(object), Some(rule)) => format!("{} {rule}", short(object)),
        _ => route.name.clone(),
    }
}

fn short(object: &ObjectKey) -> String {
    format!("{} {}", object.kind, object.namespaced_name())
}

fn answer(answer: &ExplainedAnswer, lines: &mut WayLines) {
    match answer {
        ExplainedAnswer::Backends { backends } => shares(backends, "forwarded to", lines),
        ExplainedAnswer::Stream { backends } => shares(backends, "the connection is forwarded to", lines),
        ExplainedAnswer::Response { status, body } => {
            let body = body.as_ref().map(|body| format!(": {}", body.trim_end())).unwrap_or_default();
            lines.add("answer", format_args!("{status}{body}"));
        }
        ExplainedAnswer::Redirect { status, location } => lines.add("answer", format_args!("{status} to {location}")),
        ExplainedAnswer::NotFound { why } => lines.add("answer", format_args!("404: {why}")),
        ExplainedAnswer::Rejected { status, why } => lines.add("answer", format_args!("{status}: {why}")),
        ExplainedAnswer::NoConnection { why } => lines.add("answer", format_args!("no connection: {why}")),
        ExplainedAnswer::Unknown { why } => lines.add("answer", format_args!("unknown: {why}")),
    }
}

fn shares(backends: &[ExplainedBackend], verb: &str, lines: &mut WayLines) {
    let all: u64 = backends.iter().map(|backend| u64::from(backend.weight)).sum();
    for backend in backends {
        let name = match (&backend.object, backend.port) {
            (Some(object), Some(port)) => format!("{} port {port}", short(object)),
            (Some(object), None) => short(object),
            (None, _) => backend.cluster.clone(),
        };
        let share = if backends.len() > 1 { format!(", weight {} of {all}", backend.weight) } else { String::new() };
        let endpoints = match backend.endpoints {
            None => ", endpoints by name".to_owned(),
            Some(1) => ", 1 endpoint".to_owned(),
            Some(count) => format!(", {count} endpoints"),
        };
        let error = backend.error.map(|status| format!(": answers {status}")).unwrap_or_default();
        lines.add("answer", format_args!("{verb} {name}{share}{endpoints}{error}"));
    }
}

fn replaced(replacement: &ReplacementView, lines: &mut WayLines) {
    let ReplacementView { object, section, cause, message, policy, .. } = replacement;
    let cause = if *cause == Class::Referential { "a reference" } else { "its content" };
    let policy = policy.as_ref().map(|policy| format!(" ({})", short(policy))).unwrap_or_default();
    lines.add("replaced", format_args!("{} {section}, because of {cause}{policy}: {message}", short(object)));
}
