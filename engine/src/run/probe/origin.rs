//! Where the probe comes from: a process that Holdfast starts itself, or one in a container beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::beside::Beside;
use super::process::{self, Process};
use crate::run::data;
use crate::run::envoy::EnvoyBinary;

/// Who starts the probe.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Holdfast, from production's binary.
    Here(EnvoyBinary),
    /// `holdfast probe` in another container, which shares this folder.
    Beside(PathBuf),
}

impl Origin {
    /// The folder of the probe's sockets, which is made where it is ours.
    pub(super) fn folder(&self, data: &Path) -> Result<PathBuf> {
        match self {
            Origin::Here(_) => {
                let folder = data.join("probe");
                data::create_private(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
                Ok(folder)
            }
            Origin::Beside(folder) => Ok(folder.clone()),
        }
    }

    /// Ends what an earlier run left behind. A probe beside ends by itself when nobody wants it.
    pub(super) async fn end_left_behind(&self, folder: &Path) {
        if let Origin::Here(_) = self {
            process::end_left_behind(folder).await;
        }
    }

    /// Starts one. `node` is its `node.id`.
    pub(super) async fn start(&self, folder: &Path, socket: &Path, node: &str) -> Result<Running> {
        match self {
            Origin::Here(binary) => Ok(Running::Here(Process::start(binary, folder, socket, node)?)),
            Origin::Beside(folder) => Ok(Running::Beside(Beside::start(folder, node).await?)),
        }
    }
}

/// A probe that runs.
#[derive(Debug)]
pub(super) enum Running {
    Here(Process),
    Beside(Beside),
}

impl Running {
    /// Its process id; one of a container's own where it is beside.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Running::Here(process) => process.pid(),
            Running::Beside(beside) => beside.pid(),
        }
    }

    /// The version of its Envoy, as in `1.40.0`.
    pub(super) fn version(&self) -> Arc<str> {
        match self {
            Running::Here(process) => process.version(),
            Running::Beside(beside) => beside.version(),
        }
    }

    /// Waits until it has ended; says how.
    pub(super) async fn ended(&mut self) -> String {
        match self {
            Running::Here(process) => process.ended().await,
            Running::Beside(beside) => beside.ended().await,
        }
    }

    /// Ends it in order.
    pub(super) async fn end(self, folder: &Path) {
        match self {
            Running::Here(process) => process.end(folder).await,
            Running::Beside(beside) => beside.end().await,
        }
    }

    /// Ends it at once: it may be in a state in which it hears nothing.
    pub(super) async fn kill(self, folder: &Path) {
        match self {
            Running::Here(process) => process.kill(folder).await,
            Running::Beside(beside) => beside.end().await,
        }
    }
}
