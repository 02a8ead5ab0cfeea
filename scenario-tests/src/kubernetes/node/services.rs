//! Ports of Services at the address of the node, for Pods with a network of their own: each connection goes to the next
//! endpoint, as kube-proxy would do it. Connections stay as they are when the endpoints change.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::network::NODE;
use super::status::text;
use crate::kubernetes::Api;

/// A port of a Service.
#[derive(Debug)]
pub(super) struct ServicePort {
    /// The name of the port and the path of the EndpointSlices; none for the API server.
    slices: Option<(String, String)>,
    endpoints: Arc<Mutex<Vec<SocketAddr>>>,
    serving: JoinHandle<()>,
}

impl Drop for ServicePort {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ServicePort {
    /// Returns the port of the API server, which is at 127.0.0.1 in the network of the story.
    pub(super) async fn of_api_server(port: u16) -> Result<Self> {
        Self::start(port, None, vec![(Ipv4Addr::LOCALHOST, port).into()]).await
    }

    /// Returns the ports of a Service.
    pub(super) async fn of_service(api: &Api, namespace: &str, name: &str) -> Result<Vec<Self>> {
        let services = api.list(&format!("/api/v1/namespaces/{namespace}/services")).await?;
        let service = services.iter().find(|service| service["metadata"]["name"] == name);
        let service = service.with_context(|| format!("no Service {namespace}/{name}"))?;
        let mut ports = Vec::new();
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            let number = port["port"].as_u64().and_then(|number| u16::try_from(number).ok()).context("no port")?;
            let slices = format!(
                "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
            );
            ports.push(Self::start(number, Some((text(&port["name"]).to_owned(), slices)), Vec::new()).await?);
        }
        Ok(ports)
    }

    async fn start(port: u16, slices: Option<(String, String)>, endpoints: Vec<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((NODE, port)).await?;
        let endpoints = Arc::new(Mutex::new(endpoints));
        let serving = tokio::spawn(serve(listener, Arc::clone(&endpoints)));
        Ok(Self { slices, endpoints, serving })
    }

    /// Reads the endpoints.
    pub(super) async fn follow(&self, api: &Api) -> Result<()> {
        let Some((port, path)) = &self.slices else { return Ok(()) };
        let slices = api.list(path).await?;
        let mut addresses: Vec<SocketAddr> = slices.iter().flat_map(|slice| endpoints(slice, port)).collect();
        addresses.sort_unstable();
        *self.endpoints.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        Ok(())
    }
}

/// Returns the addresses of the ready endpoints of a slice.
fn endpoints(slice: &Value, port: &str) -> Vec<SocketAddr> {
    let ports = slice["ports"].as_array().into_iter().flatten();
    let Some(number) = ports.into_iter().find(|own| own["name"] == port).and_then(|own| own["port"].as_u64()) else {
        return Vec::new();
    };
    let ready = slice["endpoints"].as_array().into_iter().flatten().filter(|one| one["conditions"]["ready"] != false);
    let address = |one: &Value| format!("{}:{number}", text(&one["addresses"][0])).parse().ok();
    ready.filter_map(address).collect()
}

async fn serve(listener: TcpListener, endpoints: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut count = 0_usize;
    while let Ok((mut client, _)) = listener.accept().await {
        count = count.wrapping_add(1);
        let next = {
            let all = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            count.checked_rem(all.len()).and_then(|index| all.get(index).copied())
        };
        // Without an endpoint, or if it refuses the connection, the client's connection is closed.
        let Some(endpoint) = next else { continue };
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(endpoint).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_endpoints_get_connections() {
        let slice = json!({
            "ports": [{ "name": "metrics", "port": 1 }, { "name": "grpc-xds", "port": 18000 }],
            "endpoints": [
                { "addresses": ["10.245.1.1"], "conditions": { "ready": true } },
                { "addresses": ["10.245.1.2"], "conditions": { "ready": false } },
                { "addresses": ["10.245.1.3"], "conditions": {} },
            ],
        });
        let expected = ["10.245.1.1:18000", "10.245.1.3:18000"].map(|address| address.parse().ok());
        assert_eq!(endpoints(&slice, "grpc-xds").into_iter().map(Some).collect::<Vec<_>>(), expected);
        assert_eq!(endpoints(&slice, "other"), []);
    }
}
