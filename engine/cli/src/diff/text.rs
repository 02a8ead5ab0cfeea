//! Differences for people, as unified diffs.

use std::fmt::{Arguments, Write};

use holdfast_engine::health::view::DetectedBy;

use super::lines::DiffLine;
use super::report::{DiffOutcome, DiffReport, FaultOfObject, ObjectDifference};
use crate::commands::status::SHOWN;
use crate::explain::short;
use crate::finding::described;
use crate::printable::plain;

/// Longest line, in characters; the JSON form has the whole text.
const DIFF_LINE_CHARS_MAX: usize = 2000;

struct Text(String);

impl Text {
    /// A line of an object, with a label.
    fn fact(&mut self, label: &str, line: Arguments<'_>) {
        self.line(format_args!("  {label:<10}{line}"));
    }

    fn line(&mut self, line: Arguments<'_>) {
        let line = line.to_string();
        let line = plain(&line);
        // Writing to a String cannot fail.
        let _ = match line.char_indices().nth(DIFF_LINE_CHARS_MAX) {
            None => writeln!(self.0, "{line}"),
            Some((at, _)) => {
                let (shown, rest) = line.split_at(at);
                writeln!(self.0, "{shown}[{} more characters: -o json has all]", rest.chars().count())
            }
        };
    }

    fn difference(&mut self, lines: &[DiffLine]) {
        for DiffLine { sign, text, fault } in lines {
            match (sign, fault) {
                ('@', _) => self.line(format_args!("{text}")),
                (sign, None) => self.line(format_args!("{sign}{text}")),
                (sign, Some(fault)) => self.line(format_args!("{sign}{text}  # <-- {fault}")),
            }
        }
    }
}

/// Formats the differences.
pub(crate) fn format(report: &DiffReport) -> String {
    let mut text = Text(String::new());
    if report.outcome == DiffOutcome::Same {
        text.line(format_args!("Served as written."));
    }
    for input in &report.inputs {
        text.line(format_args!("Not read: {}: {}", input.of, input.message));
    }
    for gateway in &report.gateways {
        text.line(format_args!("Gateway {}: {}", gateway.name, gateway.envoys));
        for node in &gateway.not_in_step {
            text.fact("", format_args!("{node} has not acknowledged everything, or has a configuration of its own"));
        }
    }
    for (index, object) in report.objects.iter().enumerate() {
        if index > 0 || !report.gateways.is_empty() || !report.inputs.is_empty() {
            text.0.push('\n');
        }
        difference(object, &mut text);
    }
    match report.routes_not_compared {
        0 => {}
        more => text.line(format_args!("The configuration of {more} more affected routes was not compared.")),
    }
    text.0
}

fn difference(object: &ObjectDifference, text: &mut Text) {
    let desired = match object.is_readable {
        true => object.desired_generation.map_or_else(|| "without a manifest".to_owned(), |it| generation(Some(it))),
        false => generation(None),
    };
    let place = object.place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
    text.line(format_args!("{}, {desired}{place}", short(&object.object)));
    for line in described(&object.served.iter().collect::<Vec<_>>(), false, SHOWN) {
        text.fact("served", format_args!("{line}"));
    }
    for fault in &object.because {
        let FaultOfObject { object: at, field, message, detected_by, not_backfilled, .. } = fault;
        let field = if field.is_empty() { String::new() } else { format!(", {field}") };
        text.fact("because", format_args!("{}{field}: {}{message}", short(at), found_by(*detected_by)));
        if let Some(why) = not_backfilled {
            text.fact("earlier", format_args!("{why}"));
        }
    }
    for line in described(&object.affects.iter().collect::<Vec<_>>(), true, SHOWN) {
        text.fact("affects", format_args!("{line}"));
    }
    if !object.manifest.is_empty() {
        let served = object.served_generation.map_or(desired.clone(), |served| generation(Some(served)));
        text.line(format_args!("--- served: {} {served}", short(&object.object)));
        text.line(format_args!("+++ desired: {} {desired}", short(&object.object)));
        text.difference(&object.manifest);
    }
    for part in &object.configuration {
        text.line(format_args!("--- served: Gateway {}: {}", part.gateway, part.part));
        text.line(format_args!("+++ desired: Gateway {}: {}", part.gateway, part.part));
        text.difference(&part.lines);
    }
    match object.more_parts {
        0 => {}
        more => text.line(format_args!("and {more} more parts of Envoy's configuration differ")),
    }
}

