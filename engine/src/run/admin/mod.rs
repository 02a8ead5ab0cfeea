//! What people and tools ask a running Holdfast over HTTP: diagnostics on one listener, metrics and health on another.
//!
//! Reading only: nothing here changes anything, and no secret's content appears anywhere.

pub mod debug;
mod door;
pub mod fallback_metrics;
pub mod input_metrics;
pub mod metrics;
pub mod namespace_metrics;
mod pages;
pub mod shared_metrics;

pub use door::Places;
pub use pages::{debug_pages, metrics_pages};

use std::sync::Arc;

use axum::Router;
use holdfast_xds::Fleets;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::metrics::Metrics;
use super::envoy::keeper::Views;
use super::serve::core::Asker;
use super::serve::health::Health;
use super::store::persist::Persist;

/// What the pages are made from.
#[derive(Clone)]
pub struct State {
    /// Asks the main loop.
    pub asker: Asker,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Checks.
    pub health: Arc<Health>,
    /// The connected Envoys.
    pub fleets: Fleets,
    /// The managed Envoys, where there are such.
    pub envoys: Option<Views>,
    /// What stores, where something can be stored.
    pub store: Option<Arc<Persist>>,
}

/// Serves pages until the product ends.
pub async fn serve(listener: TcpListener, pages: Router, places: Places, ending: watch::Receiver<bool>) {
    door::take(listener, pages, places, ending).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
