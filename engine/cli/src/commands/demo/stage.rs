//! Stage of the demo: backends, a folder of manifests, an Envoy, and `holdfast run`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use holdfast_probe::envoy::find;
use tempfile::TempDir;
use tokio::process::Child;

use super::backend::DemoBackend;
use super::manifests;
use super::processes::{self, Start};

/// The port of the Gateway, if it is free.
const PORT: u16 = 8080;

/// All processes and servers of the demo.
pub(super) struct DemoStage {
    folder: TempDir,
    shop: DemoBackend,
    checkout: DemoBackend,
    start: Start,
    holdfast: Child,
    envoy: Child,
    /// The listen address of the Gateway.
    pub(super) gateway: SocketAddr,
    /// The address of Envoy's admin interface.
    pub(super) admin: SocketAddr,
}

impl DemoStage {
    /// Starts everything.
    pub(super) async fn build() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir().context("cannot make a folder")?;
        let shop = DemoBackend::start("shop-1").await?;
        let checkout = DemoBackend::start("checkout-1").await?;
        let (gateway, admin) = (free(PORT)?, free(0)?);
        let start = Start { folder: folder.path().to_owned(), diagnostics: free(0)?, metrics: free(0)? };
        let manifests = folder.path().join("manifests");
        fs::create_dir(&manifests)?;
        fs::write(manifests.join("platform.yaml"), manifests::platform(gateway.port()))?;
        fs::write(manifests.join("shop.yaml"), manifests::shop(shop.address(), 1))?;
        fs::write(
            manifests.join("checkout.yaml"),
            manifests::checkout(checkout.address(), 1, "/checkout/orders/[0-9]+"),
        )?;
        let binary = tokio::task::spawn_blocking(find::find).await.context("cannot look for an Envoy")??;
        let holdfast = start.holdfast()?;
        let envoy = processes::envoy(&binary.path, folder.path(), admin)?;
        Ok(Self { folder, shop, checkout, start, holdfast, envoy, gateway, admin })
    }

    /// The address of diagnostics.
    pub(super) fn diagnostics(&self) -> SocketAddr {
        self.start.diagnostics
    }

    /// The folder of manifests.
    pub(super) fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// The number of requests that the shop's backend has received.
    pub(super) fn received_by_shop(&self) -> u64 {
        self.shop.received()
    }

    /// Edits the route of the shop team.
    pub(super) fn edit_shop(&self, version: u32) -> anyhow::Result<()> {
        self.apply("shop.yaml", &manifests::shop(self.shop.address(), version))
    }

    /// Edits the route of the checkout team.
    pub(super) fn edit_checkout(&self, version: u32, regex: &str) -> anyhow::Result<()> {
        self.apply("checkout.yaml", &manifests::checkout(self.checkout.address(), version, regex))
    }

    /// Adds another route of the checkout team.
    pub(super) fn add_refunds(&self) -> anyhow::Result<()> {
        self.apply("refunds.yaml", &manifests::refunds())
    }

    /// Deletes a manifest.
    pub(super) fn delete(&self, name: &str) -> anyhow::Result<()> {
        fs::remove_file(self.manifests().join(name)).context("cannot delete the manifest")
    }

    /// Writes a manifest atomically, as `kubectl apply` would.
    fn apply(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let written = self.manifests().join(format!("{name}.new"));
        fs::write(&written, text)?;
        fs::rename(written, self.manifests().join(name)).context("cannot edit the manifest")
    }

    /// Kills `holdfast run`.
    pub(super) async fn kill_holdfast(&mut self) {
        // If the process has already ended, there is nothing to do.
        let _ = self.holdfast.kill().await;
    }

    /// Starts `holdfast run` again, with the same data folder.
    pub(super) fn start_holdfast(&mut self) -> anyhow::Result<()> {
        self.holdfast = self.start.holdfast()?;
        Ok(())
    }

    /// The log of `holdfast run`.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends all processes.
    pub(super) async fn clear(&mut self) {
        processes::end(&mut self.envoy).await;
        processes::end(&mut self.holdfast).await;
    }
}

/// The wanted port if it is free, else any free port.
fn free(wanted: u16) -> anyhow::Result<SocketAddr> {
    let bound =
        TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    Ok(bound.context("no port is free")?.local_addr()?)
}
