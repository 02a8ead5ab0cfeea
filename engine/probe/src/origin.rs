//! Origin of the probe: a process that Holdfast starts itself, or one in a separate container.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::beside::Beside;
use crate::envoy::EnvoyBinary;
use crate::folders;
use crate::process::{self, ProbeProcess};

/// The starter of the probe.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Holdfast, from production's binary.
    Here(EnvoyBinary),
    /// `holdfast probe` in another container, which shares this folder.
    Beside(PathBuf),
}

impl Origin {
    /// The folder of the probe's sockets, which is created unless another container shares it.
    pub(crate) fn folder(&self, data: &Path) -> Result<PathBuf> {
        match self {
            Origin::Here(_) => {
                let folder = data.join("probe");
                folders::create_private(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
                Ok(folder)
            }
            Origin::Beside(folder) => Ok(folder.clone()),
        }
    }

    /// Ends the probe of an earlier run. A probe in a separate container ends by itself when its connection closes.
    pub(crate) async fn end_left_behind(&self, folder: &Path) {
        if let Origin::Here(_) = self {
            process::end_left_behind(folder).await;
        }
    }

    /// Starts a probe. `node` is its `node.id`.
    pub(crate) async fn start(&self, folder: &Path, socket: &Path, node: &str) -> Result<RunningProbe> {
        match self {
            Origin::Here(binary) => Ok(RunningProbe::Here(ProbeProcess::start(binary, folder, socket, node)?)),
            Origin::Beside(folder) => Ok(RunningProbe::Beside(Beside::start(folder, node).await?)),
        }
    }
}

/// A running probe.
#[derive(Debug)]
pub(crate) enum RunningProbe {
    Here(ProbeProcess),
    Beside(Beside),
}

impl RunningProbe {
    /// The process id, for a separate container within that container.
    pub(crate) fn pid(&self) -> u32 {
        match self {
            RunningProbe::Here(process) => process.pid(),
            RunningProbe::Beside(beside) => beside.pid(),
        }
    }

    /// The version of its Envoy, as in `1.40.0`.
    pub(crate) fn version(&self) -> Arc<str> {
        match self {
            RunningProbe::Here(process) => process.version(),
            RunningProbe::Beside(beside) => beside.version(),
        }
    }

    /// Waits until the probe has ended; returns how it ended.
    pub(crate) async fn ended(&mut self) -> String {
        match self {
            RunningProbe::Here(process) => process.ended().await,
            RunningProbe::Beside(beside) => beside.ended().await,
        }
    }

    /// Ends the probe in order.
    pub(crate) async fn end(self, folder: &Path) {
        match self {
            RunningProbe::Here(process) => process.end(folder).await,
            RunningProbe::Beside(beside) => beside.end().await,
        }
    }

    /// Kills the probe, which may be in a state in which it ignores signals.
    pub(crate) async fn kill(self, folder: &Path) {
        match self {
            RunningProbe::Here(process) => process.kill(folder).await,
            RunningProbe::Beside(beside) => beside.end().await,
        }
    }
}
