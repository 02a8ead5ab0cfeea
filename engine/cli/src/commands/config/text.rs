//! Entries of the published configuration for people: a line for each resource, and below it a line for each entry.

use std::fmt::Write;

use holdfast_graph::ObjectKey;
use holdfast_xds::ResourceStatus;
use serde::Deserialize;

use crate::explain::short;
use crate::printable::plain;

/// The page.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigPage {
    entries: Vec<ShownEntry>,
}

#[derive(Debug, Deserialize)]
struct ShownEntry {
    gateway: String,
    resource: String,
    version: String,
    host: Option<String>,
    matches: String,
    action: String,
    owners: Vec<ObjectKey>,
    envoy: Option<ShownState>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownState {
    status: Option<ResourceStatus>,
    version: Option<String>,
    is_published: bool,
    acknowledged: Option<String>,
}

/// Formats the page. `node` is the Envoy of the query, and `host` the host.
pub(super) fn format(page: &ConfigPage, node: Option<&str>, host: Option<&str>) -> String {
    let mut text = String::new();
    if page.entries.is_empty() {
        text.push_str(&match host {
            Some(host) => format!("No route is published for host {}.\n", plain(host)),
            None => "Nothing is published.\n".to_owned(),
        });
    }
    let (mut resource, mut host) = (None, None);
    for entry in &page.entries {
        if resource != Some((&entry.gateway, &entry.resource)) {
            resource = Some((&entry.gateway, &entry.resource));
            host = None;
            let state = node.zip(entry.envoy.as_ref()).map(|(node, state)| at(node, state)).unwrap_or_default();
            line(&mut text, &format!("{}  {}  version {}{state}", entry.gateway, entry.resource, entry.version));
        }
        if entry.action.is_empty() && entry.matches.is_empty() {
            continue;
        }
        if host != entry.host.as_ref() {
            host = entry.host.as_ref();
            host.into_iter().for_each(|host| line(&mut text, &format!("  virtual host {host}")));
        }
        let matches = if entry.matches.is_empty() { String::new() } else { format!("{}: ", entry.matches) };
        let owners: Vec<String> = entry.owners.iter().map(short).collect();
        let owners = if owners.is_empty() { String::new() } else { format!("  [{}]", owners.join(", ")) };
        line(&mut text, &format!("    {matches}{}{owners}", entry.action));
    }
    text
}

/// Returns the state of a resource at an Envoy. The entries below are those that the Envoy has acknowledged.
fn at(node: &str, state: &ShownState) -> String {
    let own = if state.is_published { "" } else { " (not the published one)" };
    let version = state.version.as_deref().unwrap_or("unknown");
    let next = match state.status {
        None => return format!(", {node} has not subscribed to it"),
        Some(ResourceStatus::Synced) => return format!(", {node} has acknowledged it{own}"),
        Some(ResourceStatus::Stale) => "was sent and is not acknowledged",
        Some(ResourceStatus::NotSent) => "is not sent yet",
        Some(ResourceStatus::Refused) => "was refused",
    };
    match state.acknowledged {
        Some(_) => format!(", {node} has acknowledged it; version {version}{own} {next}"),
        None => format!(", {node} has acknowledged no known version; version {version}{own} {next}"),
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", plain(line));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/envoys.md");

    #[test]
    fn the_example_of_the_page_is_what_is_printed() {
        let entry = |host: &str, matches: &str, action: &str, name: &str| {
            json!({"gateway": "shop/public", "resource": "http/80", "version": "3f2a9c0e", "host": host,
                   "matches": matches, "action": action,
                   "owners": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop", "name": name}],
                   "envoy": {"status": "synced", "isPublished": true}})
        };
        let entries = [
            entry("pay.example.com", "path /pay or below", "rules[0]: to service/shop/pay/8080", "pay"),
            entry("pay.example.com", "a path that begins with /refund/", "rules[1]: answers 404", "pay"),
            entry(
                "shop.example.com",
                "path exactly /cart, method exactly \"GET\"",
                "rules[0]: to service/shop/cart/8080",
                "cart",
            ),
        ];
        let page = ConfigPage::deserialize(json!({"entries": entries})).unwrap();
        let first = "```\n$ holdfast config routes --envoy edge-1";
        holdfast_golden::check_block(PAGE, (first, "```"), &format(&page, Some("edge-1"), None));
        let nothing = ConfigPage { entries: Vec::new() };
        assert_eq!(format(&nothing, None, None), "Nothing is published.\n");
        let of_host = format(&nothing, None, Some("none.test"));
        assert_eq!(of_host, "No route is published for host none.test.\n");
    }
}
