//! Does what the engine says: hands configurations to the xDS server and Envoys to their keeper.

use std::sync::Arc;

use holdfast_store::Batch;
use holdfast_xds::{Fleets, Offers};

use crate::run::envoy::Keeper;
use crate::trial::Trial;

/// Where actions go.
#[derive(Debug)]
pub struct Outputs {
    fleets: Fleets,
    /// `None` where somebody else starts Envoys.
    keeper: Option<Keeper>,
    strangers_ended: bool,
}

impl Outputs {
    /// Configurations go to the fleets; a keeper, where there is one, has an Envoy for each Gateway.
    pub fn new(fleets: Fleets, keeper: Option<Keeper>) -> Self {
        Self { fleets, keeper, strangers_ended: false }
    }

    /// The Envoys of a Gateway are to have this from now on.
    pub fn publish(&mut self, gateway: &Arc<str>, offers: Offers) {
        self.fleets.publish(gateway, offers);
        if let Some(keeper) = &mut self.keeper {
            keeper.start(gateway);
        }
    }

    /// Contents go to the probe.
    pub fn try_out(&mut self, trials: Vec<Trial>) {
        drop(trials);
    }

    /// What is decided is stored.
    pub fn store(&mut self, batch: Batch) {
        drop(batch);
    }

    /// The Gateway is gone.
    pub fn withdraw(&mut self, gateway: &Arc<str>) {
        tracing::info!(%gateway, "the Gateway is gone");
        self.fleets.withdraw(gateway);
        if let Some(keeper) = &mut self.keeper {
            keeper.end(gateway);
        }
    }

    /// All actions of a translation were done.
    pub fn settled(&mut self) {
        if let Some(keeper) = self.keeper.as_mut().filter(|_| !self.strangers_ended) {
            keeper.end_strangers();
        }
        self.strangers_ended = true;
    }

    /// The product ends.
    pub async fn end(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.end_all().await;
        }
    }
}
