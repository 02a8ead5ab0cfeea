//! The objects of a measurement in an API server: a kube-apiserver with its etcd, for one number of routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use holdfast_scenario_tests::kubernetes::{Api, Cluster, assets, chart};
use holdfast_scenario_tests::{World, manifests};
use serde_json::Value;

use crate::fixture::Written;
use crate::objects::{self, Edited, ROUTES_OF_FILE};
use crate::requests::Requests;

/// The endpoint of every Service: EndpointSlices do not accept loopback addresses, and nothing connects to it.
pub(crate) const ENDPOINT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 244, 0, 1)), 8080);
/// Path of the HTTPRoutes.
pub(crate) const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes";
/// Paths of the kinds of which there are many objects.
const PATHS: [(&str, &str); 3] = [
    ("HTTPRoute", ROUTES),
    ("Service", "/api/v1/namespaces/default/services"),
    ("EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"),
];
/// Number of objects that are created at the same time.
const AT_ONCE: usize = 8;

/// A running API server with the objects.
#[derive(Debug)]
pub(crate) struct ApiServer {
    cluster: Cluster,
    pub(crate) api: Api,
}

/// Checks that the programs of the API server are available; builds them where the cache does not have them.
pub(crate) fn check() -> Result<()> {
    assets::find().context("--input kubernetes needs kube-apiserver, etcd and kubectl").map(drop)
}

impl ApiServer {
    /// Starts an API server, and creates the class, the Gateway with a listener on this port, the routes and the Services.
    pub(crate) async fn start(world: &World, port: u16, routes: usize) -> Result<Self> {
        let cluster = Cluster::start(world).await?;
        let gateway = manifests::gateway("public", &manifests::http_listener(port));
        cluster.apply(manifests::documents(&[manifests::class(), gateway])).await?;
        let server = Self { api: Api::of(&cluster).await?, cluster };
        let services = (0..routes.div_ceil(ROUTES_OF_FILE)).map(|file| objects::service_of(file, ENDPOINT));
        server.create(services).await?;
        server.create((0..routes).map(|number| objects::route(number, &Edited::default()))).await?;
        Ok(server)
    }

    async fn create(&self, texts: impl Iterator<Item = String>) -> Result<()> {
        let creations = stream::iter(texts).map(|text| self.create_all(text)).buffer_unordered(AT_ONCE);
        creations.try_collect::<()>().await
    }

    async fn create_all(&self, text: String) -> Result<()> {
        for object in chart::objects(&text)? {
            let created = self.api.create(path(&object)?, &object).await?;
            ensure!(created.is_some(), "{} exists", object["metadata"]["name"]);
        }
        Ok(())
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> String {
        self.cluster.kubeconfig().display().to_string()
    }

    /// Replaces a route with this version.
    pub(crate) async fn replace(&self, number: usize, edited: &Edited) -> Result<Written> {
        let patch = chart::objects(&objects::route(number, edited))?.pop().context("no route")?;
        let path = format!("{ROUTES}/{}", objects::name(number));
        let began = Instant::now();
        let answer = self.api.patch(&path, &patch).await?;
        let acknowledged = Some(Instant::now());
        ensure!(answer.is_some(), "the API server does not change {path}");
        Ok(Written { began, acknowledged })
    }

    /// Requests for statuses and Events so far.
    pub(crate) async fn requests(&self) -> Result<Requests> {
        Ok(Requests::of(&self.api.text("/metrics").await?))
    }

    /// Lists all objects of the kinds of which there are many.
    pub(crate) async fn list(&self) -> Result<()> {
        futures::future::try_join_all(PATHS.map(|(_, path)| self.api.list(path))).await.map(drop)
    }
}

fn path(object: &Value) -> Result<&'static str> {
    let of_kind = PATHS.into_iter().find(|(kind, _)| object["kind"] == *kind);
    of_kind.map(|(_, path)| path).with_context(|| format!("no path for {}", object["kind"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_of_many_has_a_path() -> Result<()> {
        let texts = [objects::service_of(0, ENDPOINT), objects::route(0, &Edited::default())];
        for (text, count) in texts.iter().zip([2, 1]) {
            let paths = chart::objects(text)?.iter().map(path).collect::<Result<Vec<_>>>()?;
            assert_eq!(paths.len(), count, "{text}");
        }
        Ok(())
    }
}
