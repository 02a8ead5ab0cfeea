//! Session of one probe from its start to its end: set up, then used for trials.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use holdfast_envoy::encode::slots;
use holdfast_fallback::trial::{Trial, Tried};
use holdfast_xds::{ResourceType, scrub};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::course::Course;
use crate::origin::RunningProbe;
use crate::prober::ProberOptions;
use crate::push::{Nonces, Push};
use crate::server::Link;
use crate::setup::Setup;

/// How long a probe may take from its start to its first stream.
const PROBE_CONNECT_MAX: Duration = Duration::from_secs(20);
/// Minimum timeout for answers during the setup, for configurations with a shorter timeout.
const PROBE_SET_UP_MAX: Duration = Duration::from_secs(20);

/// A probe with its stream.
#[derive(Debug)]
pub(crate) struct Session {
    process: RunningProbe,
    link: Link,
    setup: Setup,
    nonces: Nonces,
    outbox: VecDeque<Push>,
}

/// The reason why a probe no longer answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeLoss {
    /// The probe died, or closed its stream.
    Died(String),
    /// The probe did not answer within the timeout.
    Silent,
}

impl Session {
    /// Starts a probe and sets it up: when this returns, the probe has answered to good content.
    pub(crate) async fn open(
        options: &ProberOptions,
        (folder, socket): (&Path, &Path),
        node: &str,
        links: &mut mpsc::Receiver<Link>,
    ) -> Result<Self> {
        let mut process = options.origin.start(folder, socket, node).await?;
        match Self::connect(&mut process, node, links).await {
            Ok((link, first)) => {
                let (setup, nonces, outbox) = (Setup::new(), Nonces::default(), VecDeque::new());
                let mut session = Self { process, link, setup, nonces, outbox };
                match session.set_up(first, options.timeout.max(PROBE_SET_UP_MAX)).await {
                    Ok(()) => Ok(session),
                    Err(error) => {
                        session.kill(folder).await;
                        Err(error)
                    }
                }
            }
            Err(error) => {
                process.kill(folder).await;
                Err(error)
            }
        }
    }

    async fn connect(
        process: &mut RunningProbe,
        node: &str,
        links: &mut mpsc::Receiver<Link>,
    ) -> Result<(Link, DeltaDiscoveryRequest)> {
        let first = async {
            loop {
                let mut link = links.recv().await.context("the xDS server of the probe has ended")?;
                // A stream with another node id is of an earlier probe.
                if let Ok(Some(first)) = link.requests.message().await
                    && first.node.as_ref().is_some_and(|claimed| claimed.id == node)
                {
                    return Ok((link, first));
                }
            }
        };
        tokio::select! {
            how = process.ended() => bail!("the probe ended immediately after its start ({how})"),
            first = timeout(PROBE_CONNECT_MAX, first) => first.context("the probe did not connect to Holdfast")?,
        }
    }

    async fn set_up(&mut self, first: DeltaDiscoveryRequest, patience: Duration) -> Result<()> {
        let mut nothing = Course::default();
        ensure!(
            self.take_in(&first, &mut nothing, &mut Vec::new()).is_ok(),
            "the probe refused its initial configuration"
        );
        match self.converse(&mut nothing, patience, &mut Vec::new()).await {
            Ok(()) => Ok(()),
            Err(ProbeLoss::Died(how)) => bail!("the probe ended during its setup ({how})"),
            Err(ProbeLoss::Silent) => bail!("the probe stopped answering during its setup"),
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The version of its Envoy.
    pub(crate) fn version(&self) -> Arc<str> {
        self.process.version()
    }

    /// Runs a course until all its trials are answered. `patience` is the maximum time without any answer.
    ///
    /// Results are added to `tried` as they arrive, also if the probe is lost afterwards.
    pub(crate) async fn converse(
        &mut self,
        course: &mut Course,
        patience: Duration,
        tried: &mut Vec<Tried>,
    ) -> Result<(), ProbeLoss> {
        let mut deadline = Instant::now() + patience;
        let responses = self.link.responses.clone();
        loop {
            if self.outbox.is_empty() && self.setup.is_done() {
                self.outbox.extend(course.next(&mut self.nonces));
            }
            if self.outbox.is_empty() && self.setup.is_done() && course.is_done() {
                return Ok(());
            }
            tokio::select! {
                // Answers that have arrived are processed first, also late ones and those before an end of the stream.
                biased;
                request = self.link.requests.message() => match request {
                    Ok(Some(request)) => {
                        if self.take_in(&request, course, tried)? {
                            deadline = Instant::now() + patience;
                        }
                    }
                    Ok(None) => return Err(ProbeLoss::Died("the probe closed its stream".into())),
                    Err(status) => return Err(ProbeLoss::Died(status.message().to_owned())),
                },
                how = self.process.ended() => return Err(ProbeLoss::Died(how)),
                permit = responses.reserve(), if !self.outbox.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(push) = self.outbox.pop_front() {
                            permit.send(Ok(push.into()));
                        }
                    }
                    Err(_) => return Err(ProbeLoss::Died("the stream of the probe is closed".into())),
                },
                () = sleep_until(deadline) => return Err(ProbeLoss::Silent),
            }
        }
    }

    /// Waits until the probe is lost, while there is no order.
    pub(crate) async fn rest(&mut self) -> ProbeLoss {
        loop {
            let request = tokio::select! {
                request = self.link.requests.message() => request,
                how = self.process.ended() => return ProbeLoss::Died(how),
            };
            match request {
                Ok(Some(request)) => match self.take_in(&request, &mut Course::default(), &mut Vec::new()) {
                    Ok(_) => {}
                    Err(lost) => return lost,
                },
                Ok(None) => return ProbeLoss::Died("the probe closed its stream".into()),
                Err(status) => return ProbeLoss::Died(status.message().to_owned()),
            }
        }
    }

    /// Returns whether the probe answers to good content within this time.
    pub(crate) async fn has_pulse(&mut self, patience: Duration) -> bool {
        let body = slots::no_routes("pulse");
        let (mut course, _) = Course::new([Trial { id: 0, kind: ResourceType::Route, name: "pulse".into(), body }]);
        self.converse(&mut course, patience, &mut Vec::new()).await.is_ok()
    }

    /// Ends the probe in order.
    pub(crate) async fn end(self, folder: &Path) {
        self.process.end(folder).await;
    }

    /// Kills the probe.
    pub(crate) async fn kill(self, folder: &Path) {
        self.process.kill(folder).await;
    }

    /// Processes a request; returns true if it answers a pending response.
    fn take_in(
        &mut self,
        request: &DeltaDiscoveryRequest,
        course: &mut Course,
        tried: &mut Vec<Tried>,
    ) -> Result<bool, ProbeLoss> {
        let Some(kind) = ResourceType::from_url(&request.type_url) else { return Ok(false) };
        let mut is_awaited = false;
        if let Ok(nonce) = request.response_nonce.parse() {
            let error = request.error_detail.as_ref().map(|error| error.message.as_str());
            let ended = course.answer(nonce, error, &mut self.nonces);
            let set_up = self.setup.answer(nonce, error.is_some());
            if set_up == Some(false) {
                return Err(ProbeLoss::Died(format!(
                    "the probe refused its initial configuration: {}",
                    scrub(error.unwrap_or(""))
                )));
            }
            is_awaited = ended.is_some() || set_up.is_some();
            tried.extend(ended);
        }
        self.outbox.extend(self.setup.on_subscription(kind, &request.resource_names_subscribe, &mut self.nonces));
        Ok(is_awaited)
    }
}
