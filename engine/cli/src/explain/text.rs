//! The way of a request for people.

use std::collections::BTreeSet;
use std::fmt::{Arguments, Write};

use holdfast_api::fault::Fault;
use holdfast_engine::report::ReplacementView;
use holdfast_envoy::explain::answer::{ExplainedAnswer, ExplainedBackend};
use holdfast_envoy::explain::host::DomainMatch;
use holdfast_envoy::explain::{Explanation, RouteCandidate, grpc};
use holdfast_graph::ObjectKey;
use serde_json::Value;

use super::envoys::GatewayEnvoys;
use super::policies::PolicyField;
use super::report::{ExplainReport, RequestOutcome};
use super::running::{MatchedObject, ObjectNotRead, ServedEarlier};
use crate::printable::plain;

/// Maximum number of objects that are shown as possibly concerned; the document has all.
const CONCERNING_MAX: usize = 10;
/// Maximum number of characters of the value of a policy's field; the document has all.
const POLICY_VALUE_CHARS_MAX: usize = 200;

/// Lines with a label each.
struct WayLines(String);

impl WayLines {
    fn add(&mut self, label: &str, line: Arguments<'_>) {
        let line = line.to_string();
        let _ = writeln!(self.0, "{label:<14}{}", plain(&line));
    }
}

/// Formats the way of a request.
pub(crate) fn format(report: &ExplainReport) -> String {
    let mut lines = WayLines(format!("{} {}\n", report.method, plain(&report.url)));
    let way = &report.way;
    if let Some(gateway) = &report.gateway {
        lines.add("gateway", format_args!("{gateway}"));
    }
    if let Some(listener) = &way.listener {
        lines.add("listener", format_args!("{listener}"));
    }
    chains(way, &mut lines);
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
    if let Some(matched) = &report.matched {
        object(matched, &mut lines);
    }
    report.policies.iter().for_each(|one| policy(one, &mut lines));
    if !way.may_answer.is_empty() {
        let kinds = way.may_answer.iter().map(|kind| &**kind).collect::<Vec<_>>().join(", ");
        lines.add("may answer", format_args!("{kinds}: not evaluated"));
    }
    answer(&way.answer, &mut lines);
    if let (false, ExplainedAnswer::Response { status, .. }) = (report.delegates_to.is_empty(), &way.answer) {
        delegated(&report.delegates_to, *status, &mut lines);
    }
    if let Some(replacement) = &report.replacement {
        replaced(replacement, &mut lines);
    }
    for Fault { object, field, message, .. } in report.closed_by.iter().take(CONCERNING_MAX) {
        lines.add("because of", format_args!("{}: {field}: {message}", short(object)));
    }
    report.instead.iter().for_each(|one| instead(one, &mut lines));
    let concerning = report.may_concern.iter().filter(|key| !report.instead.iter().any(|one| one.object == **key));
    for key in concerning.take(CONCERNING_MAX) {
        lines.add("may concern", format_args!("{} is at fault, or not served as desired", short(key)));
    }
    for ObjectNotRead { object, why } in report.not_read.iter().take(CONCERNING_MAX) {
        lines.add("not read", format_args!("{}: {why}", short(object)));
    }
    if let Some(envoys) = &report.envoys {
        acknowledged(envoys, &mut lines);
    }
    if report.outcome != RequestOutcome::Served && (report.envoys.is_some() || report.check.is_some()) {
        next(report, &mut lines);
    }
    lines.0
}

fn chains(way: &Explanation, lines: &mut WayLines) {
    for chain in &way.chains {
        match &chain.why_not {
            None => lines.add("filter chain", format_args!("{}: yes", chain.name)),
            Some(why) => lines.add("filter chain", format_args!("{}: no, {why}", chain.name)),
        }
    }
    if way.requires_client_certificate {
        lines.add(
            "client",
            format_args!("must show a certificate that the filter chain accepts; others get no connection"),
        );
    }
}

/// Returns the rule of a route, or the name of a route without one.
fn named(route: &RouteCandidate) -> String {
    match (&route.object, &route.rule) {
        (Some(object), Some(rule)) => format!("{} {rule}", short(object)),
        _ => route.name.clone(),
    }
}

pub(crate) fn short(object: &ObjectKey) -> String {
    format!("{} {}", object.kind, object.namespaced_name())
}

