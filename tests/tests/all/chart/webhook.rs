//! Rules of the chart's webhook: the kinds that Holdfast reads and that users write for it.
//!
//! Kinds of Kubernetes itself are left out: other programs write them all the time, they are not written for Holdfast,
//! and a Secret is no business of a webhook.

use std::collections::BTreeMap;
use std::fmt::Write;

use holdfast_api::apis::{KINDS, contour, gateway, kgateway};

use super::path;

const HEAD: &str =
    "# Rules of the chart's webhook. Made from the list of kinds in engine/api/src/apis/scheme.rs; a test compares.\n";

#[test]
fn rules_of_the_webhook_are_made_of_the_kinds() {
    let mut rules: BTreeMap<(&str, &[&str]), Vec<&str>> = BTreeMap::new();
    for kind in KINDS.iter().filter(|kind| [gateway::GROUP, contour::GROUP, kgateway::GROUP].contains(&kind.group)) {
        rules.entry((kind.group, kind.versions)).or_default().push(kind.plural);
    }
    let mut text = format!("{HEAD}rules:\n");
    for ((group, versions), plurals) in rules {
        writeln!(text, "  - apiGroups: [{group}]\n    apiVersions: [{}]", versions.join(", ")).unwrap();
        writeln!(text, "    operations: [CREATE, UPDATE]\n    resources:").unwrap();
        plurals.iter().for_each(|plural| writeln!(text, "      - {plural}").unwrap());
    }
    assert!(!text.contains("secrets") && text.contains("httproutes"));
    holdfast_golden::check(path("files/webhook.yaml"), &text);
}
