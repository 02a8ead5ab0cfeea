//! What an edit needs to a client of the API server without Holdfast: a bare watch in this process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{Stream, TryStreamExt};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::api_server::{ApiServer, ROUTES};
use crate::fixture::Fixture;
use crate::floors::{LIMIT, PAUSE, without_first};
use crate::objects::Edited;

/// Returns the times from the request of an edit until the watch of all routes has its event.
pub(crate) async fn notices(
    fixture: &Fixture<'_>,
    server: &ApiServer,
    edited: &mut Edited,
    rounds: usize,
) -> Result<Vec<Duration>> {
    let watch = server.api.watch(ROUTES).await?;
    futures::pin_mut!(watch);
    let mut times = Vec::new();
    for _ in 0..=rounds {
        edited.value += 1;
        let value = edited.header();
        let arrival = async { timeout(LIMIT, until(&mut watch, &value)).await.context("no event of an edit")? };
        let (written, arrived) = tokio::try_join!(fixture.edit(edited), arrival)?;
        times.push(arrived - written.began);
        sleep(PAUSE).await;
    }
    Ok(without_first(times))
}

/// Receives events until an object has this value; returns when it arrived.
async fn until(watch: &mut (impl Stream<Item = Result<Value>> + Unpin), value: &str) -> Result<Instant> {
    while let Some(object) = watch.try_next().await? {
        let at = Instant::now();
        if object["spec"].to_string().contains(value) {
            return Ok(at);
        }
    }
    bail!("the API server ended the watch")
}
