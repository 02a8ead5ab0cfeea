//! Steps of the demo: each with its action, requests, and expected and actual responses.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use holdfast_api::settings::INVALID_ROUTE_RESPONSE_BODY;
use holdfast_fallback::view::{FallbackReport, Status};
use holdfast_graph::Detected;

use super::client::{self, DemoResponse};
use super::manifests::{BAD_REGEX, HOST, LARGE_REGEX, PAY_HOST};
use super::pages;
use super::stage::DemoStage;

/// How long a step may take to have its effect.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Polling interval while waiting for the effect.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of characters of a message that are shown.
const DEMO_MESSAGE_CHARS_MAX: usize = 100;

/// A request with its expected response.
#[derive(Clone, Copy)]
struct DemoRequest {
    host: &'static str,
    path: &'static str,
    status: u16,
    by: &'static str,
    /// The version of the route that serves the request.
    version: Option<u32>,
}

/// Runs all steps.
pub(super) async fn run(stage: &mut DemoStage) -> anyhow::Result<()> {
    serves(stage).await?;
    only_envoy_notices(stage).await?;
    restarted(stage).await?;
    repaired(stage).await?;
    nothing_to_go_back_to(stage).await?;
    deleted(stage).await?;
    show!("\nThe demo is complete: each step had the expected result.");
    Ok(())
}

async fn serves(stage: &DemoStage) -> anyhow::Result<()> {
    wait(stage, &shop(1)).await?;
    show!("   The Gateway listens on {}; diagnostics are on http://{}/debug", stage.gateway, stage.diagnostics());
    show!("   Manifests: {}", stage.manifests().display());
    show!("   Try it:    curl -H 'Host: {HOST}' http://{}/checkout", stage.gateway);
    show!("              holdfast status --diagnostics {}\n", stage.diagnostics());
    show(stage, &[shop(1), pay(1), orders(1)]).await
}

async fn only_envoy_notices(stage: &DemoStage) -> anyhow::Result<()> {
    show!("\n2. The checkout team applies version 2 of its route, with a new expression:");
    show!("   {LARGE_REGEX}");
    show!("   The expression is valid; but it is larger than this Envoy accepts, and Envoy refuses the configuration.");
    stage.edit_checkout(2, LARGE_REGEX)?;
    wait_for_refusal(stage).await?;
    show(stage, &[pay(1), orders(1)]).await?;
    show!("   Version 1, which worked, is served meanwhile. Holdfast reports it:");
    wait_for_report(stage, "backfilled", went_back).await?;
    show!("   The shop team is not affected; it applies its own version 2:");
    stage.edit_shop(2)?;
    wait(stage, &shop(2)).await?;
    show(stage, &[shop(2), orders(1)]).await
}

async fn restarted(stage: &mut DemoStage) -> anyhow::Result<()> {
    wait_for_the_disk(stage).await?;
    show!("\n3. Holdfast is killed. Envoy continues to serve:");
    stage.kill_holdfast().await;
    show(stage, &[orders(1)]).await?;
    show!("   Holdfast starts again. Its store has the versions that worked and those that Envoy refused:");
    stage.start_holdfast()?;
    stage.edit_shop(3)?;
    wait(stage, &shop(3)).await?;
    show(stage, &[shop(3), orders(1)]).await?;
    wait_for_report(stage, "backfilled", went_back).await
}

async fn repaired(stage: &DemoStage) -> anyhow::Result<()> {
    show!("\n4. The checkout team applies version 3, which is valid. No restart and no release is needed:");
    stage.edit_checkout(3, "/checkout/(orders|v2)/[a-z0-9-]+")?;
    wait(stage, &pay(3)).await?;
    show(stage, &[shop(3), pay(3), orders(3)]).await?;
    wait_for_report(stage, "healed", all_is_current).await
}

async fn nothing_to_go_back_to(stage: &DemoStage) -> anyhow::Result<()> {
    show!("\n5. A new route lacks a bracket ({BAD_REGEX}). No version of it ever worked: a direct response");
    show!("   replaces its rule, so that its requests do not reach a broader route.");
    let before = stage.received_by_shop();
    stage.add_refunds()?;
    let refunds =
        DemoRequest { host: HOST, path: "/checkout/refunds/7", status: 404, by: "the Gateway", version: None };
    let answer = wait(stage, &refunds).await?;
    ensure!(answer.body == INVALID_ROUTE_RESPONSE_BODY, "the replaced rule answers another body than expected");
    show(stage, &[refunds, pay(3), shop(3)]).await?;
    let received = stage.received_by_shop() - before;
    ensure!(received == 1, "the shop's backend received {received} requests, and should have received its own only");
    wait_for_report(stage, "replaced", |report| report.replaced_objects.len() == 1).await?;
    show!("   The route's status reports it to its owner:");
    show!("   {}", pages::status_of_refunds(stage).await?);
    stage.delete("refunds.yaml")
}

