//! What Holdfast and the keeper of a probe beside it say to each other, over a unix socket in a folder that both have.
//!
//! A connection is a probe: the first line names its node, the keeper starts it and says so, and says when it has ended.
//! Where the connection ends, however it does, the probe is killed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, Take};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::run::arguments::socket_path;

/// Bytes that one may say in a connection: a few lines.
const BYTES_MAX: u64 = 64 * 1024;

/// What a keeper says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Word {
    /// The probe runs.
    Started { pid: u32, version: String },
    /// It cannot be started, for this reason.
    Failed(String),
    /// It has ended, like this.
    Ended(String),
}

/// A connection. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Words {
    heard: Lines<BufReader<Take<OwnedReadHalf>>>,
    said: OwnedWriteHalf,
}

impl Words {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (read, said) = stream.into_split();
        Self { heard: BufReader::new(read.take(BYTES_MAX)).lines(), said }
    }

    /// The next line; none where the other one has gone. May be asked anew after it was not waited for to the end.
    pub(super) async fn hear(&mut self) -> Option<String> {
        self.heard.next_line().await.ok().flatten()
    }

    pub(super) async fn say(&mut self, line: &str) -> Result<()> {
        self.said.write_all(format!("{line}\n").as_bytes()).await.context("nobody listens")
    }

    /// Says no more; what is said to us is heard still.
    pub(super) async fn fall_silent(&mut self) {
        // Where it cannot be shut down it is down.
        let _ = self.said.shutdown().await;
    }
}

/// The socket of the keeper.
pub(super) fn keeper_socket(folder: &Path) -> Result<PathBuf> {
    in_folder(folder, "keeper.sock")
}

/// The socket of the probe's xDS server.
pub(super) fn xds_socket(folder: &Path) -> Result<PathBuf> {
    in_folder(folder, "xds.sock")
}

fn in_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    socket_path(&folder.join(name).to_string_lossy())
        .map_err(|why| anyhow::anyhow!("{}: too long for the sockets in it: {why}", folder.display()))
}
