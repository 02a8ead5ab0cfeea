//! A client of the xDS server that subscribes as an Envoy does and accepts everything: clusters and listeners by
//! wildcard, endpoints and routes by the names in them, and virtual hosts in the separate form. It does not unsubscribe, as no measurement removes an object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout_at;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::names::{self, CLUSTER, LISTENER, ROUTES};
use crate::report::VirtualHosts;
use crate::wire;

/// The Gateway of the measurement, in `node.cluster`.
const GATEWAY: &str = "default/public";

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    requests: UnboundedSender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    read: Arc<AtomicU64>,
    subscribed: BTreeMap<&'static str, BTreeSet<String>>,
    virtual_hosts: VirtualHosts,
}

/// A response and the time of its arrival.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) response: DeltaDiscoveryResponse,
}

impl Client {
    /// Connects to a loopback port.
    pub(crate) async fn connect(port: u16, virtual_hosts: VirtualHosts) -> Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let mut service = wire::open(port, read.clone()).await?;
        let (requests, receiver) = unbounded_channel();
        let user_agent_version_type = Some(version());
        let node = Node { id: "measure".into(), cluster: GATEWAY.into(), user_agent_version_type, ..Node::default() };
        // Only the first request of a stream has a node.
        for (type_url, node) in [(CLUSTER, Some(node)), (LISTENER, None)] {
            requests.send(DeltaDiscoveryRequest { node, type_url: type_url.into(), ..Default::default() })?;
        }
        let responses = service.delta_aggregated_resources(UnboundedReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { requests, responses, read, subscribed: BTreeMap::new(), virtual_hosts })
    }

    /// Number of bytes read from the socket so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Receives a response, acknowledges it, and subscribes to what it names.
    pub(crate) async fn next(&mut self) -> Result<Received> {
        let response = self.responses.message().await?.context("the xDS stream ended")?;
        let at = Instant::now();
        self.requests.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        })?;
        // Whole route configurations name nothing, and are large.
        if (response.type_url != ROUTES || self.virtual_hosts == VirtualHosts::Separate)
            && let Some((type_url, names)) = names::named(&response)?
        {
            self.subscribe(type_url, names)?;
        }
        Ok(Received { at, response })
    }

    /// Receives responses until `found` returns a value for one of them, at most for `limit`.
    pub(crate) async fn until<T>(
        &mut self,
        limit: Duration,
        mut found: impl FnMut(&Received) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            let received = timeout_at(deadline.into(), self.next()).await;
            let received = received.with_context(|| format!("not received within {} s", limit.as_secs()))??;
            if let Some(value) = found(&received)? {
                return Ok(value);
            }
        }
    }

    /// Receives responses for this long; returns their number.
    pub(crate) async fn rest(&mut self, time: Duration) -> Result<u64> {
        let deadline = Instant::now() + time;
        let mut count = 0;
        while let Ok(received) = timeout_at(deadline.into(), self.next()).await {
            received?;
            count += 1;
        }
        Ok(count)
    }

    fn subscribe(&mut self, type_url: &'static str, names: BTreeSet<String>) -> Result<()> {
        let subscribed = self.subscribed.entry(type_url).or_default();
        let added: Vec<String> = names.difference(subscribed).cloned().collect();
        if added.is_empty() {
            return Ok(());
        }
        subscribed.extend(added.iter().cloned());
        let type_url = type_url.into();
        let request = DeltaDiscoveryRequest { type_url, resource_names_subscribe: added, ..Default::default() };
        self.requests.send(request)?;
        Ok(())
    }
}

/// Returns the version of Envoy that the client reports: without one, no acknowledged configuration is stored.
fn version() -> UserAgentVersionType {
    let version = SemanticVersion { major_number: 1, minor_number: 40, patch: 0 };
    UserAgentVersionType::UserAgentBuildVersion(BuildVersion { version: Some(version), ..Default::default() })
}
