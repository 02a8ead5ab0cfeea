//! HTTP endpoints of a running Holdfast: diagnostics on one listener, metrics and health on another.
//!
//! All endpoints are read-only, except that of the level of the log; no content of a Secret appears in them.

pub mod certificate_metrics;
pub mod debug;
mod diff;
mod door;
mod entries;
mod envoys;
mod explain;
pub mod fallback_metrics;
pub mod input_metrics;
mod log_level;
pub mod metrics;
pub mod namespace_metrics;
mod pages;
mod process;
mod register;
pub mod shared_metrics;
pub mod webhook_metrics;

use std::sync::Arc;

use axum::Router;
pub use door::ConnectionLimits;
pub(crate) use envoys::{EnvoyRow, connected};
use holdfast_xds::{Fleets, TlsSource};
pub(crate) use pages::explanation;
pub use pages::{debug_pages, metrics_pages};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::metrics::Metrics;
use super::envoy::supervisor::Views;
use super::log::RuntimeLogLevel;
use super::serve::core::CoreHandle;
use super::serve::health::Readiness;
use super::store::persist::Persist;

/// The data sources of the pages.
#[derive(Clone)]
pub struct State {
    /// Sends queries to the main loop.
    pub handle: CoreHandle,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Checks.
    pub health: Arc<Readiness>,
    /// The connected Envoys.
    pub fleets: Fleets,
    /// The managed Envoys, if there are any.
    pub envoys: Option<Views>,
    /// The persistence of the store, if there is a store.
    pub store: Option<Arc<Persist>>,
    /// Held during a comparison of `/debug/diff`, which translates objects once more: one at a time.
    pub comparison: Arc<tokio::sync::Mutex<()>>,
    /// The level of the log.
    pub(crate) log_level: RuntimeLogLevel,
}

/// Serves pages until the product ends.
pub async fn serve(listener: TcpListener, pages: Router, places: ConnectionLimits, ending: watch::Receiver<bool>) {
    door::take(listener, None, pages, places, ending).await;
}

/// Serves pages over TLS until the product ends.
pub(crate) async fn serve_tls(
    listener: TcpListener,
    tls: TlsSource,
    pages: Router,
    places: ConnectionLimits,
    ending: watch::Receiver<bool>,
) {
    door::take(listener, Some(tls), pages, places, ending).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
