//! The Envoys as a table, with the reason below each Envoy that is not in step.

use std::fmt::Write;

use holdfast_xds::TypeView;
use holdfast_xds::connection::Protocol;

use super::{EnvoysPage, LostRow, ManagedRow};
use crate::admin::EnvoyRow;
use crate::output::age;
use crate::printable::plain;

/// The columns of the table.
const HEAD: [&str; 7] = ["GATEWAY", "NODE", "BUILD", "ADDRESS", "CONNECTED", "PROTOCOL", "STATE"];

/// Formats the page. `now` is in seconds of Unix time.
pub(super) fn format(page: &EnvoysPage, now: i64) -> String {
    if page.connected.is_empty() && page.lost.is_empty() && page.managed.is_empty() {
        return "No Envoy is connected.\n".to_owned();
    }
    let rows: Vec<[String; 7]> = page.connected.iter().map(|envoy| cells(envoy, now)).collect();
    let rows: Vec<[String; 7]> = rows.into_iter().chain(page.lost.iter().map(lost)).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(HEAD.get(column).map(|head| head.len())).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        line(&HEAD.map(str::to_owned), &widths, &mut text);
    }
    for (index, row) in rows.iter().enumerate() {
        line(row, &widths, &mut text);
        page.connected.get(index).into_iter().for_each(|envoy| details(envoy, now, &mut text));
    }
    for ManagedRow { gateway, state, pid, version, restarts } in &page.managed {
        let pid = pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let line = format!("managed Envoy of {gateway}: {state}{pid}, version {version}, {restarts} restarts");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", plain(&line));
    }
    text
}

fn line(cells: &[String; 7], widths: &[usize], text: &mut String) {
    let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    let _ = writeln!(text, "{}", padded.join("  ").trim_end());
}

fn cells(envoy: &EnvoyRow, now: i64) -> [String; 7] {
    let address = envoy.address.map_or_else(|| "unix socket".to_owned(), |address| address.to_string());
    let identity = if envoy.is_proven { " (proven)" } else { "" };
    let protocol = match envoy.protocol {
        Protocol::Delta => "delta",
        Protocol::Sotw => "sotw",
    };
    [
        plain(&envoy.fleet).into_owned(),
        plain(&envoy.node).into_owned(),
        plain(&envoy.build).into_owned(),
        format!("{address}{identity}"),
        age(now, envoy.connected_since.0),
        protocol.to_owned(),
        state(envoy, now),
    ]
}

fn lost(envoy: &LostRow) -> [String; 7] {
    let LostRow { fleet, node, build, silent_seconds } = envoy;
    let [fleet, node, build] = [fleet, node, build].map(|text| plain(text).into_owned());
    let state = format!("does not answer for {}, and is not connected", age(*silent_seconds as i64, 0));
    [fleet, node, build, "-".into(), "-".into(), "-".into(), state]
}

fn state(envoy: &EnvoyRow, now: i64) -> String {
    if let Some(silent) = envoy.silent_seconds {
        return format!("does not answer for {}", age(silent as i64, 0));
    }
    if envoy.differs.is_some() {
        return "has a configuration of its own".into();
    }
    if envoy.types.is_empty() {
        return "has not subscribed yet".into();
    }
    match (envoy.behind_since, envoy.acknowledged_at) {
        (Some(since), _) => format!("behind for {}", age(now, since.0)),
        (None, Some(at)) => format!("in step, last acknowledged {} ago", age(now, at.0)),
        (None, None) => "in step".into(),
    }
}

/// Adds the resources that an Envoy has not acknowledged, and its last refusal.
fn details(envoy: &EnvoyRow, now: i64, text: &mut String) {
    let mut add = |label: &str, line: String| {
        let _ = writeln!(text, "  {label:<8}{}", plain(&line));
    };
    if envoy.behind_since.is_some() {
        for (kind, view) in &envoy.types {
            let TypeView { synced, stale, not_sent, refused, unanswered, .. } = view;
            if stale + not_sent + refused.len() + unanswered > 0 {
                let counts = format!(
                    "{synced} acknowledged, {stale} sent and not acknowledged, {not_sent} not sent, {} refused",
                    refused.len()
                );
                add(kind, counts);
            }
        }
    }
    if let Some(message) = &envoy.differs {
        add("differs", format!("from the other Envoys of its build, which accept what it refuses: {message}"));
    }
    if let Some(refusal) = &envoy.last_refusal {
        let names: Vec<&str> = refusal.resources.iter().map(|name| &**name).collect();
        let (kind, names, ago) = (&refusal.r#type, names.join(", "), age(now, refusal.at.0));
        add("refused", format!("{kind} {names}, {ago} ago: {}", refusal.message));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/envoys.md");

    #[test]
    fn the_example_of_the_page_is_what_is_printed() {
        let types = |refused: serde_json::Value, stale: u32| {
            json!({"RDS": {"wildcard": false, "names": 1, "synced": 1 - stale, "stale": stale, "not_sent": 0,
                           "refused": refused, "unanswered": 0}})
        };
        let envoy = |node: &str, address: serde_json::Value| {
            json!({"fleet": "infra/public", "node": node, "build": "1.40.0+re2=10000", "protocol": "delta", "stream": 1,
                   "address": address, "isProven": true, "connectedSince": "2026-11-20T08:00:00Z",
                   "acknowledgedAt": "2026-11-20T09:59:30Z", "behindSince": null, "lastRefusal": null, "differs": null,
                   "silentSeconds": null, "types": types(json!({}), 0)})
        };
        let (good, mut behind, mut other) = (
            envoy("edge-1", json!("10.0.0.7")),
            envoy("edge-2", json!("10.0.0.8")),
            envoy("edge-3", json!("10.0.0.9")),
        );
        behind["behindSince"] = json!("2026-11-20T09:59:45Z");
        behind["types"] = types(json!({}), 1);
        other["differs"] = json!("missing ]: [0-9");
        other["behindSince"] = json!("2026-11-20T09:50:00Z");
        other["types"] = types(json!({"http/80": "1f0c"}), 0);
        other["lastRefusal"] = json!({"at": "2026-11-20T09:50:00Z", "type": "RDS", "resources": ["http/80"],
                                      "message": "missing ]: [0-9"});
        let lost =
            json!({"fleet": "infra/public", "node": "edge-4", "build": "1.40.0+re2=10000", "silentSeconds": 200});
        let page = json!({"connected": [good, behind, other], "lost": [lost], "managed": []});
        let text = format(&EnvoysPage::deserialize(page).unwrap(), 1_795_168_800);
        holdfast_golden::check_block(PAGE, ("```\n$ holdfast envoys", "```"), &text);
    }

    #[test]
    fn no_envoy_is_a_sentence() {
        let page = json!({"connected": [], "lost": [], "managed": []});
        assert_eq!(format(&EnvoysPage::deserialize(page).unwrap(), 0), "No Envoy is connected.\n");
    }
}