async fn deleted(stage: &DemoStage) -> anyhow::Result<()> {
    show!("\n6. The checkout team applies version 2 again. It is not sent to Envoy a second time:");
    let before = pages::refused_by_envoy(stage).await?;
    stage.edit_checkout(2, LARGE_REGEX)?;
    wait_for_report(stage, "backfilled", went_back).await?;
    let refused = pages::refused_by_envoy(stage).await?;
    show!("   Configurations that Envoy has refused in all: {refused}, as before");
    ensure!(refused == before && before > 0, "Envoy should have refused {before} configurations, and no more");
    let paid = DemoRequest { host: PAY_HOST, ..pay(3) };
    show(stage, &[paid]).await?;
    show!("   Then it deletes the route. A deleted route is not served any more, in no version:");
    stage.delete("checkout.yaml")?;
    let gone = DemoRequest { status: 404, by: "the Gateway", version: None, ..paid };
    let answer = wait(stage, &gone).await?;
    ensure!(answer.body.is_empty(), "something is served instead of a deleted route");
    show(stage, &[gone, shop(3)]).await?;
    wait_for_report(stage, "healed", all_is_current).await
}

fn shop(version: u32) -> DemoRequest {
    DemoRequest { host: HOST, path: "/", status: 200, by: "pod shop-1", version: Some(version) }
}

fn pay(version: u32) -> DemoRequest {
    DemoRequest { host: HOST, path: "/checkout", status: 200, by: "pod checkout-1", version: Some(version) }
}

fn orders(version: u32) -> DemoRequest {
    DemoRequest { path: "/checkout/orders/42", ..pay(version) }
}

impl DemoRequest {
    fn is(&self, answer: &DemoResponse) -> bool {
        (answer.status, answer.by.as_str(), answer.version) == (self.status, self.by, self.version)
    }
}

/// Sends a request until the response is as expected.
async fn wait(stage: &DemoStage, expected: &DemoRequest) -> anyhow::Result<DemoResponse> {
    let started = Instant::now();
    loop {
        let answer = client::get(stage.gateway, expected.host, expected.path).await;
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

/// Sends requests, prints the responses, and fails if one is not as expected.
async fn show(stage: &DemoStage, requests: &[DemoRequest]) -> anyhow::Result<()> {
    for expected in requests {
        let answer = client::get(stage.gateway, expected.host, expected.path).await.context(expected.path)?;
        let version = answer.version.map(|version| format!(", version {version} of the route")).unwrap_or_default();
        let url = format!("{}{}", expected.host, expected.path);
        show!("   GET {url:36} -> {} by {}{version}", answer.status, answer.by);
        if !expected.is(&answer) {
            let version = expected.version;
            bail!("{} should have been answered {} by {} ({version:?})", expected.path, expected.status, expected.by);
        }
    }
    Ok(())
}

/// Waits until Envoy has refused a configuration.
async fn wait_for_refusal(stage: &DemoStage) -> anyhow::Result<()> {
    let started = Instant::now();
    while pages::refused_by_envoy(stage).await? == 0 {
        ensure!(started.elapsed() <= STEP_TIMEOUT, "Envoy has refused nothing");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Waits until the disk has the versions that worked, and what Envoy refused: a kill would lose what waits.
async fn wait_for_the_disk(stage: &DemoStage) -> anyhow::Result<()> {
    let started = Instant::now();
    while !pages::are_on_the_disk(stage, &[("shop/shop", 2), ("checkout/checkout", 1)]).await? {
        ensure!(started.elapsed() <= STEP_TIMEOUT, "the versions that worked are not on the disk");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns whether an object that Envoy refused is served in an earlier version.
fn went_back(report: &FallbackReport) -> bool {
    let refused = report.broken_objects.iter().any(|broken| broken.detected_by == Detected::Nack);
    refused && report.backfilled_objects.len() == 1
}

/// The beginning of a message, since messages of Envoy can be long.
fn excerpt(message: &str) -> String {
    match message.char_indices().nth(DEMO_MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", message.get(..end).unwrap_or(message)),
        None => message.to_owned(),
    }
}

fn all_is_current(report: &FallbackReport) -> bool {
    report.status == Status::NotTriggered
}

/// Waits until diagnostics have the expected content, and prints a summary.
async fn wait_for_report(
    stage: &DemoStage,
    what: &str,
    expected: impl Fn(&FallbackReport) -> bool,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let report = loop {
        match pages::fallback(stage).await {
            Ok(report) if expected(&report) => break report,
            report if started.elapsed() > STEP_TIMEOUT => {
                bail!("{} does not report {what}: {report:?}", pages::FALLBACK)
            }
            _ => tokio::time::sleep(PAUSE).await,
        }
    };
    if all_is_current(&report) {
        show!("   {}: every object is served as desired", pages::FALLBACK);
        return Ok(());
    }
    show!("   {}:", pages::FALLBACK);
    for broken in &report.broken_objects {
        let by = if broken.detected_by == Detected::Nack { "refused by Envoy" } else { "found by Holdfast" };
        show!("     broken:     {}, {by}", broken.object.key());
        show!("                 {}", excerpt(&broken.message));
    }
    for backfilled in &report.backfilled_objects {
        let desired = backfilled.desired_generation.unwrap_or_default();
        let served = backfilled.served_generation;
        show!("     backfilled: generation {served} is served instead of {desired}");
    }
    for replaced in &report.replaced_objects {
        show!("     replaced:   {} answers {}", replaced.section, replaced.response);
    }
    Ok(())
}
