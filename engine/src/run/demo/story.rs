//! The story: what is done, what is asked, what is expected, and what came.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::ask::{self, Answer};
use super::manifests::{BAD_REGEX, LARGE_REGEX};
use super::pages;
use super::stage::Stage;
use crate::settings::INVALID_ROUTE_RESPONSE_BODY;

/// The host of both teams.
const HOST: &str = "shop.example.com";
/// How long a step may take until it shows.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often is asked meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// A request with what it should be answered.
#[derive(Clone, Copy)]
struct Expected {
    path: &'static str,
    status: u16,
    by: &'static str,
    /// The version of the route that serves it.
    version: Option<u32>,
}

/// Tells the story to its end.
pub(super) async fn tell(stage: &mut Stage) -> anyhow::Result<()> {
    serves(stage).await?;
    only_envoy_notices(stage).await?;
    restarted(stage).await?;
    repaired(stage).await?;
    nothing_to_go_back_to(stage).await?;
    println!("\nThe demo went as it should.");
    Ok(())
}

async fn serves(stage: &Stage) -> anyhow::Result<()> {
    wait(stage, &shop(1)).await?;
    println!("   The Gateway listens on {}; diagnostics on http://{}/debug", stage.gateway, stage.diagnostics());
    println!("   Manifests: {}", stage.manifests().display());
    println!("   Try it:    curl -H 'Host: {HOST}' http://{}/checkout\n", stage.gateway);
    show(stage, &[shop(1), pay(1), orders(1)]).await
}

async fn only_envoy_notices(stage: &Stage) -> anyhow::Result<()> {
    println!("\n2. The checkout team applies version 2 of its route, with a new expression:");
    println!("   {LARGE_REGEX}");
    println!("   It compiles; this Envoy's regex engine takes no program as large, and refuses the configuration.");
    stage.edit_checkout(2, LARGE_REGEX)?;
    wait_for_refusal(stage).await?;
    show(stage, &[pay(1), orders(1)]).await?;
    println!("   The team's last valid version, 1, is served meanwhile. The shop's team applies its own version 2:");
    stage.edit_shop(2)?;
    wait(stage, &shop(2)).await?;
    show(stage, &[shop(2), orders(1)]).await?;
    refused_once(stage).await
}

async fn restarted(stage: &mut Stage) -> anyhow::Result<()> {
    println!("\n3. Holdfast ends. Envoy goes on, and Holdfast starts again and remembers:");
    stage.stop_holdfast().await;
    show(stage, &[orders(1)]).await?;
    stage.start_holdfast()?;
    stage.edit_shop(3)?;
    wait(stage, &shop(3)).await?;
    show(stage, &[shop(3), orders(1)]).await?;
    refused_once(stage).await
}

async fn repaired(stage: &Stage) -> anyhow::Result<()> {
    println!("\n4. The checkout team applies version 3, which is right. Nobody restarts or releases anything:");
    stage.edit_checkout(3, "/checkout/(orders|v2)/[a-z0-9-]+")?;
    wait(stage, &pay(3)).await?;
    show(stage, &[shop(3), pay(3), orders(3)]).await?;
    refused_once(stage).await
}

async fn nothing_to_go_back_to(stage: &Stage) -> anyhow::Result<()> {
    println!("\n5. A new route with a bracket lost ({BAD_REGEX}). There is no version to go back to: its rule");
    println!("   is answered in its own place, and its requests fall to no broader route.");
    let before = stage.received_by_shop();
    stage.add_refunds()?;
    let refunds = Expected { path: "/checkout/refunds/7", status: 404, by: "the Gateway", version: None };
    let answer = wait(stage, &refunds).await?;
    ensure!(answer.body == INVALID_ROUTE_RESPONSE_BODY, "the replaced rule answers another body than expected");
    show(stage, &[refunds, pay(3), shop(3)]).await?;
    let received = stage.received_by_shop() - before;
    ensure!(received == 1, "the shop's back end received {received} requests, and should have received its own only");
    println!("   Its owner is told in the route's status:");
    println!("   {}", pages::status_of_refunds(stage).await?);

    println!("\n6. The route is deleted, and gone:");
    stage.delete_refunds()?;
    let gone = Expected { path: "/checkout/refunds/7", ..pay(3) };
    wait(stage, &gone).await?;
    show(stage, &[gone]).await
}

fn shop(version: u32) -> Expected {
    Expected { path: "/", status: 200, by: "pod shop-1", version: Some(version) }
}

fn pay(version: u32) -> Expected {
    Expected { path: "/checkout", status: 200, by: "pod checkout-1", version: Some(version) }
}

fn orders(version: u32) -> Expected {
    Expected { path: "/checkout/orders/42", ..pay(version) }
}

impl Expected {
    fn is(&self, answer: &Answer) -> bool {
        (answer.status, answer.by.as_str(), answer.version) == (self.status, self.by, self.version)
    }
}

/// Asks until the answer is as expected.
async fn wait(stage: &Stage, expected: &Expected) -> anyhow::Result<Answer> {
    let started = Instant::now();
    loop {
        let answer = ask::get(stage.gateway, HOST, expected.path).await;
        match answer {
            Ok(answer) if expected.is(&answer) => return Ok(answer),
            answer if started.elapsed() > STEP_TIMEOUT => {
                let path = expected.path;
                bail!("{path} was not answered as expected within {STEP_TIMEOUT:?}; the last answer: {answer:?}");
            }
            _ => {}
        }
        if let Some(line) = stage.log().lines().find(|line| line.starts_with("error:")) {
            bail!("holdfast run ended: {line}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks, prints the answers, and fails where one is not as expected.
async fn show(stage: &Stage, requests: &[Expected]) -> anyhow::Result<()> {
    for expected in requests {
        let answer = ask::get(stage.gateway, HOST, expected.path).await.context(expected.path)?;
        let version = answer.version.map(|version| format!(", version {version} of the route")).unwrap_or_default();
        println!("   GET {:22} -> {} by {}{version}", expected.path, answer.status, answer.by);
        if !expected.is(&answer) {
            let version = expected.version;
            bail!("{} should have been answered {} by {} ({version:?})", expected.path, expected.status, expected.by);
        }
    }
    Ok(())
}

/// Waits until Envoy has refused a configuration.
async fn wait_for_refusal(stage: &Stage) -> anyhow::Result<()> {
    let started = Instant::now();
    while pages::refused_by_envoy(stage).await? == 0 {
        ensure!(started.elapsed() <= STEP_TIMEOUT, "Envoy has refused nothing");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn refused_once(stage: &Stage) -> anyhow::Result<()> {
    let refused = pages::refused_by_envoy(stage).await?;
    println!("   Configurations that Envoy has refused since it started: {refused}.");
    ensure!(refused == 1, "it should have refused one");
    Ok(())
}
