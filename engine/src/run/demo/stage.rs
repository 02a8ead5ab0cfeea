//! The stage of the demo: back ends, a folder of manifests, and `holdfast run` as a process.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::manifests::{self, Checkout};
use crate::run::echo::{Echo, EchoOptions};

/// The port of the Gateway, where it is free.
const PORT: u16 = 8080;
/// How long Holdfast and its Envoy may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Everything that runs.
pub(super) struct Stage {
    folder: TempDir,
    shop: Echo,
    checkout: Echo,
    holdfast: Child,
    /// Where the Gateway listens.
    pub(super) gateway: SocketAddr,
    /// Where diagnostics are served.
    pub(super) diagnostics: SocketAddr,
}

impl Stage {
    /// Starts everything.
    pub(super) async fn build() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir().context("cannot make a folder")?;
        let shop = Echo::start(EchoOptions::new("shop", "shop", "shop-1")).await?;
        let checkout = Echo::start(EchoOptions::new("checkout", "checkout", "checkout-1")).await?;
        let gateway = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port(PORT)?));
        let (diagnostics, metrics) = (free_port(0)?, free_port(0)?);
        let diagnostics = SocketAddr::from((Ipv4Addr::LOCALHOST, diagnostics));
        let manifests = folder.path().join("manifests");
        fs::create_dir(&manifests)?;
        fs::write(manifests.join("platform.yaml"), manifests::platform(gateway.port()))?;
        fs::write(manifests.join("shop.yaml"), manifests::shop(shop.address()))?;
        fs::write(manifests.join("checkout.yaml"), manifests::checkout(checkout.address(), Checkout::Fine))?;
        let log = fs::File::create(folder.path().join("log"))?;
        let holdfast = Command::new(std::env::current_exe().context("cannot find this program")?)
            .arg("run")
            .arg("--manifests")
            .arg(&manifests)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--envoy", "managed", "--diagnostics-listen", &diagnostics.to_string()])
            .args(["--metrics-listen", &format!("127.0.0.1:{metrics}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for the demo, which ends what it started.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start holdfast run")?;
        Ok(Self { folder, shop, checkout, holdfast, gateway, diagnostics })
    }

    /// The folder of manifests.
    pub(super) fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// How many requests the shop's back end has received.
    pub(super) fn received_by_shop(&self) -> u64 {
        self.shop.received()
    }

    /// Edits the checkout team's route, as `kubectl apply` would: at once.
    pub(super) fn edit(&self, state: Checkout) -> anyhow::Result<()> {
        let text = manifests::checkout(self.checkout.address(), state);
        let written = self.manifests().join("checkout.yaml.new");
        fs::write(&written, text)?;
        fs::rename(written, self.manifests().join("checkout.yaml")).context("cannot edit the manifest")
    }

    /// What `holdfast run` has logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends everything.
    pub(super) async fn clear(&mut self) {
        let pid = self.holdfast.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Where it has ended already there is nothing to do.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if tokio::time::timeout(END_TIMEOUT, self.holdfast.wait()).await.is_err() {
            let _ = self.holdfast.kill().await;
        }
    }
}

/// The wanted port where it is free, else any.
fn free_port(wanted: u16) -> anyhow::Result<u16> {
    let bound =
        TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    Ok(bound.context("no port is free")?.local_addr()?.port())
}
