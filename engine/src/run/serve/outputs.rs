//! Does what the engine says: hands configurations to the xDS server, Envoys to their keeper, contents to the probe, and
//! what is to be remembered to the store.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_store::Batch;
use holdfast_xds::{EnvoyId, Fleets, Offers};

use crate::health::facts::Managed;
use crate::run::envoy::{Keeper, ManagedEnvoy};
use crate::run::probe::{NotTaken, Prober};
use crate::run::shared::task::Outbox;
use crate::run::store::persist::Persist;
use crate::trial::{Outcome, Trial, Tried};

/// How long what rests on a verdict may wait for the verdict to be on the disk.
const STORED_WITHIN: Duration = Duration::from_millis(50);
/// How long the last of what is to be stored may take when the product ends.
const STORED_AT_THE_END: Duration = Duration::from_secs(2);

/// Where actions go.
pub struct Outputs {
    fleets: Fleets,
    /// `None` where somebody else starts Envoys.
    keeper: Option<Keeper>,
    /// `None` where there is no probe.
    prober: Option<Prober>,
    /// `None` where nothing can be stored.
    persist: Option<Arc<Persist>>,
    /// `None` where there is one replica only.
    outbox: Option<Outbox>,
    strangers_ended: bool,
}

impl Outputs {
    /// Configurations go to the fleets; a keeper, where there is one, has an Envoy for each Gateway.
    pub fn new(fleets: Fleets, keeper: Option<Keeper>, persist: Option<Arc<Persist>>) -> Self {
        Self { fleets, keeper, prober: None, persist, outbox: None, strangers_ended: false }
    }

    /// Streams of Envoys that are open, by Gateway.
    pub fn connected(&self) -> BTreeMap<Arc<str>, usize> {
        self.fleets.connected().into_iter().map(|(fleet, count)| (fleet.into(), count)).collect()
    }

    /// The oldest response of each stream that its Envoy has not answered.
    pub fn unanswered(&self) -> Vec<holdfast_xds::Unanswered> {
        self.fleets.unanswered()
    }

    /// An Envoy has connected.
    pub fn envoy_connected(&self, envoy: &EnvoyId) {
        if let Some(keeper) = &self.keeper {
            keeper.connected(envoy);
        }
    }

    /// Managed Envoys, by Gateway.
    pub fn managed(&self) -> BTreeMap<Arc<str>, Managed> {
        let Some(keeper) = &self.keeper else { return BTreeMap::new() };
        let views = keeper.views();
        let views = views.lock().unwrap_or_else(PoisonError::into_inner);
        let managed = |view: &ManagedEnvoy| {
            let serves = view.was_connected || view.adopted;
            (view.gateway.clone(), Managed { state: view.state.to_owned(), serves })
        };
        views.values().map(managed).collect()
    }

    /// Why nothing can be stored at the moment.
    pub fn store_failing(&self) -> Option<String> {
        self.persist.as_ref().and_then(|persist| persist.persisted().failing)
    }

    /// From now on there is a probe, where one is given.
    pub fn use_probe(&mut self, prober: Option<Prober>) {
        self.prober = prober;
    }

    /// From now on what is stored is shared too.
    pub fn share(&mut self, outbox: Outbox) {
        self.outbox = Some(outbox);
    }

    fn post(&self, batch: &Batch) {
        if let Some(outbox) = self.outbox.as_ref().filter(|_| !batch.is_empty()) {
            // It ends only when the product does.
            let _ = outbox.send(batch.clone());
        }
    }

    /// The Envoys of a Gateway are to have this from now on.
    pub fn publish(&mut self, gateway: &Arc<str>, offers: Offers) {
        self.fleets.publish(gateway, offers);
        if let Some(keeper) = &mut self.keeper {
            keeper.start(gateway);
        }
    }

    /// Contents go to the probe; those that are not taken are answered at once, without a verdict.
    pub fn try_out(&mut self, trials: Vec<Trial>) -> Vec<Tried> {
        let left = match &self.prober {
            Some(prober) => prober.submit(trials).err().map(|NotTaken(trials)| trials).unwrap_or_default(),
            None => trials,
        };
        left.into_iter().map(|trial| Tried { id: trial.id, outcome: Outcome::Unavailable }).collect()
    }

    /// Verdicts are on the disk before what rests on them is published; the wait has an end.
    pub fn store_first(&mut self, batch: Batch) {
        self.post(&batch);
        let Some(persist) = &self.persist else { return };
        persist.commit(batch);
        if !persist.flush(STORED_WITHIN) {
            tracing::debug!("verdicts are not on the disk yet; what rests on them is served all the same");
        }
    }

    /// Stores something soon.
    pub fn store(&mut self, batch: Batch) {
        self.post(&batch);
        if let Some(persist) = &self.persist {
            persist.commit(batch);
        }
    }

    /// The Gateway is gone.
    pub fn withdraw(&mut self, gateway: &Arc<str>) {
        tracing::info!(%gateway, "the Gateway is gone");
        self.fleets.withdraw(gateway);
        if let Some(keeper) = &mut self.keeper {
            keeper.end(gateway);
        }
    }

    /// All actions of a translation were done; these Gateways are there.
    pub fn settled(&mut self, gateways: impl FnOnce() -> Vec<Arc<str>>) {
        if let Some(keeper) = self.keeper.as_mut().filter(|_| !self.strangers_ended) {
            keeper.end_strangers(&gateways());
        }
        self.strangers_ended = true;
    }

    /// The product ends.
    pub async fn end(&mut self) {
        if let Some(persist) = self.persist.take()
            && !persist.flush(STORED_AT_THE_END)
        {
            tracing::warn!("not everything is on the disk");
        }
        if let Some(prober) = self.prober.take() {
            prober.end().await;
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.end_all().await;
        }
    }
}
