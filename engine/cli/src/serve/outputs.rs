//! Outputs of the main loop: sends configurations to the xDS server, Gateways to the controller of managed Envoys,
//! contents to the probe, and proven state to the store.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_engine::health::facts::Managed;
use holdfast_fallback::trial::{Outcome, Trial, Tried};
use holdfast_probe::{NotTaken, Prober};
use holdfast_store::Batch;
use holdfast_xds::limits::SILENCE_MAX;
use holdfast_xds::{EnvoyId, Fleets, Offers, SilentEnvoy, managed_node_id};

use crate::envoy::{ManagedEnvoy, Supervisor};
use crate::shared::task::Outbox;
use crate::store::persist::Persist;

/// How long configuration may wait until the verdicts on which it depends are on the disk.
const STORED_WITHIN: Duration = Duration::from_millis(50);
/// How long the last commit may take when the product ends.
const STORED_AT_THE_END: Duration = Duration::from_secs(2);

/// The outputs of actions.
pub struct Outputs {
    fleets: Fleets,
    /// `None` if Holdfast does not start Envoys.
    supervisor: Option<Supervisor>,
    /// `None` if there is no probe.
    prober: Option<Prober>,
    /// `None` if there is no store.
    persist: Option<Arc<Persist>>,
    /// `None` if there is only one replica.
    outbox: Option<Outbox>,
    orphans_ended: bool,
}

impl Outputs {
    /// Creates the outputs: configurations go to the fleets; `supervisor`, if set, runs an Envoy for each Gateway.
    pub fn new(fleets: Fleets, supervisor: Option<Supervisor>, persist: Option<Arc<Persist>>) -> Self {
        Self { fleets, supervisor, prober: None, persist, outbox: None, orphans_ended: false }
    }

    /// The number of open streams of Envoys, by Gateway.
    pub fn connected(&self) -> BTreeMap<Arc<str>, usize> {
        self.fleets.connected().into_iter().map(|(fleet, count)| (fleet.into(), count)).collect()
    }

    /// The oldest unanswered response of each stream.
    pub fn unanswered(&self) -> Vec<holdfast_xds::Unanswered> {
        self.fleets.unanswered()
    }

    /// Envoys that do not answer: silent clients of the xDS server, and managed ones with an admin interface that does
    /// not answer.
    pub(super) fn silent(&self) -> Vec<SilentEnvoy> {
        let mut silent = self.fleets.silent();
        let views = self.supervisor.as_ref().map(Supervisor::views).unwrap_or_default();
        for view in views.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let Some(quiet) = view.last_answer.map(|last| last.elapsed()).filter(|quiet| *quiet >= SILENCE_MAX) else {
                continue;
            };
            let node = managed_node_id(&view.gateway);
            let is_known = silent.iter().any(|known| *known.envoy.fleet == *view.gateway && *known.envoy.node == *node);
            if !is_known {
                let envoy = EnvoyId { fleet: view.gateway.clone(), node: node.into(), build: "".into() };
                silent.push(SilentEnvoy { envoy, quiet, connected: false });
            }
        }
        silent
    }

    /// Records that an Envoy has connected.
    pub fn envoy_connected(&self, envoy: &EnvoyId) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.connected(envoy);
        }
    }

    /// Managed Envoys, by Gateway.
    pub fn managed(&self) -> BTreeMap<Arc<str>, Managed> {
        let Some(supervisor) = &self.supervisor else { return BTreeMap::new() };
        let views = supervisor.views();
        let views = views.lock().unwrap_or_else(PoisonError::into_inner);
        let managed = |view: &ManagedEnvoy| {
            let serves = view.was_connected || view.adopted;
            (view.gateway.clone(), Managed { state: view.state.to_owned(), pid: view.pid, serves })
        };
        views.values().map(managed).collect()
    }

    /// The reason why changes currently do not get to the disk.
    pub fn store_failing(&self) -> Option<String> {
        self.persist.as_ref().and_then(|persist| persist.persisted().not_stored())
    }

    /// Uses a probe from now on, if there is one.
    pub fn use_probe(&mut self, prober: Option<Prober>) {
        self.prober = prober;
    }

    /// Shares stored state with other replicas from now on.
    pub fn share(&mut self, outbox: Outbox) {
        self.outbox = Some(outbox);
    }

    fn post(&self, batch: &Batch) {
        if let Some(outbox) = self.outbox.as_ref().filter(|_| !batch.is_empty()) {
            // The receiver ends only with the product.
            let _ = outbox.send(batch.clone());
        }
    }

    /// Publishes the configuration of a Gateway's Envoys.
    pub fn publish(&mut self, gateway: &Arc<str>, offers: Offers) {
        self.fleets.publish(gateway, offers);
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.start(gateway);
        }
    }

    /// Submits contents to the probe; contents that it does not accept are returned without a verdict.
    pub fn try_out(&mut self, trials: Vec<Trial>) -> Vec<Tried> {
        let left = match &self.prober {
            Some(prober) => prober.submit(trials).err().map(|NotTaken(trials)| trials).unwrap_or_default(),
            None => trials,
        };
        left.into_iter().map(|trial| Tried { id: trial.id, outcome: Outcome::Unavailable }).collect()
    }

    /// Stores verdicts, and waits for a limited time until they are on the disk, before dependent configuration is
    /// published.
    pub fn store_first(&mut self, batch: Batch) {
        self.post(&batch);
        let Some(persist) = &self.persist else { return };
        persist.commit(batch);
        if !persist.flush(STORED_WITHIN) {
            tracing::debug!(
                "verdicts are not on the disk yet; configuration that depends on them is served nevertheless"
            );
        }
    }

    /// Stores a batch soon.
    pub fn store(&mut self, batch: Batch) {
        self.post(&batch);
        if let Some(persist) = &self.persist {
            persist.commit(batch);
        }
    }

    /// Withdraws a Gateway that is gone.
    pub fn withdraw(&mut self, gateway: &Arc<str>) {
        tracing::info!(%gateway, "the Gateway is no longer served");
        self.fleets.withdraw(gateway);
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.end(gateway);
        }
    }

    /// Called after all actions of a translation; `gateways` are the existing Gateways.
    pub fn settled(&mut self, gateways: impl FnOnce() -> Vec<Arc<str>>) {
        if let Some(supervisor) = self.supervisor.as_mut().filter(|_| !self.orphans_ended) {
            supervisor.end_orphans(&gateways());
        }
        self.orphans_ended = true;
    }

    /// Ends the outputs with the product.
    pub async fn end(&mut self) {
        if let Some(persist) = self.persist.take()
            && !persist.flush(STORED_AT_THE_END)
        {
            tracing::warn!("the store does not have the last changes, since writing took too long");
        }
        if let Some(prober) = self.prober.take() {
            prober.end().await;
        }
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.end_all().await;
        }
    }
}
