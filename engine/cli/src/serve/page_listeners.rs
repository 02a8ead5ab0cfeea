//! Listeners of the pages: diagnostics on one, metrics and health on the other.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::{self, ConnectionLimits, State};
use crate::commands::run::RunArgs;

/// The listeners; each is `None` if its flag is `none`.
pub(super) struct PageListeners {
    diagnostics: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl PageListeners {
    /// Binds the addresses of the flags.
    pub(super) async fn bind(args: &RunArgs) -> anyhow::Result<Self> {
        let diagnostics = bind("--diagnostics-listen", args.diagnostics_listen.0).await?;
        if let Some(address) = args.diagnostics_listen.0.filter(|address| !address.ip().is_loopback()) {
            tracing::warn!(%address, "--diagnostics-listen: any client that reaches this address can read the whole \
                                      configuration");
        }
        Ok(Self { diagnostics, metrics: bind("--metrics-listen", args.metrics_listen.0).await? })
    }

    /// Serves the pages until the product ends, with at most `places` connections of each listener.
    pub(super) fn serve(self, state: State, places: ConnectionLimits, ending: &watch::Receiver<bool>) -> JoinSet<()> {
        let mut servers = JoinSet::new();
        if let Some(listener) = self.diagnostics {
            servers.spawn(admin::serve(listener, admin::debug_pages(state.clone()), places, ending.clone()));
        }
        if let Some(listener) = self.metrics {
            servers.spawn(admin::serve(listener, admin::metrics_pages(state), places, ending.clone()));
        }
        servers
    }
}

/// Binds the address of a flag.
async fn bind(flag: &str, address: Option<SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("{flag} {address}: cannot listen on this address (choose another address, or none)")
    })?;
    Ok(Some(listener))
}