fn found_by(detected_by: DetectedBy) -> &'static str {
    match detected_by {
        DetectedBy::Translation | DetectedBy::Envoys => "",
        DetectedBy::Probe => "refused by the probe: ",
        DetectedBy::Nack => "refused by Envoy: ",
        DetectedBy::Suspected => "may have been refused by Envoy: ",
    }
}

fn generation(generation: Option<i64>) -> String {
    generation.map_or_else(|| "which cannot be read".to_owned(), |generation| format!("generation {generation}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use holdfast_api::apis::{Decoded, decode};
    use holdfast_api::object::Object;
    use holdfast_check::time::Moment;
    use holdfast_engine::health::view::{Gets, ServedInstead};
    use holdfast_fallback::view::Identity;
    use serde_json::json;

    use super::super::lines::compare;
    use super::super::manifest::{ServedContent, difference};
    use super::super::report::DiffOfPart;
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/diff.md");

    fn route(first: &str, second: &str) -> Object {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "pay", "namespace": "shop"},
            "spec": {
                "parentRefs": [{"name": "public"}],
                "hostnames": ["pay.example.com"],
                "rules": [
                    {"matches": [{"path": {"value": first}}], "backendRefs": [{"name": "pay", "port": 8080}]},
                    {
                        "matches": [{"path": {"type": "RegularExpression", "value": second}}],
                        "backendRefs": [{"name": "refunds", "port": 8080}],
                    },
                ],
            },
        });
        match decode(manifest, None) {
            Decoded::Object(object, _) => *object,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn long_lines_are_cut_with_a_count() {
        let mut text = Text(String::new());
        text.line(format_args!("{}", "é".repeat(DIFF_LINE_CHARS_MAX)));
        text.line(format_args!("{}", "é".repeat(DIFF_LINE_CHARS_MAX + 3)));
        let lines: Vec<&str> = text.0.lines().collect();
        assert_eq!(lines[0].chars().count(), DIFF_LINE_CHARS_MAX);
        assert!(lines[1].ends_with("é[3 more characters: -o json has all]"), "{}", lines[1]);
    }

    #[test]
    fn the_example_of_the_page_is_what_is_printed() {
        let field = "spec.rules[1].matches[0].path.value";
        let message = "invalid regex: missing ]: \"[0-9+\"";
        let (earlier, desired) = (route("/pay", "/refund/[0-9]+"), route("/pay/v2", "/refund/[0-9+"));
        let faults = [(field, message)];
        let manifest = difference(Some(&desired), &ServedContent::Earlier(&earlier), &[], &faults);
        let prefix = |path: &str| format!("match:\n  pathSeparatedPrefix: {path}\nname: httproute/shop/pay/0/0\n");
        let part = DiffOfPart {
            gateway: "shop/public".into(),
            part: "RDS http/80, virtual host pay.example.com, HTTPRoute shop/pay rules[0]".into(),
            lines: compare(&prefix("/pay"), &prefix("/pay/v2"), &BTreeMap::new()),
        };
        let object = ObjectDifference {
            object: desired.key.clone(),
            desired_generation: Some(4),
            place: Some("pay.yaml:1".into()),
            is_readable: true,
            served_generation: Some(3),
            served: vec![ServedInstead {
                object: Identity { kind: "HTTPRoute".into(), ..Identity::default() },
                gateway: "shop/public".into(),
                section: "".into(),
                generation: None,
                listener: None,
                gets: Gets::LastValid { generation: 3, since: Moment(1_795_687_200), except: [].into() },
                hosts: [].into(),
                paths: [].into(),
            }],
            affects: Vec::new(),
            because: vec![FaultOfObject {
                object: desired.key.clone(),
                generation: Some(4),
                field: field.into(),
                message: message.into(),
                detected_by: DetectedBy::Translation,
                not_backfilled: None,
            }],
            manifest,
            configuration: vec![part],
            more_parts: 0,
        };
        let report = DiffReport {
            outcome: DiffOutcome::Different,
            objects: vec![object],
            inputs: Vec::new(),
            gateways: Vec::new(),
            routes_not_compared: 0,
        };
        let first = "```\n$ holdfast diff HTTPRoute/shop/pay";
        holdfast_golden::check_block(PAGE, (first, "```"), &format(&report));
    }
}
