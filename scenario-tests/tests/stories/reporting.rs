//! Reports of a fault, from its start to its end: pages, metrics, conditions, log and command.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, process, stories, until};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!("reporting", true, [a_fault_from_its_beginning_to_its_end, without_the_gate_a_fault_is_reported_too])
        .into_iter()
        .chain(stories!("reporting", false, [status_without_a_server]))
        .collect()
}

const CART: &str = "gateway.networking.k8s.io/HTTPRoute:default/cart";

fn cart(path: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: RegularExpression, value: '{path}'}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
    )
}

async fn comes_to_be(holdfast: &Holdfast, status: &str) -> Result<Value> {
    until(&format!("the fallback is {status}"), || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        ensure!(report["status"] == status, "{report}");
        Ok(report)
    })
    .await
}

/// Runs `holdfast status`.
async fn status(world: &World, holdfast: &Holdfast, form: &str) -> Result<process::Finished> {
    let address = format!("http://127.0.0.1:{}", holdfast.options.diagnostics);
    world.command(&["status", "--diagnostics", &address, "--output", form]).await
}

async fn condition(holdfast: &Holdfast, kind: &str) -> Result<Option<Value>> {
    let page = holdfast.diagnostics("/debug/statuses").await?;
    let objects = page["objects"].as_array().context("no objects")?;
    let cart = objects.iter().find(|status| status["object"]["name"] == "cart").context("no status")?;
    let conditions = cart.pointer("/status/parents/0/conditions").and_then(Value::as_array).context("no conditions")?;
    Ok(conditions.iter().find(|condition| condition["type"] == kind).cloned())
}

