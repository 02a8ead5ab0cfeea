//! Alert rules of the chart: promtool accepts them, they fire when they should, and their runbook URLs are those of the
//! values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::tools;
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Story, World, stories, until};
use serde_json::{Value, json};

use super::{chart, full, objects, of_kind, only, render, write};

pub(crate) fn stories() -> Vec<Story> {
    let plain = stories!(
        "alerts",
        false,
        [rules_are_taken, alerts_fire_when_they_should, every_alert_is_tested, the_dashboard_is_whole]
    );
    [plain, stories!("alerts", true, [alerts_fire_on_what_is_scraped])].concat()
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
    // The check can fail.
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

/// The samples of a metrics page: series and value.
fn samples(page: &str) -> BTreeMap<&str, &str> {
    page.lines().filter(|line| line.starts_with("holdfast_")).filter_map(|line| line.rsplit_once(' ')).collect()
}

/// Alerts that fire on scraped metrics: first without a problem, then with a missing backend.
async fn alerts_fire_on_what_is_scraped(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let route = |backend: &str| {
        format!("rules:\n- matches: [{{path: {{value: /}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]")
    };
    world.route("shop", &route("echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let well = until("an Envoy is counted", || async {
        let page = holdfast.metrics().await?;
        ensure!(page.contains("holdfast_xds_connected_envoys{gateway=\"default/public\"} 1"), "{page}");
        Ok(page)
    })
    .await?;
    world.route("shop", &route("nowhere"))?;
    let missing = until("a backend is missing", || async {
        let page = holdfast.metrics().await?;
        ensure!(page.contains("holdfast_missing_backends{namespace=\"default\"} 1"), "{page}");
        Ok(page)
    })
    .await?;
    let (well, missing) = (samples(&well), samples(&missing));
    let series: BTreeSet<&str> = well.keys().chain(missing.keys()).copied().collect();
    let at = |page: &BTreeMap<&str, &str>, name: &str| page.get(name).copied().unwrap_or("_").to_owned();
    let text = fs::read_to_string(chart().join("files/alerts.yaml"))?;
    let series = series.into_iter().filter(|series| text.contains(series.split('{').next().unwrap_or(series)));
    let series = series
        .map(|name| json!({"series": name, "values": format!("{}x10 {}x40", at(&well, name), at(&missing, name))}));
    let alerts: Value = serde_saphyr::from_str(&text)?;
    let rules = alerts["groups"][0]["rules"].as_array().context("no rules")?;
    let quiet = |time: &str| {
        let names = rules.iter().filter_map(|rule| rule["alert"].as_str());
        names.map(|name| json!({"eval_time": time, "alertname": name})).collect::<Vec<_>>()
    };
    let fires = "HoldfastBackendsMissing";
    let mut cases = quiet("9m");
    cases.extend(quiet("40m").into_iter().filter(|case| case["alertname"] != fires));
    cases.push(json!({
        "eval_time": "40m",
        "alertname": fires,
        "exp_alerts": [{
            "exp_labels": {"severity": "warning", "namespace": "default"},
            "exp_annotations": {
                "summary": "1 backends of routes in namespace default are missing",
                "description": "For 10 minutes 1 references of routes in namespace default have named backends that do \
                                not exist or may not be used. Requests to these backends are answered with 500 or \
                                503. Create the Service or the ReferenceGrant, or correct the route; holdfast \
                                status lists the references.",
                "runbook_url": "RUNBOOKS/holdfast-backends-missing.md",
            },
        }],
    }));
    let test = json!({"interval": "1m", "input_series": series.collect::<Vec<_>>(), "alert_rule_test": cases});
    let test = json!({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]});
    write(&world, "alerts.yaml", &text)?;
    let file = write(&world, "scraped.test.yaml", &test.to_string())?;
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
