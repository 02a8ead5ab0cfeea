//! The stage of the demo: back ends, a folder of manifests, an Envoy, and `holdfast run`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::Child;

use super::manifests;
use super::processes::{self, Start};
use crate::run::echo::{Echo, EchoOptions};
use crate::run::envoy::find;

/// The port of the Gateway, where it is free.
const PORT: u16 = 8080;

/// Everything that runs.
pub(super) struct Stage {
    folder: TempDir,
    shop: Echo,
    checkout: Echo,
    start: Start,
    holdfast: Child,
    envoy: Child,
    /// Where the Gateway listens.
    pub(super) gateway: SocketAddr,
    /// Envoy's admin interface.
    pub(super) admin: SocketAddr,
}

impl Stage {
    /// Starts everything.
    pub(super) async fn build() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir().context("cannot make a folder")?;
        let shop = Echo::start(EchoOptions::new("shop", "shop", "shop-1")).await?;
        let checkout = Echo::start(EchoOptions::new("checkout", "checkout", "checkout-1")).await?;
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

    /// Where diagnostics are served.
    pub(super) fn diagnostics(&self) -> SocketAddr {
        self.start.diagnostics
    }

    /// The folder of manifests.
    pub(super) fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// How many requests the shop's back end has received.
    pub(super) fn received_by_shop(&self) -> u64 {
        self.shop.received()
    }

    /// Edits the shop team's route.
    pub(super) fn edit_shop(&self, version: u32) -> anyhow::Result<()> {
        self.apply("shop.yaml", &manifests::shop(self.shop.address(), version))
    }

    /// Edits the checkout team's route.
    pub(super) fn edit_checkout(&self, version: u32, regex: &str) -> anyhow::Result<()> {
        self.apply("checkout.yaml", &manifests::checkout(self.checkout.address(), version, regex))
    }

    /// The checkout team applies one more route.
    pub(super) fn add_refunds(&self) -> anyhow::Result<()> {
        self.apply("refunds.yaml", &manifests::refunds())
    }

    /// It deletes a manifest.
    pub(super) fn delete(&self, name: &str) -> anyhow::Result<()> {
        fs::remove_file(self.manifests().join(name)).context("cannot delete the manifest")
    }

    /// As `kubectl apply` would: at once.
    fn apply(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let written = self.manifests().join(format!("{name}.new"));
        fs::write(&written, text)?;
        fs::rename(written, self.manifests().join(name)).context("cannot edit the manifest")
    }

    /// Kills `holdfast run`.
    pub(super) async fn kill_holdfast(&mut self) {
        // Where it has ended already there is nothing to do.
        let _ = self.holdfast.kill().await;
    }

    /// Starts it again, with the same data folder.
    pub(super) fn start_holdfast(&mut self) -> anyhow::Result<()> {
        self.holdfast = self.start.holdfast()?;
        Ok(())
    }

    /// What `holdfast run` has logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends everything.
    pub(super) async fn clear(&mut self) {
        processes::end(&mut self.envoy).await;
        processes::end(&mut self.holdfast).await;
    }
}

/// The wanted port where it is free, else any.
fn free(wanted: u16) -> anyhow::Result<SocketAddr> {
    let bound =
        TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    Ok(bound.context("no port is free")?.local_addr()?)
}
