//! Metrics as a monitoring system reads them: all documented metrics and all metrics in alerts are exported, from the
//! first scrape on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::manifests::{http_listener, https_listener};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use regex::Regex;
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!("metrics", true, [counters_begin_at_zero, what_is_missing_and_how_old, what_is_named_is_exported])
}

/// Metrics of Kubernetes mode, which stories in `tests/kubernetes` check.
const OF_AN_API_SERVER: [&str; 1] = ["holdfast_api_server_troubles"];

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

async fn counters_begin_at_zero(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    // A Gateway is an outage until its first Envoy connects.
    comes_to_export(&holdfast, r#"holdfast_health_findings{severity="outage"} 0"#).await?;
    let page = holdfast.metrics().await?;
    for line in [
        r#"holdfast_translation_total{success="false"} 0"#,
        r#"holdfast_configuration_push_total{success="false"} 0"#,
        r#"holdfast_fallback_configuration_push_total{success="true"} 0"#,
        r#"holdfast_fallback_configuration_push_total{success="false"} 0"#,
        r#"holdfast_nacks_total{gateway="default/public",type="CDS"} 0"#,
        r#"holdfast_nacks_total{gateway="default/public",type="LDS"} 0"#,
        r#"holdfast_nacks_total{gateway="default/public",type="RDS"} 0"#,
        r#"holdfast_nacks_total{gateway="default/public",type="SDS"} 0"#,
        r#"holdfast_held{gateway="default/public"} 0"#,
        r#"holdfast_health_findings{severity="outage"} 0"#,
        r#"holdfast_health_findings{severity="warning"} 0"#,
        "holdfast_store_errors_total 0",
    ] {
        ensure!(page.lines().any(|known| known == line), "{line} is missing in:\n{page}");
    }
    // A Gateway without any Envoy has these counters at 0 too.
    let gateway = fs::read_to_string(world.manifests().join("gateway.yaml"))?;
    let (other, address) = (world.port()?.to_string(), port.to_string());
    let other = gateway.split("---").last().context("no Gateway")?.replace("public", "inner").replace(&address, &other);
    world.write("other.yaml", other)?;
    let line = r#"holdfast_nacks_total{gateway="default/inner",type="RDS"} 0"#;
    comes_to_export(&holdfast, line).await?;
    fs::remove_file(world.manifests().join("other.yaml"))?;
    until("the Gateway is forgotten", || async {
        let page = holdfast.metrics().await?;
        ensure!(!page.contains(line), "it is still there");
        Ok(())
    })
    .await
}

async fn comes_to_export(holdfast: &Holdfast, line: &str) -> Result<()> {
    until(line, || async {
        let page = holdfast.metrics().await?;
        ensure!(page.lines().any(|known| known == line), "{page}");
        Ok(())
    })
    .await
}

async fn what_is_missing_and_how_old(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    // A namespace that had a finding has the series at 0.
    let page = holdfast.metrics().await?;
    let mut counts = page.lines().filter(|line| line.starts_with("holdfast_missing_backends{"));
    ensure!(counts.all(|line| line.ends_with(" 0")), "nothing is missing yet:\n{page}");
    world.route("missing", &prefix("/missing", "nowhere"))?;
    comes_to_export(&holdfast, r#"holdfast_missing_backends{namespace="default"} 1"#).await?;
    get(port, "/missing").comes_to_answer(500).await?;
    world.route("missing", &prefix("/missing", "echo"))?;
    comes_to_export(&holdfast, r#"holdfast_missing_backends{namespace="default"} 0"#).await?;

    let age = || holdfast.metric("holdfast_input_age_seconds", &["input=\"files\""]);
    until("the files are fresh", || async {
        let age = age().await?;
        ensure!(age > 0.0 && age < 5.0, "{age}");
        Ok(())
    })
    .await?;
    // Files that do not parse are read every five seconds; this does not reset their age.
    world.write("broken.yaml", "a: [")?;
    until("the files are old", || async {
        let age = age().await?;
        ensure!(age > 8.0, "{age}");
        Ok(())
    })
    .await?;
    fs::remove_file(world.manifests().join("broken.yaml"))?;
    until("the files are fresh again", || async {
        let age = age().await?;
        ensure!(age < 5.0, "{age}");
        Ok(())
    })
    .await
}

fn file(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Name and labels of each series of a metrics page, or of the test of the alerts.
fn series(text: &str) -> BTreeSet<(String, BTreeMap<String, String>)> {
    let (Ok(sample), Ok(label)) = (Regex::new(r"(holdfast_\w+)(?:\{([^}]*)\})?"), Regex::new(r#"(\w+)="([^"]*)""#))
    else {
        return BTreeSet::new();
    };
    let of = |labels: &str| {
        let all = label.captures_iter(labels).map(|found| (found[1].to_owned(), found[2].to_owned()));
        all.filter(|(name, _)| name != "pod").collect()
    };
    let found = text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| sample.captures_iter(line));
    found.map(|found| (found[1].to_owned(), of(found.get(2).map_or("", |labels| labels.as_str())))).collect()
}

/// Causes as many events as possible without an API server, and compares the exported metrics with the reference, the
/// alerts and the dashboard.
async fn what_is_named_is_exported(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    // The dates of certificates are exported where there are any.
    let (port, secure) = (world.port()?, world.port()?);
    world.write("secret.yaml", Certificate::of(&["shop.example.com"])?.secret("default", "shop"))?;
    world.gateway_with(&format!("{}{}", http_listener(port), https_listener("https", secure, "", &["shop"])))?;
    world.route("good", &prefix("/good", "echo"))?;
    world.route("missing", &prefix("/missing", "nowhere"))?;
    let gates = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&gates)).await?;
    get(port, "/good").comes_to_reach("echo").await?;
    let broken = "rules:\n- matches: [{path: {type: RegularExpression, value: '/a['}}]\n";
    until("the route is stored", || async {
        let stored = holdfast.metric("holdfast_store_commits_total", &[]).await?;
        ensure!(stored > 0.0, "{stored}");
        Ok(())
    })
    .await?;
    world.route("good", &format!("{broken}  backendRefs: [{{name: echo, port: 8080}}]"))?;
    world.route("new", &format!("{broken}  backendRefs: [{{name: echo, port: 8080}}]"))?;
    for step in ["backfilled", "replaced"] {
        let labels = ["kind=\"HTTPRoute\"", "namespace=\"default\"", &format!("step=\"{step}\"")];
        until(&format!("a route is {step}"), || async {
            let count = holdfast.metric("holdfast_namespace_objects", &labels).await?;
            ensure!(count >= 1.0, "{count} routes are {step}:\n{}", holdfast.metrics().await?);
            Ok(())
        })
        .await?;
    }
    let page = holdfast.metrics().await?;
    let exported = series(&page);
    let names: BTreeSet<&str> = exported.iter().map(|(name, _)| &**name).collect();
    let known = |name: &str| OF_AN_API_SERVER.contains(&name) || names.contains(name);
    // A histogram is documented under its base name.
    let documented = |name: &str| known(name) || known(&format!("{name}_bucket"));

    let reference = file("../docs/reference/metrics.md")?;
    for path in ["../charts/holdfast/files/alerts.yaml", "../charts/holdfast/files/dashboard.json"] {
        for (name, _) in series(&file(path)?) {
            ensure!(known(&name), "{path} has {name}, which is not exported");
        }
    }
    let rows: Vec<&str> = reference.lines().filter(|line| line.starts_with("| `holdfast_")).collect();
    for row in &rows {
        let name = row.trim_start_matches("| `").split('`').next().unwrap_or_default();
        ensure!(documented(name), "{name} is documented and not exported");
    }
    for name in &names {
        let own = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let has = |name: &str| rows.iter().any(|row| row.starts_with(&format!("| `{name}`")));
        ensure!(has(name) || has(own), "{name} is exported and not documented");
    }

    // The series in the tests of the alerts have the exported labels, and, for labels with few values, exported values.
    let tests: Value = serde_saphyr::from_str(&file("tests/chart/alerts.test.yaml")?)?;
    let tested = tests["tests"].as_array().into_iter().flatten();
    let tested = tested.flat_map(|test| test["input_series"].as_array().into_iter().flatten());
    let mut compared = 0;
    for (name, labels) in tested.filter_map(|input| input["series"].as_str()).flat_map(series) {
        if OF_AN_API_SERVER.contains(&&*name) {
            continue;
        }
        let alike = exported.iter().filter(|(other, theirs)| *other == name && theirs.keys().eq(labels.keys()));
        let alike: Vec<_> = alike.map(|(_, labels)| labels).collect();
        ensure!(!alike.is_empty(), "no series {name} with the labels of {labels:?} is exported");
        for label in ["success", "type"] {
            let has = alike.iter().any(|theirs| theirs.get(label) == labels.get(label));
            ensure!(has, "no series {name} has {label}={:?}", labels.get(label));
        }
        compared += 1;
    }
    ensure!(compared > 10, "only {compared} series are tested");
    Ok(())
}
