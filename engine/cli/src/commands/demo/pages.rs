//! Pages that the demo reads: Holdfast's diagnostics and Envoy's statistics.

use anyhow::Context;
use holdfast_api::apis::gateway::GROUP;
use holdfast_fallback::view::FallbackReport;
use serde_json::Value;

use super::client;
use super::stage::DemoStage;

/// The path of the fallback page.
pub(super) const FALLBACK: &str = "/debug/config/fallback";

/// The number of configurations that Envoy has refused since it started, from its own statistics.
pub(super) async fn refused_by_envoy(stage: &DemoStage) -> anyhow::Result<u64> {
    let page = client::get(stage.admin, "localhost", "/stats?filter=update_rejected").await.context("Envoy's admin")?;
    let counts = page.body.lines().filter_map(|line| line.split_once(": "));
    Ok(counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum())
}

/// The report of the fallback: `/debug/config/fallback`.
pub(super) async fn fallback(stage: &DemoStage) -> anyhow::Result<FallbackReport> {
    serde_json::from_value(page(stage, FALLBACK).await?).context(FALLBACK)
}

/// Returns whether the disk has these generations of HTTPRoutes (`namespace/name`), and everything else that was accepted
/// or refused until now.
pub(super) async fn are_on_the_disk(stage: &DemoStage, routes: &[(&str, i64)]) -> anyhow::Result<bool> {
    let page = page(stage, "/debug/store").await?;
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let versions: Vec<Value> = list(&page, "scopes").iter().flat_map(|scope| list(scope, "objects")).collect();
    let is_listed = |(route, generation): &(&str, i64)| {
        let object = format!("{GROUP}/HTTPRoute:{route}");
        let is_it = |version: &Value| {
            version.get("object").is_some_and(|found| *found == object)
                && version.get("generation").is_some_and(|found| found == generation)
        };
        versions.iter().any(is_it)
    };
    Ok(page.get("upToDate").is_some_and(|found| found == true) && routes.iter().all(is_listed))
}

/// The condition of the route `refunds` about its broken rule.
pub(super) async fn status_of_refunds(stage: &DemoStage) -> anyhow::Result<String> {
    let page = page(stage, "/debug/statuses").await?;
    let objects = page.get("objects").and_then(Value::as_array).into_iter().flatten();
    let name = |status: &Value| status.pointer("/object/name").and_then(Value::as_str).map(str::to_owned);
    let mut of_refunds = objects.filter(|status| name(status).as_deref() == Some("refunds"));
    let found = of_refunds.find_map(|status| condition(status, "Accepted"));
    found.context("the route's status has no condition Accepted")
}

async fn page(stage: &DemoStage, path: &str) -> anyhow::Result<Value> {
    let page = client::get(stage.diagnostics(), "localhost", path).await.context("diagnostics")?;
    serde_json::from_str(&page.body).context("diagnostics")
}

/// The first condition of a type anywhere in a JSON value.
fn condition(value: &Value, kind: &str) -> Option<String> {
    match value {
        Value::Object(fields) if fields.get("type").is_some_and(|found| found == kind) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            Some(format!("{kind}={} {}: {}", text("status"), text("reason"), text("message")))
        }
        Value::Object(fields) => fields.values().find_map(|value| condition(value, kind)),
        Value::Array(values) => values.iter().find_map(|value| condition(value, kind)),
        _ => None,
    }
}
