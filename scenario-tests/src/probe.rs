//! The product's probe, driven directly: candidates in, outcomes out.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use holdfast_fallback::trial::{Outcome, Trial, Tried};
use holdfast_probe::envoy::find;
use holdfast_probe::{Origin, ProbeState, ProbeView, Prober, ProberOptions};
use holdfast_xds::ResourceType;
use tokio::sync::mpsc;

use crate::wait::PATIENCE;
use crate::{World, until};

/// A probe.
#[derive(Debug)]
pub struct ProbeDriver {
    prober: Prober,
    answers: mpsc::Receiver<Vec<Tried>>,
}

/// The outcome of each trial, by id.
pub type Outcomes = BTreeMap<u64, Outcome>;

impl ProbeDriver {
    /// Starts a probe in the data folder of a world, and waits until it is available.
    pub async fn start(world: &World, timeout: Duration) -> Result<Self> {
        let probe = Self::start_with(world, find::find()?, timeout)?;
        let mut available = probe.prober.available();
        tokio::time::timeout(PATIENCE, available.wait_for(Option::is_some)).await.context("no probe can be had")??;
        Ok(probe)
    }

    /// Starts a probe with this Envoy binary.
    pub fn start_with(world: &World, binary: find::EnvoyBinary, timeout: Duration) -> Result<Self> {
        let origin = Origin::Here(binary);
        let (prober, answers) = Prober::start(ProberOptions { origin, data: world.data(), timeout })?;
        Ok(Self { prober, answers })
    }

    /// Submits candidates.
    pub fn submit(&self, trials: Vec<Trial>) -> Result<()> {
        Ok(self.prober.submit(trials)?)
    }

    /// Waits until the probe has taken all submitted candidates.
    pub async fn is_at_it(&self) -> Result<()> {
        until("it is at it", || {
            let waiting = self.prober.waiting();
            std::future::ready(if waiting == 0 { Ok(()) } else { Err(anyhow::anyhow!("{waiting} orders wait")) })
        })
        .await
    }

    /// Waits for this number of outcomes; fails if a trial has more than one.
    pub async fn answers(&mut self, count: usize) -> Result<Outcomes> {
        let mut outcomes = Outcomes::new();
        while outcomes.len() < count {
            let some = tokio::time::timeout(PATIENCE, self.answers.recv()).await;
            let some = some.with_context(|| format!("only {} of {count} are answered", outcomes.len()))?;
            for Tried { id, outcome } in some.context("the prober ended")? {
                ensure!(outcomes.insert(id, outcome).is_none(), "{id} is answered twice");
            }
        }
        ensure!(self.answers.try_recv().is_err(), "more is answered than was asked");
        Ok(outcomes)
    }

    /// Submits candidates, and waits for their outcomes.
    pub async fn verdicts(&mut self, trials: Vec<Trial>) -> Result<Outcomes> {
        let count = trials.len();
        self.submit(trials)?;
        self.answers(count).await
    }

    /// The state of the probe.
    pub fn view(&self) -> ProbeView {
        self.prober.view().borrow().clone()
    }

    /// Waits until a probe other than the process `before` is ready; returns its process id.
    pub async fn another(&self, before: Option<u32>) -> Result<u32> {
        until("there is another probe", || {
            let view = self.view();
            let is_new = view.state == ProbeState::Ready && view.pid != before;
            std::future::ready(view.pid.filter(|_| is_new).with_context(|| format!("{view:?}")))
        })
        .await
    }

    /// Ends the probe.
    pub async fn end(self) {
        self.prober.end().await;
    }
}

/// Returns a trial of these bytes.
pub fn trial(id: u64, kind: ResourceType, body: impl Into<Bytes>) -> Trial {
    Trial { id, kind, name: format!("candidate {id}").into(), body: body.into() }
}

/// Ids of the trials with an outcome that satisfies `is`, in order.
pub fn those(outcomes: &Outcomes, is: impl Fn(&Outcome) -> bool) -> Vec<u64> {
    outcomes.iter().filter(|(_, outcome)| is(outcome)).map(|(id, _)| *id).collect()
}

/// Returns whether the candidate was refused.
pub fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused { .. })
}

/// Returns whether the candidate was accepted.
pub fn is_accepted(outcome: &Outcome) -> bool {
    *outcome == Outcome::Accepted
}

/// Returns the resident memory of a process in bytes; 0 where it is not known.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}
