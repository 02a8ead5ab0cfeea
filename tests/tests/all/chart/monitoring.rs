//! Alerts and the dashboard: the metrics that they query exist, and so do the runbook pages of alerts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use super::{text, yaml};

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// Returns the metrics that a text names, without the suffix `_bucket` of histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"holdfast_[a-z_]+").unwrap();
    let base = |name: &str| name.strip_suffix("_bucket").unwrap_or(name).to_owned();
    name.find_iter(text).map(|found| base(found.as_str())).collect()
}

#[test]
fn every_queried_metric_exists() {
    let reference = fs::read_to_string(docs("reference/metrics.md")).unwrap();
    let known: BTreeSet<String> =
        reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next().map(str::to_owned)).collect();
    for file in ["files/alerts.yaml", "files/dashboard.json"] {
        let queried = metrics(&text(file));
        assert!(queried.len() > 5, "{file} asks for {queried:?}");
        let undocumented: Vec<&String> = queried.iter().filter(|name| !known.contains(*name)).collect();
        assert!(
            undocumented.is_empty(),
            "{file} asks for metrics that docs/reference/metrics.md does not have: {undocumented:?}"
        );
    }
}

#[test]
fn every_alert_leads_to_its_page() {
    let alerts = yaml("files/alerts.yaml");
    let index = fs::read_to_string(docs("operating/runbook/README.md")).unwrap();
    let mut pages = BTreeSet::new();
    for alert in alerts["groups"][0]["rules"].as_array().unwrap() {
        let name = alert["alert"].as_str().unwrap();
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let page = url.strip_prefix("RUNBOOKS/").unwrap();
        let content =
            fs::read_to_string(docs("operating/runbook").join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(content.starts_with(&format!("# {name}\n")), "{page} does not begin with # {name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(index.contains(&format!("| `{name}` | {severity} |")), "the runbook's table lacks {name} ({severity})");
        pages.insert(page.to_owned());
    }
    let all =
        fs::read_dir(docs("operating/runbook")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let lonely: Vec<String> = all.filter(|page| page != "README.md" && !pages.contains(page)).collect();
    assert!(lonely.is_empty(), "no alert leads to {lonely:?}");
}

#[test]
fn the_dashboard_is_one() {
    let board: Value = serde_json::from_str(&text("files/dashboard.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{}", panel["title"]);
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{}", panel["title"]);
    }
}
