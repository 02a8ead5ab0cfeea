//! Requests to the API server with the rights of an administrator, without a process for each: JSON in, JSON out.

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use kube::{Client, Config, Error};
use serde_json::Value;

use super::Cluster;

/// A client of the API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Api")
    }
}

impl Api {
    /// Returns a client of a cluster.
    pub async fn of(cluster: &Cluster) -> Result<Self> {
        let file = Kubeconfig::read_from(cluster.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self { client: Client::try_from(config)? })
    }

    /// Returns the objects at a path.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.send(Method::GET, path, None).await?.with_context(|| format!("{path}: not found"))?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the text at a path, as of the metrics of the API server.
    pub async fn text(&self, path: &str) -> Result<String> {
        let request = Request::builder().uri(path).body(Vec::new())?;
        self.client.request_text(request).await.with_context(|| format!("GET {path}"))
    }

    /// Opens a watch of the objects at a path: first all of them arrive, then each one that is created or changed.
    pub async fn watch(&self, path: &str) -> Result<impl Stream<Item = Result<Value>> + use<>> {
        let request = Request::builder().uri(format!("{path}?watch=true")).body(Vec::new())?;
        let events = self.client.request_events(request).await.with_context(|| format!("watch {path}"))?;
        Ok(events.filter_map(async |event| changed(event).transpose()))
    }

    /// Creates an object at a path; returns `None` if it exists, or what it belongs to does not exist any more.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Option<Value>> {
        self.send(Method::POST, path, Some(("application/json", object))).await
    }

    /// Applies a merge patch to the object at a path; returns `None` if it does not exist any more.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Option<Value>> {
        self.send(Method::PATCH, path, Some(("application/merge-patch+json", patch))).await
    }

    /// Deletes the object at a path with these options; returns `None` if it does not exist any more.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Option<Value>> {
        self.send(Method::DELETE, path, Some(("application/json", options))).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Option<Value>> {
        let what = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path);
        let mut bytes = Vec::new();
        if let Some((kind, body)) = body {
            request = request.header(CONTENT_TYPE, kind);
            bytes = serde_json::to_vec(body)?;
        }
        match self.client.request(request.body(bytes)?).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error).context(what),
        }
    }
}

/// Returns the object of an event, unless it is deleted.
fn changed(event: Result<WatchEvent<Value>, Error>) -> Result<Option<Value>> {
    match event? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Some(object)),
        WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => Ok(None),
        WatchEvent::Error(status) => bail!("the API server reports {status:?}"),
    }
}
