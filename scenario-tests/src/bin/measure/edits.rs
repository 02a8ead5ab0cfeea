//! Edits of one route, one after another, and what each costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryResponse;
use prost::Message;
use regex::bytes::Regex;

use crate::client::Received;
use crate::fixture::{Fixture, Source};
use crate::names::{ROUTES, VIRTUAL_HOST};
use crate::objects::Edited;
use crate::percentiles::{Percentiles, milliseconds};
use crate::report::{Edits, Rewrites};
use crate::start::Running;

/// Pause after each edit.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
/// Pause after each edit in an API server: Holdfast collects statuses every second, and the cost of an edit contains that
/// of its status.
const STATUS_PAUSE: Duration = Duration::from_millis(1500);
/// Time for an edit to reach the client.
const LIMIT: Duration = Duration::from_secs(300);
/// Shortest measurement of an idle process.
const IDLE: Duration = Duration::from_secs(5);

/// Returns the share of a core that the process uses without any edit, in about the time of `count` edits. In a shorter
/// time, the resolution of CPU times would be a large part of what is later subtracted from the cost of an edit.
pub(crate) async fn idle(running: &mut Running, fixture: &Fixture<'_>, count: usize) -> Result<f64> {
    let time = IDLE.max(pause(fixture).saturating_mul(u32::try_from(count)?));
    let (began, before) = (Instant::now(), running.cpu()?);
    running.client.rest(time).await?;
    Ok((running.cpu()? - before).as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Edits the route `count` times; returns the figures and the last response.
pub(crate) async fn effective(
    running: &mut Running,
    fixture: &Fixture<'_>,
    edited: &mut Edited,
    count: usize,
    idle: f64,
) -> Result<(Edits, DeltaDiscoveryResponse)> {
    let writes = fixture.requests().await?.writes;
    let (cost, bytes) = (Cost::start(running)?, running.client.bytes());
    let (mut times, mut acknowledgements, mut last) = (Vec::new(), Vec::new(), None);
    for _ in 0..count {
        edited.value += 1;
        let value = Regex::new(&regex::escape(&edited.header()))?;
        let has_value = |received: &Received| Ok(contains(&received.response, &value).then(|| received.clone()));
        // An API server may acknowledge an edit after the client has received it.
        let (written, received) = tokio::try_join!(fixture.edit(edited), running.client.until(LIMIT, has_value))?;
        times.push(received.at - written.began);
        acknowledgements.extend(written.acknowledged.map(|at| at - written.began));
        last = Some(received.response);
        running.client.rest(pause(fixture)).await?;
    }
    let response = last.context("at least one edit is needed")?;
    let cpu_milliseconds = cost.each(running, count, idle)?;
    let writes = fixture.requests().await?.writes.saturating_sub(writes) as f64 / count as f64;
    let acknowledged = (!acknowledgements.is_empty()).then(|| Percentiles::of(&acknowledgements));
    let edits = Edits {
        milliseconds: Percentiles::of(&times),
        acknowledged_milliseconds: acknowledged,
        writes: acknowledged.map(|_| writes),
        bytes: (running.client.bytes() - bytes) as f64 / count as f64,
        response_bytes: response.encoded_len(),
        cpu_milliseconds,
    };
    Ok((edits, response))
}

/// Writes the route `count` times; `next` changes the version, if at all, in what clients do not receive.
pub(crate) async fn without_effect(
    running: &mut Running,
    fixture: &Fixture<'_>,
    edited: &mut Edited,
    count: usize,
    idle: f64,
    next: impl Fn(&mut Edited),
) -> Result<Rewrites> {
    let (cost, mut responses) = (Cost::start(running)?, 0);
    for _ in 0..count {
        next(edited);
        fixture.edit(edited).await?;
        responses += running.client.rest(pause(fixture)).await?;
    }
    Ok(Rewrites { count, cpu_milliseconds: cost.each(running, count, idle)?, responses })
}

fn pause(fixture: &Fixture<'_>) -> Duration {
    match &fixture.source {
        Source::Folder => PAUSE,
        Source::ApiServer(_) => STATUS_PAUSE,
    }
}

fn contains(response: &DeltaDiscoveryResponse, value: &Regex) -> bool {
    let bodies = response.resources.iter().filter_map(|resource| resource.resource.as_ref());
    [ROUTES, VIRTUAL_HOST].contains(&&*response.type_url) && bodies.into_iter().any(|body| value.is_match(&body.value))
}

/// The beginning of a measurement of CPU time.
struct Cost {
    began: Instant,
    cpu: Duration,
}

impl Cost {
    fn start(running: &Running) -> Result<Self> {
        Ok(Self { began: Instant::now(), cpu: running.cpu()? })
    }

    /// Returns the milliseconds for each of `count` edits. Below zero, the edits cost less than the idle process varies.
    fn each(&self, running: &Running, count: usize, idle: f64) -> Result<f64> {
        let used = running.cpu()? - self.cpu;
        Ok((milliseconds(used) - milliseconds(self.began.elapsed()) * idle) / count.max(1) as f64)
    }
}
