//! Rules of the chart's roles: they equal the permissions that the program lists.

use std::collections::BTreeMap;
use std::fmt::Write;

use holdfast_kubernetes::rights::{PermissionScope, Right, rights};

use super::{path, yaml};

const HEAD: &str = "# Rules of the chart's roles. Made from the list of kinds and of what is done with them, in\n\
                    # engine/kubernetes/src/rights.rs; a test compares.\n";

/// Returns rules, each for all resources with the same group and verbs.
fn rules(rights: &[Right]) -> String {
    let mut rules: BTreeMap<(&str, &[&str]), Vec<&str>> = BTreeMap::new();
    for right in rights {
        rules.entry((right.group, right.verbs)).or_default().push(&right.resource);
    }
    let mut text = String::new();
    for ((group, verbs), resources) in rules {
        let group = if group.is_empty() { "\"\"" } else { group };
        if resources.iter().all(|resource| resource.starts_with('/')) {
            text.push_str("  - nonResourceURLs:\n");
        } else {
            writeln!(text, "  - apiGroups: [{group}]\n    resources:").unwrap();
        }
        for resource in resources {
            writeln!(text, "      - {resource}").unwrap();
        }
        writeln!(text, "    verbs: [{}]", verbs.join(", ")).unwrap();
    }
    text
}

#[test]
fn rules_are_made_of_the_list() {
    let mut text = HEAD.to_owned();
    for place in PermissionScope::ALL {
        let here: Vec<Right> = rights().into_iter().filter(|right| right.place == place).collect();
        writeln!(text, "{}:", place.name()).unwrap();
        text.push_str(&rules(&here));
    }
    holdfast_golden::check(path("files/rights.yaml"), &text);
}

#[test]
fn nothing_is_written_but_statuses_and_what_is_its_own() {
    for right in rights() {
        let writes = right.verbs.iter().any(|verb| !["get", "list", "watch"].contains(verb));
        let may_write = right.resource.ends_with("/status") || right.group == "events.k8s.io";
        assert!(
            !writes
                || may_write
                || matches!(right.place, PermissionScope::Own | PermissionScope::Shared | PermissionScope::Planes),
            "{right:?}"
        );
        assert!(!right.verbs.contains(&"*") && !right.resource.contains('*'), "{right:?}");
        assert!(!["pods/exec", "users", "groups"].contains(&right.resource.as_str()), "{right:?}");
    }
    // The right to read Secrets belongs to namespaces, never to the cluster-scoped rules.
    let secrets: Vec<Right> = rights().into_iter().filter(|right| right.resource == "secrets").collect();
    assert!(secrets.iter().all(|right| right.place != PermissionScope::Cluster), "{secrets:?}");
    assert!(yaml("files/rights.yaml")["cluster"].to_string().contains("gatewayclasses"));
}
