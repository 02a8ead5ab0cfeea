//! Protocol between Holdfast and `holdfast probe`, over a unix socket in a shared folder.
//!
//! Each connection is one probe: the first line is its node id, `holdfast probe` starts the probe and reports the
//! start, and reports its end. When the connection ends, in whatever way, the probe is killed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use holdfast_envoy::bootstrap::address::socket_path;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, Take};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Maximum number of bytes that one side may send on a connection: a few lines.
const PROBE_LINES_BYTES_MAX: u64 = 64 * 1024;

/// A message of `holdfast probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProbeMessage {
    /// The probe runs.
    Started { pid: u32, version: String },
    /// The probe cannot be started, for this reason.
    Failed(String),
    /// The probe has ended, in this way.
    Ended(String),
}

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct ProbeConnection {
    reader: Lines<BufReader<Take<OwnedReadHalf>>>,
    writer: OwnedWriteHalf,
}

impl ProbeConnection {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let (read, writer) = stream.into_split();
        Self { reader: BufReader::new(read.take(PROBE_LINES_BYTES_MAX)).lines(), writer }
    }

    /// The next line; `None` if the peer is gone. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Option<String> {
        self.reader.next_line().await.ok().flatten()
    }

    pub(crate) async fn send(&mut self, line: &str) -> Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.context("the peer is gone")
    }

    /// Closes the sending direction; lines can still be received.
    pub(crate) async fn fall_silent(&mut self) {
        // An error means that it is already closed.
        let _ = self.writer.shutdown().await;
    }
}

/// The socket of `holdfast probe`.
pub(crate) fn probe_socket(folder: &Path) -> Result<PathBuf> {
    in_folder(folder, "keeper.sock")
}

/// The socket of the probe's xDS server.
pub(crate) fn xds_socket(folder: &Path) -> Result<PathBuf> {
    in_folder(folder, "xds.sock")
}

fn in_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    socket_path(&folder.join(name).to_string_lossy()).map_err(|why| {
        anyhow::anyhow!("{}: the path is too long for the unix sockets in this folder: {why}", folder.display())
    })
}
