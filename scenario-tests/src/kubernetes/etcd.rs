//! Direct requests to etcd, without the API server.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};

use crate::request::get;

async fn post(port: u16, path: &str, body: Value) -> Result<Value> {
    let reply = get(port, path).host("localhost").method(Method::POST).body(body.to_string()).send().await?;
    ensure!(reply.status.is_success(), "{path}: {}: {}", reply.status, reply.body);
    serde_json::from_str(&reply.body).with_context(|| format!("{path} answers {}", reply.body))
}

/// Compacts etcd: removes every version of every key except the newest.
pub(super) async fn compact(port: u16) -> Result<()> {
    let newest = post(port, "/v3/kv/range", json!({ "key": "AA==", "limit": "1" })).await?;
    let revision = newest["header"]["revision"].as_str().context("no revision")?.to_owned();
    post(port, "/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await.map(drop)
}