fn answer(answer: &ExplainedAnswer, lines: &mut WayLines) {
    match answer {
        ExplainedAnswer::Backends { backends } => shares(backends, false, lines),
        ExplainedAnswer::Stream { backends } => shares(backends, true, lines),
        ExplainedAnswer::Shares { shares } => {
            for share in shares {
                lines.add("share", format_args!("{} of the requests ({})", share.percent(), share.route));
                self::answer(&share.answer, lines);
            }
        }
        ExplainedAnswer::Response { status, body, grpc_status } => {
            let body = body.as_ref().map(|body| format!(": {}", body.trim_end())).unwrap_or_default();
            lines.add("answer", format_args!("{}{body}", seen(*status, *grpc_status)));
        }
        ExplainedAnswer::Redirect { status, location, grpc_status: None } => {
            lines.add("answer", format_args!("{status} to {location}"));
        }
        ExplainedAnswer::Redirect { status, location, grpc_status } => {
            let seen = seen(*status, *grpc_status);
            lines.add("answer", format_args!("{seen}: a gRPC call is not redirected ({status} to {location})"));
        }
        ExplainedAnswer::NotFound { why, grpc_status } => {
            lines.add("answer", format_args!("{}: {why}", seen(404, *grpc_status)));
        }
        ExplainedAnswer::Rejected { status, why, grpc_status } => {
            lines.add("answer", format_args!("{}: {why}", seen(*status, *grpc_status)));
        }
        ExplainedAnswer::NoConnection { why } => lines.add("answer", format_args!("no connection: {why}")),
        ExplainedAnswer::Unknown { why } => lines.add("answer", format_args!("unknown: {why}")),
    }
}

/// Returns the status that a client sees.
fn seen(status: u16, grpc_status: Option<u8>) -> String {
    match grpc_status {
        None => status.to_string(),
        Some(code) => format!("200 with grpc-status {code} ({})", grpc::name(code)),
    }
}

fn shares(backends: &[ExplainedBackend], is_connection: bool, lines: &mut WayLines) {
    let verb = if is_connection { "the connection is forwarded to" } else { "forwarded to" };
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
        let error = backend.error.map(|status| match is_connection {
            true => ": the connection is closed".to_owned(),
            false => format!(": answers {}", seen(status, backend.grpc_status)),
        });
        let error = error.unwrap_or_default();
        lines.add("answer", format_args!("{verb} {name}{share}{endpoints}{error}"));
    }
}