/// A broken route is backfilled, also over a restart, and the fault is reported everywhere.
async fn a_fault_from_its_beginning_to_its_end(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &cart("/cart/[a-z]+"))?;
    let flags = [
        "--feature-gates",
        "FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
        "--log-format",
        "json",
    ];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    get(port, "/cart/a").comes_to_reach("echo").await?;
    let report = comes_to_be(&holdfast, "not-triggered").await?;
    for array in ["brokenObjects", "backfilledObjects", "replacedObjects", "excludedObjects"] {
        ensure!(report[array] == serde_json::json!([]), "{report}");
    }
    until("the route is last valid", || async {
        let plan = holdfast.diagnostics("/debug/plan").await?.to_string();
        ensure!(plan.contains("HTTPRoute:default/cart"), "{plan}");
        Ok(())
    })
    .await?;
    until("all is well", || async {
        let finished = status(&world, &holdfast, "text").await?;
        finished.expect_code(0)?.expect_output(&["Everything is served as desired.", "default/public  current"])?;
        Ok(())
    })
    .await?;

    world.route("cart", &cart("/cart/["))?;
    let report = comes_to_be(&holdfast, "triggered").await?;
    let broken = report.pointer("/brokenObjects/0").context("nothing is broken")?;
    ensure!(
        broken["field"] == "spec.rules[0].matches[0].path.value" && broken["detectedBy"] == "translation",
        "{broken}"
    );
    let backfilled = report.pointer("/backfilledObjects/0").context("nothing is backfilled")?.clone();
    ensure!(backfilled["causingObjects"] == serde_json::json!([CART]), "{backfilled}");
    let generations = (backfilled["servedGeneration"].as_i64(), backfilled["desiredGeneration"].as_i64());
    ensure!(generations == (Some(1), Some(2)), "{backfilled}");
    get(port, "/cart/a").comes_to_reach("echo").await?;
    until("metrics tell", || async {
        ensure!(holdfast.metric("holdfast_fallback_active", &["default/public"]).await? == 1.0, "not active");
        let objects = ["kind=\"HTTPRoute\"", "step=\"backfilled\""];
        ensure!(holdfast.metric("holdfast_objects", &objects).await? == 1.0, "no objects");
        ensure!(holdfast.metric("holdfast_last_valid_age_seconds", &["default/public"]).await? >= 0.0);
        ensure!(holdfast.metric("holdfast_fallback_translation_total", &[]).await? >= 1.0, "no translation");
        ensure!(holdfast.metric("holdfast_store_commits_total", &[]).await? >= 1.0, "no commit");
        ensure!(holdfast.metric("holdfast_store_size_bytes", &[]).await? > 0.0, "no bytes");
        Ok(())
    })
    .await?;
    let fallback = condition(&holdfast, "holdfast.dev/Fallback").await?.context("no condition")?;
    let message = fallback["message"].as_str().unwrap_or_default();
    ensure!(
        fallback["reason"] == "Backfilled" && message.starts_with("serving generation 1 (last valid, since "),
        "{fallback}"
    );
    let finished = status(&world, &holdfast, "text").await?;
    let words =
        ["HTTPRoute default/cart, generation 2", "cannot be translated: spec.rules[0]", "generation 1 is served"];
    finished.expect_code(1)?.expect_output(&words)?;
    ensure!(!finished.stdout.contains('\u{1b}'), "{}", finished.stdout);
    let page: Value = serde_json::from_str(&status(&world, &holdfast, "json").await?.expect_code(1)?.stdout)?;
    ensure!(page["brokenObjects"] == report["brokenObjects"], "{page}");
    let dot = get(holdfast.options.diagnostics, "/debug/graph?format=dot").host("localhost").answers(200).await?.body;
    ensure!(dot.contains(&format!("\"{CART}\" [style=filled, fillcolor=red")), "{dot}");
    let store = holdfast.diagnostics("/debug/store").await?;
    ensure!(store["stored"] == true && store.to_string().contains("HTTPRoute:default/cart"), "{store}");

    // The fault is reported once, however often something else changes.
    world.route("other", &cart("/other"))?;
    get(port, "/other").comes_to_reach("echo").await?;
    holdfast.comes_to_print(&["\"reason\":\"Backfilled\""]).await?;
    ensure!(holdfast.output().matches("\"reason\":\"Backfilled\"").count() == 1, "{}", holdfast.output());

    // After a restart the last valid version and the start time of the fault are known.
    let options = holdfast.options.clone();
    holdfast.terminate().await?;
    let holdfast = world.run_with(options).await?;
    let report = comes_to_be(&holdfast, "triggered").await?;
    let again = report.pointer("/backfilledObjects/0").context("nothing is backfilled")?;
    ensure!(*again == backfilled, "{again}, before {backfilled}");
    get(port, "/cart/a").comes_to_reach("echo").await?;

    world.route("cart", &cart("/cart/[0-9]+"))?;
    comes_to_be(&holdfast, "not-triggered").await?;
    get(port, "/cart/7").comes_to_reach("echo").await?;
    holdfast.comes_to_print(&["\"reason\":\"Recovered\"", "\"reason\":\"ConfigurationSucceeded\""]).await?;
    until("metrics tell", || async {
        ensure!(holdfast.metric("holdfast_fallback_active", &[]).await? == 0.0, "active");
        ensure!(holdfast.metric("holdfast_objects", &[]).await? == 0.0, "objects");
        Ok(())
    })
    .await?;
    ensure!(condition(&holdfast, "holdfast.dev/Fallback").await?.is_none());
    until("status says so", || async {
        status(&world, &holdfast, "text").await?.expect_code(0)?;
        Ok(())
    })
    .await
}

async fn without_the_gate_a_fault_is_reported_too(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &cart("/cart/["))?;
    let holdfast = world.run().await?;
    get(port, "/cart/a").comes_to_answer(404).await?;
    let report = comes_to_be(&holdfast, "triggered").await?;
    let replaced = report.pointer("/replacedObjects/0").context("nothing is replaced")?;
    ensure!(
        replaced["scope"] == "rule" && replaced["section"] == "rules[0]" && replaced["response"] == 404,
        "{replaced}"
    );
    holdfast
        .comes_to_print(&["rules[0] answers 404; generation 1 was refused: spec.rules[0].matches[0].path.value"])
        .await?;
    world.delete("route-cart.yaml")?;
    comes_to_be(&holdfast, "not-triggered").await?;
    Ok(())
}

async fn status_without_a_server(world: World) -> Result<()> {
    let address = format!("127.0.0.1:{}", world.port()?);
    let finished = world.command(&["status", "--diagnostics", &address]).await?;
    finished.expect_code(3)?.expect_output(&["cannot read", &address])?;
    world.command(&["status", "--diagnostics", "nowhere"]).await?.expect_code(2)?.expect_output(&["HOST:PORT"])?;
    Ok(())
}
