//! Isolation: an edit that Envoy refuses and an edit of another route, written together, and the time until the other edit
//! is in an answer.
//!
//! The Envoy has its own limit of RE2 programs, which is less than the one that Holdfast assumes: translation accepts the
//! refused edit. Every pair has other routes, so that Holdfast knows nothing of them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::small_binary;
use holdfast_scenario_tests::{Holdfast, until};
use tokio::time::sleep;

use crate::answers::Answers;
use crate::edits::PAUSE;
use crate::fixture::Fixture;
use crate::objects::Edited;
use crate::percentiles::Percentiles;
use crate::report::{Isolated, Isolation};
use crate::through_envoy;

/// The flags of the fallback with last valid versions.
const FALLBACK: [&str; 3] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true"];

/// Measures up to this number of pairs, without and with the probe; returns none where there are not two routes.
pub(crate) async fn measure(fixture: &Fixture<'_>, edited: &mut Edited, count: usize) -> Result<Option<Isolation>> {
    let pairs = count.min(fixture.pairs());
    if pairs == 0 {
        return Ok(None);
    }
    let envoy = small_binary(fixture.world)?;
    let unprobed = session(fixture, &envoy, edited, pairs, "off").await.context("isolation without a probe")?;
    let probed = session(fixture, &envoy, edited, pairs, "on").await.context("isolation by the probe")?;
    Ok(Some(Isolation { pairs, unprobed, probed }))
}

/// Measures the pairs in a Holdfast of their own.
async fn session(
    fixture: &Fixture<'_>,
    envoy: &Path,
    edited: &mut Edited,
    pairs: usize,
    probe: &str,
) -> Result<Isolated> {
    let options = through_envoy::options(fixture, &format!("isolation-{probe}"), envoy, probe)?.args(&FALLBACK);
    let holdfast = through_envoy::started(fixture, options, edited).await?;
    if probe == "on" {
        probe_is_ready(&holdfast).await?;
    }
    let mut times = Vec::new();
    for pair in 0..pairs {
        times.push(isolated(fixture, edited, pair).await.with_context(|| format!("pair {pair}"))?);
        sleep(PAUSE).await;
    }
    let refusals = holdfast.metric("holdfast_nacks_total", &[]).await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(Isolated { milliseconds: Percentiles::of(&times), refusals })
}

/// Until the probe is ready, the Envoy that serves tries changed configuration.
async fn probe_is_ready(holdfast: &Holdfast) -> Result<()> {
    until("the probe is ready", || async {
        ensure!(holdfast.output().contains("a probe is ready"), "no probe yet");
        Ok(())
    })
    .await
}

/// Writes a refused edit and another one together; returns the time until the other one is in an answer. Corrects the
/// refused one afterwards.
async fn isolated(fixture: &Fixture<'_>, edited: &mut Edited, pair: usize) -> Result<Duration> {
    let [mut refused, mut other] = fixture.hosts_of_pair(pair).map(|host| Answers::of(fixture.port, &host));
    let before = refused.value().await?;
    edited.value += 1;
    let good = Edited { value: edited.value, ..Edited::default() };
    let began = fixture.edit_pair(pair, [&Edited { is_refused: true, ..good }, &good])?;
    let took = other.until(&good.header()).await? - began;
    let served = refused.value().await?;
    ensure!(served == before, "the refused edit is served as {served} instead of {before}");

    edited.value += 1;
    let corrected = Edited { value: edited.value, ..Edited::default() };
    fixture.edit_pair(pair, [&corrected, &corrected])?;
    refused.until(&corrected.header()).await?;
    other.until(&corrected.header()).await?;
    Ok(took)
}