/// Adds that the rule delegates to other routes, and that none of them takes the request.
fn delegated(routes: &[String], status: u16, lines: &mut WayLines) {
    let shown = routes.iter().take(CONCERNING_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = routes.len().saturating_sub(CONCERNING_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = if status == 404 { "" } else { ", because a reference of the rule has no route" };
    lines.add(
        "delegates to",
        format_args!("{shown}{more}: no route below the rule takes the request, which is answered with {status}{why}"),
    );
}

fn replaced(replacement: &ReplacementView, lines: &mut WayLines) {
    let ReplacementView { object, section, message, policy, .. } = replacement;
    let policy = policy.as_ref().map(|policy| format!(" ({})", short(policy))).unwrap_or_default();
    lines.add("replaced", format_args!("{} {section}{policy}: {message}", short(object)));
}

/// Adds the command that shows the causes.
fn next(report: &ExplainReport, lines: &mut WayLines) {
    if let Some(check) = &report.check {
        return lines.add("next", format_args!("{check}"));
    }
    let is_unknown = report.outcome == RequestOutcome::Unknown;
    // What is only possible is about these objects, and not about the one that matches.
    let possible = report.may_concern.iter().chain(report.not_read.iter().map(|one| &one.object));
    let possible: BTreeSet<&str> = possible.filter(|_| is_unknown).map(|key| &*key.namespace).collect();
    let matched = report.matched.as_ref().map(|matched| &*matched.object.namespace);
    let namespace = match possible.len() {
        0 => matched,
        1 => possible.first().copied().filter(|namespace| !namespace.is_empty()),
        _ => None,
    };
    match namespace {
        Some(namespace) => lines.add("next", format_args!("holdfast status --namespace {namespace}")),
        None => lines.add("next", format_args!("holdfast status")),
    }
}

fn policy(policy: &PolicyField, lines: &mut WayLines) {
    let PolicyField { level, field, policies, values } = policy;
    // `group/Kind:namespace/name`
    let named = |policy: &String| policy.split_once('/').map_or(&**policy, |(_, name)| name).replacen(':', " ", 1);
    let value =
        |policy: &String| values.get(policy).map(|value| format!(": {}", short_value(value))).unwrap_or_default();
    let policies: Vec<String> = policies.iter().map(|policy| named(policy) + &value(policy)).collect();
    lines.add("policy", format_args!("{level}: {field}, of {}", policies.join("; ")));
}

/// Returns a value as JSON in one line, cut where it is long.
fn short_value(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(POLICY_VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}… (all of it: -o json)", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn object(matched: &MatchedObject, lines: &mut WayLines) {
    let generation = matched.generation.map(|generation| format!(", generation {generation}")).unwrap_or_default();
    let place = matched.place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
    lines.add("object", format_args!("{}{generation}{place}", short(&matched.object)));
}

fn instead(served: &ServedEarlier, lines: &mut WayLines) {
    let ServedEarlier { object, desired_generation, served_generation, served_since, desired_sections, because } =
        served;
    let desired = desired_generation
        .map_or_else(|| "a version that cannot be read".to_owned(), |generation| format!("generation {generation}"));
    let because = if because.is_empty() { String::new() } else { format!(", because of {}", because.join("; ")) };
    let except = match desired_sections.is_empty() {
        true => String::new(),
        false => {
            format!(", except for {}", desired_sections.iter().map(|section| &**section).collect::<Vec<_>>().join(", "))
        }
    };
    lines.add(
        "last valid",
        format_args!(
            "{}: generation {served_generation}, known to be good since {served_since}, is served instead of {desired}\
             {except}{because}",
            short(object)
        ),
    );
}

fn acknowledged(envoys: &GatewayEnvoys, lines: &mut WayLines) {
    lines.add("envoys", format_args!("{envoys}"));
    for node in &envoys.keep_previous {
        lines.add("", format_args!("{node} keeps its previous configuration"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use holdfast_check::time::Moment;
    use holdfast_envoy::explain::Explanation;
    use holdfast_envoy::explain::chain::ChainCandidate;
    use holdfast_envoy::explain::host::ChosenHost;
    use holdfast_fallback::view::ServedState;
    use serde_json::json;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/explain.md");

    #[test]
    fn the_example_of_a_running_holdfast_is_what_is_printed() {
        let key = |group: &str, kind: &str, name: &str| ObjectKey::new(group, kind, "shop", name);
        let pay = key("gateway.networking.k8s.io", "HTTPRoute", "pay");
        let route = RouteCandidate {
            name: "pay".into(),
            object: Some(pay.clone()),
            rule: Some("rules[0]".into()),
            conditions: "path /pay or below".into(),
            why_not: None,
        };
        let backend = ExplainedBackend {
            cluster: "pay".into(),
            object: Some(key("", "Service", "pay")),
            port: Some(8080),
            weight: 1,
            endpoints: Some(2),
            error: None,
            grpc_status: None,
        };
        let way = Explanation {
            listener: Some("listener/80".into()),
            chains: vec![ChainCandidate { name: "http/80".into(), why_not: None }],
            requires_client_certificate: false,
            changes: Vec::new(),
            route_configuration: Some("http/80".into()),
            virtual_host: Some(ChosenHost {
                name: "pay.example.com".into(),
                host: "pay.example.com".into(),
                domain: "pay.example.com".into(),
                by: DomainMatch::Exact,
            }),
            routes: vec![route],
            later_routes: 0,
            may_answer: BTreeSet::new(),
            answer: ExplainedAnswer::Backends { backends: vec![backend] },
        };
        let report = ExplainReport {
            method: "GET".into(),
            url: "http://pay.example.com/pay/5".into(),
            gateway: Some("shop/public".into()),
            way,
            policies: vec![PolicyField {
                level: "rules[0]".into(),
                field: "timeouts".into(),
                policies: vec!["gateway.kgateway.dev/TrafficPolicy:shop/limits".into()],
                values: BTreeMap::from([(
                    "gateway.kgateway.dev/TrafficPolicy:shop/limits".into(),
                    json!({"request": "10s"}),
                )]),
            }],
            replacement: None,
            delegates_to: Vec::new(),
            closed_by: Vec::new(),
            matched: Some(MatchedObject { object: pay.clone(), generation: Some(4), place: None }),
            instead: vec![ServedEarlier {
                object: pay,
                desired_generation: Some(4),
                served_generation: 3,
                served_since: Moment(1_795_687_200),
                desired_sections: BTreeSet::new(),
                because: vec![
                    "HTTPRoute shop/pay: spec.rules[1].matches[0].path.value: invalid regex: missing ]: \"[0-9+\""
                        .into(),
                ],
            }],
            may_concern: BTreeSet::new(),
            not_read: Vec::new(),
            envoys: Some(GatewayEnvoys {
                state: ServedState::Fallback,
                acknowledged: 2,
                refused: 0,
                pending: 0,
                keep_previous: Vec::new(),
            }),
            outcome: RequestOutcome::NotServed,
            check: None,
        };
        let first = "```\n$ holdfast explain GET http://pay.example.com/pay/5";
        holdfast_golden::check_block(PAGE, (first, "```"), &format(&report));
    }
}
