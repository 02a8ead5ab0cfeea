//! Starts Holdfast and a client, and measures the time until the client has all routes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, process};

use crate::client::Client;
use crate::fixture::{Fixture, Source};
use crate::names;
use crate::objects::DOMAIN;
use crate::percentiles::milliseconds;
use crate::report::{Start, StatusWrites, VirtualHosts};
use crate::usage;

/// Time for a start with many routes.
const LIMIT: Duration = Duration::from_secs(900);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(2);
/// Length of an interval in which a process that has settled uses at most [`SETTLED_CPU`], and the number of intervals
/// that are waited for.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVALS: usize = 300;
const SETTLED_CPU: Duration = Duration::from_millis(20);
/// Number of such intervals in succession beside an API server: a write that failed is repeated after two seconds.
const QUIET_INTERVALS: usize = 3;
/// Number of statuses that an idle Holdfast reads in an interval at most, to see changes by other clients.
const READS: u64 = 3;
/// Number of statuses that are written in an interval at least: half of the rate to which Holdfast limits itself.
const STATUSES_PER_INTERVAL: usize = 5;

/// A running Holdfast and its client.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) holdfast: Holdfast,
    pub(crate) client: Client,
    began: Instant,
}

impl Running {
    /// Starts both and returns when the client has all routes.
    pub(crate) async fn start(options: HoldfastOptions, port: u16, fixture: &Fixture<'_>) -> Result<(Self, Start)> {
        let began = Instant::now();
        let holdfast = Holdfast::start(fixture.world, options)?;
        let (client, at) = loop {
            match connect(port, fixture.routes, fixture.virtual_hosts).await {
                Ok(connected) => break connected,
                Err(error) if !process::runs(holdfast.id()) => return Err(error).context("holdfast has ended"),
                Err(error) if began.elapsed() > LIMIT => return Err(error).context("not all routes were received"),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let start = Start {
            milliseconds: milliseconds(at - began),
            cpu_milliseconds: milliseconds(usage::cpu(holdfast.id())?),
            bytes: client.bytes(),
        };
        Ok((Self { holdfast, client, began }, start))
    }

    /// Receives until the process is idle: it has stored what the client has accepted, and an API server has this number
    /// of writes and gets no more. Returns since when.
    pub(crate) async fn settle(&mut self, fixture: &Fixture<'_>, writes: u64) -> Result<Instant> {
        let (needed, settled_cpu, limit) = match &fixture.source {
            Source::Folder => (1, SETTLED_CPU, INTERVALS),
            // The regular work of each second grows with the number of objects.
            Source::ApiServer(_) => (QUIET_INTERVALS, INTERVAL, INTERVALS + fixture.routes / STATUSES_PER_INTERVAL),
        };
        let (mut quiet, mut since) = (0, Instant::now());
        for _ in 0..limit {
            let (cpu, before) = (self.cpu()?, fixture.requests().await?);
            let received = self.client.rest(INTERVAL).await?;
            let (cpu, after) = (self.cpu()? - cpu, fixture.requests().await?);
            let has_statuses = after.writes >= writes && after.writes == before.writes;
            if received == 0 && cpu <= settled_cpu && has_statuses && after.reads - before.reads <= READS {
                quiet += 1;
            } else {
                (quiet, since) = (0, Instant::now());
            }
            if quiet == needed {
                return Ok(since);
            }
        }
        bail!("holdfast is not idle {limit} s after the last change")
    }

    /// What a start has needed; the process has settled at `settled`, and `before` are the writes before the start.
    pub(crate) async fn statuses(&self, fixture: &Fixture<'_>, settled: Instant, before: u64) -> Result<StatusWrites> {
        let seconds = (settled - self.began).as_secs_f64();
        let count = fixture.requests().await?.writes.saturating_sub(before);
        Ok(StatusWrites { count, seconds, cpu_milliseconds: milliseconds(self.cpu()?) })
    }

    /// The CPU time of the process so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.holdfast.id())
    }

    /// The memory of the process.
    pub(crate) fn memory(&self) -> Result<usage::Memory> {
        usage::memory(self.holdfast.id())
    }
}

/// Waits until a process is idle.
pub(crate) async fn idle(id: u32) -> Result<()> {
    for _ in 0..INTERVALS {
        let before = usage::cpu(id)?;
        tokio::time::sleep(INTERVAL).await;
        if usage::cpu(id)? - before <= SETTLED_CPU {
            return Ok(());
        }
    }
    bail!("process {id} is not idle after {INTERVALS} s")
}

/// Connects and receives until all hosts are there; returns when the last one arrived.
async fn connect(port: u16, routes: usize, virtual_hosts: VirtualHosts) -> Result<(Client, Instant)> {
    let mut client = Client::connect(port, virtual_hosts).await?;
    let mut hosts = HashSet::new();
    let all = |received: &crate::client::Received| {
        let domains = names::domains(&received.response)?.into_iter();
        hosts.extend(domains.filter(|domain| domain.ends_with(DOMAIN)));
        Ok((hosts.len() >= routes).then_some(received.at))
    };
    let at = client.until(LIMIT, all).await?;
    Ok((client, at))
}
