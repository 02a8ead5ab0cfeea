//! A probe in a container beside this one, started and killed by its keeper, `holdfast probe`.
//!
//! What it does to memory and processors there is no trouble of Holdfast's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::words::{Word, Words, keeper_socket};

/// How long the keeper may take to start a probe.
const START_MAX: Duration = Duration::from_secs(10);
/// How long it may take to kill one.
const END_MAX: Duration = Duration::from_secs(5);

/// A probe that runs beside.
#[derive(Debug)]
pub(super) struct Beside {
    words: Words,
    pid: u32,
    version: Arc<str>,
}

impl Beside {
    /// Has one started.
    pub(super) async fn start(folder: &Path, node: &str) -> Result<Self> {
        let socket = keeper_socket(folder)?;
        let stream = UnixStream::connect(&socket);
        let stream = stream.await.with_context(|| format!("nobody keeps a probe at {}", socket.display()))?;
        let mut words = Words::new(stream);
        words.say(node).await?;
        let heard = timeout(START_MAX, words.hear()).await.context("the keeper of the probe says nothing")?;
        match serde_json::from_str(&heard.context("the keeper of the probe is gone")?)? {
            Word::Started { pid, version } => Ok(Self { words, pid, version: version.into() }),
            Word::Failed(why) | Word::Ended(why) => bail!("{why}"),
        }
    }

    /// Its process id, in its container.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The version of its Envoy.
    pub(super) fn version(&self) -> Arc<str> {
        self.version.clone()
    }

    /// Waits until it has ended; says how.
    pub(super) async fn ended(&mut self) -> String {
        let heard = self.words.hear().await;
        match heard.and_then(|line| serde_json::from_str(&line).ok()) {
            Some(Word::Ended(how)) => how,
            _ => "its keeper is gone".into(),
        }
    }

    /// Has it killed.
    pub(super) async fn end(mut self) {
        self.words.fall_silent().await;
        if timeout(END_MAX, self.ended()).await.is_err() {
            tracing::warn!("the keeper of the probe does not say that it has ended");
        }
    }
}
