//! Alerts: promtool takes them, they fire when they should, and lead to the runbook that the values name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::tools;
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{Story, World, stories};
use serde_json::Value;

use super::{chart, full, objects, of_kind, only, render, write};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "alerts",
        false,
        [rules_are_taken, alerts_fire_when_they_should, every_alert_is_tested, the_dashboard_is_whole]
    )
}

async fn promtool(world: &World, args: &[&str]) -> Result<Finished> {
    Process::start(&tools::PROMTOOL.find()?, args, &[], &world.log("promtool"))?.finish().await
}

async fn rules_are_taken(world: World) -> Result<()> {
    let all = objects(&render(&world, &["--values", &full()]).await?)?;
    let rule = only(&all, "PrometheusRule")?;
    ensure!(rule["metadata"]["labels"]["release"] == "prometheus", "{}", rule["metadata"]);
    let rules = write(&world, "rules.json", &rule["spec"].to_string())?;
    promtool(&world, &["check", "rules", "--lint=all", "--lint-fatal", &rules]).await?.expect_code(0)?;
    for alert in rule["spec"]["groups"][0]["rules"].as_array().context("no rules")? {
        let url = alert["annotations"]["runbook_url"].as_str().unwrap_or_default();
        ensure!(url.starts_with("https://runbooks.example.com/holdfast/holdfast-"), "{url}");
    }
    // It can say no.
    let broken = write(&world, "broken.json", &rule["spec"].to_string().replace("absent(", "absent(("))?;
    ensure!(promtool(&world, &["check", "rules", &broken]).await?.code != Some(0), "nonsense is taken");
    Ok(())
}

fn tests() -> Result<String> {
    Ok(fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/alerts.test.yaml"))?)
}

async fn alerts_fire_when_they_should(world: World) -> Result<()> {
    let alerts = fs::read_to_string(chart().join("files/alerts.yaml"))?;
    write(&world, "alerts.yaml", &alerts)?;
    let file = write(&world, "alerts.test.yaml", &tests()?)?;
    promtool(&world, &["test", "rules", &file]).await?.expect_code(0)?;
    Ok(())
}

async fn every_alert_is_tested(_world: World) -> Result<()> {
    let alerts: Value = serde_saphyr::from_str(&fs::read_to_string(chart().join("files/alerts.yaml"))?)?;
    let tests: Value = serde_saphyr::from_str(&tests()?)?;
    let cases: Vec<&Value> = tests["tests"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|test| test["alert_rule_test"].as_array())
        .flatten()
        .collect();
    for alert in alerts["groups"][0]["rules"].as_array().context("no rules")? {
        let of_it = |fires: bool| {
            cases.iter().any(|case| case["alertname"] == alert["alert"] && case["exp_alerts"].is_array() == fires)
        };
        ensure!(of_it(true) && of_it(false), "{} is not tested to fire, or not to fire", alert["alert"]);
    }
    Ok(())
}

async fn the_dashboard_is_whole(world: World) -> Result<()> {
    let all = objects(&render(&world, &["--values", &full()]).await?)?;
    let maps = of_kind(&all, "ConfigMap");
    let text = maps.iter().find_map(|map| map["data"]["holdfast.json"].as_str()).context("no dashboard")?;
    let rendered: Value = serde_json::from_str(text)?;
    let written: Value = serde_json::from_str(&fs::read_to_string(chart().join("files/dashboard.json"))?)?;
    ensure!(rendered == written, "the dashboard is changed on the way");
    Ok(())
}
