//! The story: what is done, what is asked, what is expected, and what came.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use super::ask::{self, Answer};
use super::manifests::Checkout;
use super::stage::Stage;
use crate::settings::INVALID_ROUTE_RESPONSE_BODY;

/// The host of both teams.
const HOST: &str = "shop.example.com";
/// How long the first answer may take: Envoy may have to be fetched.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// How long an edit may take until it shows.
const EDIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How often is asked meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// A request with what it should be answered.
struct Expected {
    path: &'static str,
    status: u16,
    by: &'static str,
}

/// Tells the story to its end.
pub(super) async fn tell(stage: &Stage, keep: bool) -> anyhow::Result<()> {
    println!("Holdfast demo: two teams share one Gateway; one of them makes mistakes.\n");
    println!(
        "1. Starting Holdfast, an Envoy and two back ends (the first time Envoy is fetched, which takes a while)."
    );
    wait(stage, "/", START_TIMEOUT, |answer| answer.status == 200).await?;
    println!("   The Gateway listens on {}; diagnostics on http://{}/debug/statuses", stage.gateway, stage.diagnostics);
    println!("   Manifests: {}", stage.manifests().display());
    println!("   Try it:    curl -H 'Host: {HOST}' http://{}/checkout\n", stage.gateway);
    let (shop, pay) = (fine("/", "pod shop-1"), fine("/checkout", "pod checkout-1"));
    let orders = || fine("/checkout/orders/42", "pod checkout-1");
    show(stage, &[&shop, &pay, &orders()]).await?;

    println!("\n2. The checkout team edits its route: the regex of rule \"orders\" loses a bracket ([0-9+).");
    let before = stage.received_by_shop();
    stage.edit(Checkout::BadRegex)?;
    wait(stage, "/checkout/orders/42", EDIT_TIMEOUT, |answer| answer.status == 404).await?;
    let replaced = Expected { path: "/checkout/orders/42", status: 404, by: "the Gateway" };
    let answers = show(stage, &[&replaced, &pay, &shop]).await?;
    if !answers.iter().any(|answer| answer.body == INVALID_ROUTE_RESPONSE_BODY) {
        bail!("the replaced rule answers another body than expected");
    }
    println!("   Only the broken rule is closed: its requests fall to no broader route (the shop's \"/\" received");
    println!("   {} requests meanwhile, the one above), and its neighbours go on.", stage.received_by_shop() - before);
    println!("   Its owner is told in the route's status:");
    println!("   {}", status_message(stage).await?);

    println!("\n3. The regex is repaired; no restart, nobody is called.");
    stage.edit(Checkout::Fine)?;
    wait(stage, "/checkout/orders/42", EDIT_TIMEOUT, |answer| answer.status == 200).await?;
    show(stage, &[&orders(), &pay, &shop]).await?;

    println!("\n4. The rule names a Service that does not exist: 500, as Gateway API asks, and for this rule only.");
    stage.edit(Checkout::NoBackend)?;
    wait(stage, "/checkout/orders/42", EDIT_TIMEOUT, |answer| answer.status == 500).await?;
    let missing = Expected { path: "/checkout/orders/42", status: 500, by: "the Gateway" };
    show(stage, &[&missing, &pay, &shop]).await?;

    println!("\n5. Repaired again.");
    stage.edit(Checkout::Fine)?;
    wait(stage, "/checkout/orders/42", EDIT_TIMEOUT, |answer| answer.status == 200).await?;
    show(stage, &[&orders(), &pay, &shop]).await?;
    println!("\nThe demo went as it should.");
    if keep {
        println!("Everything is left running: edit the manifests in {} and ask again.", stage.manifests().display());
        println!("Ctrl-C ends it.");
        std::future::pending::<()>().await;
    }
    Ok(())
}

fn fine(path: &'static str, by: &'static str) -> Expected {
    Expected { path, status: 200, by }
}

/// Asks until the answer is as wanted.
async fn wait(stage: &Stage, path: &str, limit: Duration, wanted: impl Fn(&Answer) -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let answer = ask::get(stage.gateway, HOST, path).await;
        if answer.as_ref().is_ok_and(&wanted) {
            return Ok(());
        }
        if started.elapsed() > limit {
            bail!("{path} was not answered as expected within {} s; the last answer: {answer:?}", limit.as_secs());
        }
        if let Some(line) = stage.log().lines().find(|line| line.starts_with("error:")) {
            bail!("holdfast run ended: {line}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks, prints the answers, and fails where one is not as expected.
async fn show(stage: &Stage, requests: &[&Expected]) -> anyhow::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for expected in requests {
        let answer = ask::get(stage.gateway, HOST, expected.path).await.context(expected.path)?;
        println!("   GET {:22} -> {} by {}", expected.path, answer.status, answer.by);
        if (answer.status, answer.by.as_str()) != (expected.status, expected.by) {
            bail!("{} should have been answered {} by {}", expected.path, expected.status, expected.by);
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// What the status of the checkout route says of its broken rule.
async fn status_message(stage: &Stage) -> anyhow::Result<String> {
    let page = ask::get(stage.diagnostics, "localhost", "/debug/statuses").await.context("diagnostics")?;
    let page: Value = serde_json::from_str(&page.body).context("diagnostics")?;
    find(&page, "PartiallyInvalid").context("the route's status has no condition PartiallyInvalid")
}

/// The message of the first condition of a type, wherever it stands.
fn find(value: &Value, kind: &str) -> Option<String> {
    match value {
        Value::Object(fields) if fields.get("type").is_some_and(|found| found == kind) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            Some(format!("{kind}={} {}: {}", text("status"), text("reason"), text("message")))
        }
        Value::Object(fields) => fields.values().find_map(|value| find(value, kind)),
        Value::Array(values) => values.iter().find_map(|value| find(value, kind)),
        _ => None,
    }
}
